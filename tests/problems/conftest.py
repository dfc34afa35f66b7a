import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """References are computed by the code under test, never read from the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KANDLE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
