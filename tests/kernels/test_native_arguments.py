"""Wrong arguments to the compiled handlers: an error that names the argument, never a crash.

The handlers are called directly, as any program can that loads the library, in another process.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from kandle import kernels

pytestmark = pytest.mark.skipif(
    kernels.default_backend() != "native", reason="the native backend is not available here"
)

P, N, I, O = 2, 5, 3, 4
GRID, DEGREE = 5, 3
M = GRID + DEGREE
SPLINE = {
    "grid": np.int64(GRID),
    "degree": np.int64(DEGREE),
    "lo": np.float64(-1.0),
    "hi": np.float64(1.0),
}
JET = {**SPLINE, "first": np.int64(2), "second": np.int64(1), "residual": True}
GLOBAL = {
    "family": np.int64(0),
    "count": np.int64(M),
    "constant": False,
    "tanh": True,
    "lo": np.float64(-1.0),
    "hi": np.float64(1.0),
    "scale": np.float64(1.0),
    "first": np.int64(2),
    "second": np.int64(1),
    "residual": True,
}
ADAM = {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "eps_root": 0.0}
HUGE = 2**31


@dataclass(frozen=True)
class Call:
    """A handler with the shapes of its operands and results by name, and its attributes."""

    handler: str
    operands: dict
    results: dict
    attributes: dict
    dtypes: dict


def good_calls():
    x, y = (P, 4, N, I), (P, 4, N, O)
    weights = {"r": (1, O, I), "c": (P, O, I), "b": (P, O, I, M)}
    inputs = {"x": x, **weights}
    gradients = {"dr": (P, O, I), "dc": (P, O, I), "db": (P, O, I, M), "dbias": (P, O)}
    matrix, outputs, table = (P, N, I), (P, N, O), (P, I, M, O)
    order, pair = {"order": np.int64(1)}, {"order": np.int64(1), "other": np.int64(-1)}
    backward = {**inputs, "g": y}
    # The arrays of Adam have any shape that leads with the models.
    step, of_adam = {"step": (P, 3)}, {"g": (P, N), "m": (P, N), "v": (P, N)}
    moments = {"out": (P, N), "m_out": (P, N), "v_out": (P, N)}
    shapes = [
        ("jet_forward", {**inputs, "bias": (P, O)}, {"y": y}, JET),
        ("jet_backward_x", backward, {"dx": x}, JET),
        ("jet_backward_w", backward, gradients, JET),
        ("jet_backward_xw", backward, {"dx": x, **gradients}, JET),
        ("trilinear_y", {"x": matrix, "a": matrix, "w": table}, {"y": outputs}, SPLINE | order),
        ("trilinear_a", {"x": matrix, "w": table, "g": outputs}, {"a": matrix}, SPLINE | order),
        ("trilinear_w", {"x": matrix, "a": matrix, "g": outputs}, {"w": table}, SPLINE | order),
        ("pair_a", {"x": matrix, "w": (P, I, M)}, {"a": matrix}, SPLINE | pair),
        ("pair_w", {"x": matrix, "a": matrix}, {"w": (P, I, M)}, SPLINE | pair),
        ("total", {"x": (P, N)}, {"y": (P,)}, {}),
        ("global_forward", {**inputs, "bias": (P, O)}, {"y": y}, GLOBAL),
        ("global_backward_x", backward, {"dx": x}, GLOBAL),
        ("global_backward_w", backward, gradients, GLOBAL),
        ("global_backward_xw", backward, {"dx": x, **gradients}, GLOBAL),
        ("adam_update", {**step, **of_adam}, moments, ADAM),
        ("adam_apply", {**step, "w": (P, N), **of_adam}, moments, ADAM),
    ]
    return [Call(*shape, dtypes={}) for shape in shapes]


def wrong_attributes(call):
    bad = {
        "grid": [-1, 0, 2**23, 2**62],
        "degree": [-1, 0, 6, HUGE],
        "order": [-1000, -1, 4, HUGE, -(2**63)],
        "other": [-1000, -2, 4, HUGE],
        "family": [-1, 4, HUGE],
        "count": [-1, 0, 1025, 2**62],
        "scale": [float("nan"), float("inf"), 0.0, -1.0],
        "lo": [float("nan"), float("inf"), 1.0, 2.0],
        "hi": [float("nan"), float("inf"), -1.0, -2.0],
    }
    for name, values in bad.items():
        for value in values if name in call.attributes else ():
            kind = type(call.attributes[name])
            named = "hi" if name == "lo" and np.isfinite(value) else name
            yield replace(call, attributes=call.attributes | {name: kind(value)}), {named}
    if "first" in call.attributes:
        pairs = [(1, 0), (2, 0), (3, 0), (-1, 1), (0, 1), (1, 2), (3, 3), (HUGE, 0), (-1, -1)]
        for first, second in pairs:
            changed = {"first": np.int64(first), "second": np.int64(second)}
            yield replace(call, attributes=call.attributes | changed), {"(first, second)"}
    if {"first", "degree"} <= call.attributes.keys():
        quintic = {"degree": np.int64(5)}
        yield replace(call, attributes=call.attributes | quintic), {"(first, second)"}
    if "family" in call.attributes:  # families whose number of functions is another
        for changed in ({"family": np.int64(2)}, {"constant": True}, {"count": np.int64(M - 1)}):
            yield replace(call, attributes=call.attributes | changed), {"b"}


def wrong_shapes(call):
    every = {*call.operands, *call.results}
    for group in ("operands", "results"):
        arrays = getattr(call, group)
        for name, shape in arrays.items():
            changed = [(shape[0] + 2, *shape[1:]), shape[1:]]
            if name == "step" or not call.handler.startswith("adam"):
                changed.append((*shape, 1))
            # Rows of any length have a total.
            for axis in range(1, 1 if call.handler == "total" else len(shape)):
                for step in (-1, 1):
                    changed.append((*shape[:axis], shape[axis] + step, *shape[axis + 1 :]))
            for other in changed:
                # An extent that defines the sizes makes another array the wrong one.
                yield replace(call, **{group: arrays | {name: other}}), every
            other_dtype = replace(call, dtypes={name: "other"})
            yield other_dtype, {name}


def wrong_numbers(call):
    if call.handler.startswith("adam"):
        extra = {"extra": (P, N)}
        yield replace(call, operands=call.operands | extra), {"the number of operands"}
        yield replace(call, operands={"step": (P, 3)}), {"the number of operands"}
        yield replace(call, results=call.results | extra), {"the number of results"}


def wrong_calls():
    for call in good_calls():
        yield from wrong_attributes(call)
        yield from wrong_shapes(call)
        yield from wrong_numbers(call)


def invoke(call, bits):
    """Run one handler with the given shapes; raises what XLA raises."""
    import jax

    other = {32: "float64", 64: "float32"}[bits]

    def dtype(name):
        return other if name in call.dtypes else f"float{bits}"

    operands = [np.zeros(shape, dtype(name)) for name, shape in call.operands.items()]
    results = [jax.ShapeDtypeStruct(s, dtype(name)) for name, s in call.results.items()]
    target = f"kandle_{call.handler}_f{bits}_v1"
    one = results[0] if len(results) == 1 else results
    compiled = jax.jit(lambda *x: jax.ffi.ffi_call(target, one)(*x, **call.attributes))
    return jax.block_until_ready(compiled(*operands))


def check_all():
    """In the subprocess: the counts of accepted and refused calls, and what was not as expected."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_traceback_filtering", "off")  # slower than the calls, over a thousand
    accepted = refused = 0
    unexpected = []
    for bits in (32, 64):
        for call in good_calls():
            invoke(call, bits)
            accepted += 1
        for index, (call, names) in enumerate(wrong_calls()):
            if bits == 64 and index % 8:
                continue  # one template serves both: a part of the calls will do
            try:
                invoke(call, bits)
            except jax.errors.JaxRuntimeError as error:
                refused += 1
                named = {name for name in names if f"kandle: {name} must be" in str(error)}
                if not named:
                    unexpected.append(f"{call}: {error}")
            else:
                unexpected.append(f"accepted {call}")
    print(json.dumps({"accepted": accepted, "refused": refused, "unexpected": unexpected[:5]}))


def exhaust_memory():
    """In the subprocess: a layer whose packed weights do not fit into what memory is left."""
    import resource

    import jax

    n_in = 1_500_000
    operands = {"x": (1, 1, 1, n_in), "r": (1, 2, n_in), "c": (1, 2, n_in), "b": (1, 2, n_in, 4)}
    value = JET | {"grid": np.int64(1), "first": np.int64(0), "second": np.int64(0)}
    call = Call("jet_forward", {**operands, "bias": (1, 2)}, {"y": (1, 1, 1, 2)}, value, {})
    invoke(good_calls()[0], 32)  # starts XLA's threads, which need memory of their own
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, hard))
    try:
        invoke(call, 32)
    except jax.errors.JaxRuntimeError as error:
        print(json.dumps(str(error)))


def in_a_process(function):
    folder = os.path.dirname(__file__)
    program = f"import sys; sys.path.insert(0, {folder!r}); import {__name__.split('.')[-1]} as t; "
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program + f"t.{function.__name__}()"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_wrong_argument_is_an_error_that_names_it():
    counts = in_a_process(check_all)
    assert counts["unexpected"] == []
    assert counts["accepted"] == 32
    assert counts["refused"] >= 200


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the address space")
def test_no_memory_is_an_error_and_not_the_end_of_the_process():
    assert "kandle: no memory" in in_a_process(exhaust_memory)
