"""Checksums: what is read back is what was written, or an error names it."""

import hashlib
from collections.abc import Iterable, Sequence


def checksum(*parts: object) -> str:
    """16 hexadecimal digits that depend on every bit of plain values and bytes."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def combined(identities: Iterable[str], start: str = "0") -> str:
    """The exclusive or of the hashes of identities, which does not depend on their order."""
    digest = int(start, 16)
    for identity in identities:
        hashed = hashlib.blake2b(str(identity).encode("utf-8", "surrogatepass"), digest_size=16)
        digest ^= int.from_bytes(hashed.digest())
    return f"{digest:032x}"


def curve_checksum(identity: str, curve: Sequence[bytes]) -> str | None:
    """The checksum of a run's packed curve (steps, loss); None without one."""
    return checksum(identity, *curve) if curve else None


def spectra_checksum(identity: str, rows: Iterable[Sequence[object]]) -> str | None:
    """The checksum of a run's packed spectra (block, step, eigenvalues, error_share); None without
    any.
    """
    ordered = sorted(map(tuple, rows), key=lambda row: row[:2])
    return checksum(identity, *(part for row in ordered for part in row)) if ordered else None
