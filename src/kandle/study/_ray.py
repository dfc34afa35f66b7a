"""Workers on a Ray cluster."""

import functools
import os
import socket
import sys
import time
from typing import Any

from kandle._errors import must, needs_extra
from kandle.study._batch import Batch
from kandle.study._environment import ONE_THREAD, prepare
from kandle.study._execute import TRAINER, execute, load_runner, one_line_reason
from kandle.study._executor import Done, Executor, Lost, StudyError
from kandle.study._local import usable_cores


class RayExecutor(Executor):
    """One Ray task per batch, on the cluster at `address` or on a local one, started and stopped
    here.

    - `cpus`, `gpus`: what a batch requests; a fraction shares a GPU;
    - `workers`: how many batches at a time on a cluster started here, by default one per core.

    Ray's own retries are off: it would retry a task that runs out of memory forever, and cannot
    split a batch. A result that is lost with its node counts as a lost batch.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus: float = 1,
        gpus: float = 0,
        runner: str = TRAINER,
    ):
        if not cpus + gpus > 0:
            raise must("'cpus' and 'gpus' of RayExecutor", "not both 0", (cpus, gpus))
        with needs_extra("Running on Ray", "ray"):
            import ray
        self._ray: Any = ray
        self._cpus, self._gpus = cpus, gpus
        self._joined = ray.is_initialized()
        if not self._joined:
            _connect(ray, address, workers or usable_cores())
        self._task = ray.remote(_work).options(
            num_cpus=cpus, num_gpus=gpus, max_retries=0, retry_exceptions=False
        )
        self._runner = runner
        # A user's own problem may be a module that only the driver's path contains.
        self._path = [entry or os.getcwd() for entry in sys.path]
        self._under_way: dict[Any, Batch] = {}
        # A client of a remote cluster (`ray://`) has no node of its own.
        remote = (address or "").startswith("ray://")
        self._home = None if remote else ray.get_runtime_context().get_node_id()
        if self.slots < 1:
            self.close()
            raise StudyError(
                f"No node of the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs for a batch."
            )

    @property
    def slots(self) -> int:
        """How many batches fit on the cluster's live nodes.

        Nothing can be submitted once the node of this process has died (it dies with any of its
        agents): an error, because waiting would never end.
        """
        try:
            nodes = self._ray.nodes()
        except (self._ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
            raise StudyError(
                f"Ray has stopped: {one_line_reason(error).rstrip('.')}. All finished runs are "
                "stored: rerun the same command to resume."
            ) from None
        if any(node["NodeID"] == self._home and not node["Alive"] for node in nodes):
            raise StudyError(
                "Ray's node on this machine has died (logs: /tmp/ray/session_latest/logs). "
                "All finished runs are stored: rerun the same command to resume."
            )
        return sum(
            int(
                min(
                    _fits(node["Resources"], "CPU", self._cpus),
                    _fits(node["Resources"], "GPU", self._gpus),
                )
            )
            for node in nodes
            if node["Alive"]
        )

    def submit(self, batch: Batch) -> None:
        self._under_way[self._task.remote(self._runner, self._path, batch.specs)] = batch

    def wait(self, timeout: float) -> list[Done | Lost]:
        if not self._under_way:
            time.sleep(timeout)  # no node is free; one may join
            return []
        ready, _ = self._ray.wait(
            list(self._under_way), num_returns=1, timeout=timeout, fetch_local=True
        )
        return [self._report(task) for task in ready]

    def close(self) -> None:
        for task in self._under_way:
            self._ray.cancel(task, force=True)
        self._under_way.clear()
        if not self._joined:
            self._ray.shutdown()

    def _report(self, task: Any) -> Done | Lost:
        batch = self._under_way.pop(task)
        try:
            outcomes, seconds = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            return Lost(batch, one_line_reason(error.cause or error), again=False)
        except self._ray.exceptions.RayError as error:
            return Lost(batch, f"worker lost on Ray: {one_line_reason(error)}", again=True)
        return Done(batch, outcomes, seconds)


def _connect(ray: Any, address: str | None, workers: int) -> None:
    options: dict[str, Any] = {"runtime_env": {"env_vars": ONE_THREAD}, "log_to_driver": False}
    if address is None:
        options |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
        options["_node_ip_address"] = "127.0.0.1"  # not reachable from other machines
    else:
        _check_reachable(address)
        options["address"] = address
    try:
        ray.init(**options)
    except Exception as error:  # Ray raises plain exceptions too, when a node starts too slowly
        reason = one_line_reason(error).rstrip(".")
        if address is None:
            raise StudyError(
                f"Ray cannot be started here: {reason}. All finished runs are stored: rerun the "
                "same command, with --ray or without."
            ) from None
        raise StudyError(f"There is no Ray cluster at {address}: {reason}.") from None


def _check_reachable(address: str) -> None:
    """Raise unless something listens at `host:port`: Ray itself would keep trying for minutes.

    Ray resolves `auto` and addresses with a scheme (`ray://…`) itself.
    """
    if address == "auto" or "://" in address:
        return
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit()):
        raise must("The address of a Ray cluster", "HOST:PORT, ray://HOST:PORT or auto", address)
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise StudyError(f"There is no Ray cluster at {address}: {error}.") from None


def _fits(resources: dict[str, float], name: str, amount: float) -> float:
    return resources.get(name, 0) / amount if amount else float("inf")


def _work(runner: str, path: list[str], specs: Any) -> Any:
    """What a Ray worker does with a batch."""
    sys.path += [entry for entry in path if entry not in sys.path]
    prepare()
    return execute(_loaded(runner), specs)


_loaded = functools.cache(load_runner)
