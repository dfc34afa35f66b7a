"""Where a store lies: the filesystem under it, and the lock of its one writer."""

import contextlib
import errno
import fcntl
import os
import re
import socket
import time
from pathlib import Path

from kandle.store._errors import StoreError

# SQLite's write-ahead log needs shared memory and locks that these do not give across machines.
_NETWORK = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
    *("ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "wekafs"),
    *("fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "fuse.rclone", "fuse.s3fs"),
    "fuse.sshfs",
)


def filesystem(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the filesystem that holds `path` (`ext4`, `nfs4`, …), or empty text where it
    cannot be determined.
    """
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    path, best, found = path.resolve(), -1, ""
    for line in lines:
        mount, _, source = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount.split()[4])
        # A later mount on the same point hides the earlier one.
        if path.is_relative_to(point) and len(point) >= best:
            best, found = len(point), source.split()[0]
    return found


def on_network(path: Path) -> bool:
    return filesystem(path) in _NETWORK


def refuse_network(directory: Path) -> None:
    if on_network(directory):
        raise StoreError(
            f"The store {directory} lies on a network filesystem ({filesystem(directory)}), where "
            "writing it is not safe. Write to a local disk (on a cluster: the node's scratch, "
            "with --shard I/N), copy the finished store here, and join several with 'kandle "
            "study merge'."
        )


class WriterLock:
    """Held by the one process that writes a store; the system releases it when that process ends,
    however it ends.
    """

    def __init__(self, directory: Path):
        try:
            self._file = os.open(directory / "writer.lock", os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError as error:
            raise StoreError(
                f"The store {directory} cannot be written here ({error.strerror})."
            ) from None
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            raise StoreError(f"The store {directory} is on a read-only disk.") from None
        if not self._acquire():
            holder = os.pread(self._file, 200, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreError(
                f"The store {directory} is being written by {holder or 'another process'}. Wait "
                "for it, stop it, or use another store and merge the two afterwards."
            )
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _acquire(self) -> bool:
        # `writer` below holds the lock for an instant when it looks; only one that stays is a
        # writer.
        for _ in range(5):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
            else:
                return True
        return False

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.close(self._file)


def writer(directory: Path) -> str | None:
    """Who writes the store now (`process 4242 on host`), or None."""
    try:
        file = os.open(directory / "writer.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # A shared lock is refused while the writer holds its own, and does not disturb other
        # readers.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(file, 200).decode(errors="replace").strip() or "another process"
    except OSError:
        return None
    finally:
        os.close(file)
    return None
