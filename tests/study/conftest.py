import os

import pytest
import study_driver
from study_rows import rows

from kandle import study


class Notes:
    """A watcher that records its calls."""

    def __init__(self):
        self.notes = []
        self.last = None

    def show(self, progress):
        self.last = progress

    def note(self, message):
        self.notes.append(message)


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def plan():
    return study_driver.plan()


@pytest.fixture(scope="session")
def ray_cluster():
    """Ray with two nodes on this machine, all of it on loopback."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray's switch for loopback addresses
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    quick_to_notice = {"health_check_period_ms": 500, "health_check_initial_delay_ms": 500}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": quick_to_notice}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    assert cluster.address.startswith("127.0.0.1:")
    cluster.add_node(num_cpus=1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def expected(plan, tmp_path, notes):
    """The rows of an undisturbed run."""
    directory = tmp_path / "expected"
    study.run(
        plan,
        directory,
        executor=lambda: study.InlineExecutor("study_fake:train"),
        watcher=notes,
    )
    found = rows(directory)
    assert len(found[0]) == plan.runs == 2 * 2 * (4 * 5 + 4 * 3)
    return found
