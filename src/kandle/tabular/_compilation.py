"""Compiled training loops on disk, so that a second process need not compile them again."""

import contextlib
from collections.abc import Iterator

import jax
from jax.experimental.compilation_cache import compilation_cache

from kandle._cache import programs_directory


@contextlib.contextmanager
def cached_compilation() -> Iterator[None]:
    """Use the folder of compiled programs that studies use, unless the caller has set one.

    JAX's own settings are as before afterwards. A folder that cannot be written is no error: JAX
    warns, and compiles.
    """
    ours = {
        "jax_compilation_cache_dir": str(programs_directory()),
        # Small programs too: a fit has few, and together they take as long as its large one.
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in ours}
    if before["jax_compilation_cache_dir"] is not None:
        yield
        return
    _configure(ours)
    try:
        yield
    finally:
        _configure(before)


def _configure(settings: dict) -> None:
    for name, value in settings.items():
        jax.config.update(name, value)
    # JAX decides once whether it has a cache.
    compilation_cache.reset_cache()
