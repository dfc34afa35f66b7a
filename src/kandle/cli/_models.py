"""Saved models as commands take them: plain networks, and networks fitted to a table."""

from typing import Any

from kandle._errors import UserError


def load_any(path: str) -> tuple[Any, Any | None]:
    """The network in a file, and all of the fit where `kandle fit` or an estimator saved it."""
    from kandle._compat import enable_x64
    from kandle.nn import load, load_metadata
    from kandle.tabular import load_fitted

    with enable_x64(True):  # so that a model of any precision can be read
        if "kandle-fit" in load_metadata(path):
            fitted = load_fitted(path)
            return fitted.model, fitted
        return load(path), None


def table_inputs(path: str, fitted: Any | None, n_in: int) -> Any:
    """The rows of a table as the network takes them: scaled, for a fitted one."""
    from kandle.tabular import numbers, read_frame

    frame = read_frame(path)
    if fitted is not None:
        encoder = fitted.encoder
        x = numbers(frame, fitted.inputs.columns) if encoder is None else encoder.apply(frame)
        return fitted.inputs.apply(x)
    if len(frame.columns) != n_in:
        raise UserError(f"{path} has {len(frame.columns)} columns, the model {n_in} inputs.")
    return numbers(frame, list(frame.columns))
