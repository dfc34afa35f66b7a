"""A network as an ONNX graph of plain operators."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kandle._errors import needs_extra
from kandle.export._pieces import Portable, PortableLayer

_OPSET = 17
_IR_VERSION = 8  # what runtimes since 2022 read


def onnx_model(model: Portable) -> bytes:
    """The serialized graph: input `x` (N, n_in), output `y` (N, n_out), both float32.

    Every cell of a layer's knots contributes the powers of its local coordinate, masked to the
    rows that lie in it, and one matrix product sums them with the coefficients.
    """
    with needs_extra("Exporting to ONNX", "onnx"):
        import onnx
        from onnx import TensorProto, helper
    graph = _Graph()
    z = graph.node("Sub", "x", graph.constant(model.input_offset))
    z = graph.node("Div", z, graph.constant(model.input_scale))
    for layer in model.layers:
        z = _layer(graph, layer, z)
    z = graph.node("Mul", z, graph.constant(model.output_scale))
    graph.node("Add", z, graph.constant(model.output_offset), output="y")
    n_in, n_out = model.widths[0], model.widths[-1]
    built = helper.make_graph(
        graph.nodes,
        "kandle",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", n_in])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", n_out])],
        graph.constants,
    )
    whole = helper.make_model(
        built, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="kandle"
    )
    whole.ir_version = _IR_VERSION
    described = {"inputs": model.input_names, "outputs": model.output_names}
    if model.classes is not None:
        described["classes"] = model.classes
    helper.set_model_props(whole, {key: "\n".join(names) for key, names in described.items()})
    onnx.checker.check_model(whole, full_check=True)
    return whole.SerializeToString()


class _Graph:
    """Nodes and constants under names that count up."""

    def __init__(self):
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: ArrayLike, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output


def _layer(graph: _Graph, layer: PortableLayer, x: str) -> str:
    n_in, cells, n_out, powers = layer.coefficients.shape
    lows, highs = layer.knots[:-1], layer.knots[1:]
    column = graph.node("Unsqueeze", x, graph.constant([2], np.int64))  # (N, n_in, 1)
    u = graph.node("Sub", column, graph.constant((lows + highs) / 2))  # (N, n_in, cells)
    u = graph.node("Mul", u, graph.constant(1.0 / (highs - lows)))
    # The same rounded numbers end one cell and begin the next: no row is in two cells, or in none.
    ends = [graph.constant(ends) for ends in (lows, highs)]
    inside = graph.node(
        "And",
        graph.node("GreaterOrEqual", column, ends[0]),
        graph.node("Less", column, ends[1]),
    )
    u = graph.node("Where", inside, u, graph.constant(np.zeros(())))
    power = graph.node("Cast", inside, to=1)  # u⁰, where the row is in the cell
    terms = [power]
    for _ in range(powers - 1):
        power = graph.node("Mul", power, u)
        terms.append(power)
    axis = graph.constant([3], np.int64)
    stacked = graph.node("Concat", *(graph.node("Unsqueeze", term, axis) for term in terms), axis=3)
    shape = graph.constant([-1, n_in * cells * powers], np.int64)
    flat = graph.node("Reshape", stacked, shape)
    weights = layer.coefficients.transpose(0, 1, 3, 2).reshape(-1, n_out)
    y = graph.node("MatMul", flat, graph.constant(weights))
    if layer.r is not None and layer.residual is not None:
        R = _residual(graph, layer.residual, x)
        y = graph.node("Add", y, graph.node("MatMul", R, graph.constant(layer.r)))
    else:  # a row with NaN or infinity, which is in no cell, still gives NaN
        nothing = graph.node("Mul", x, graph.constant(np.zeros(())))
        total = graph.node("ReduceSum", nothing, graph.constant([1], np.int64), keepdims=1)
        y = graph.node("Add", y, total)
    return graph.node("Add", y, graph.constant(layer.bias))


def _residual(graph: _Graph, name: str, x: str) -> str:
    if name == "silu":
        return graph.node("Mul", x, graph.node("Sigmoid", x))
    if name == "gelu":
        cube = graph.node("Mul", graph.node("Mul", x, x), x)
        inner = graph.node("Add", x, graph.node("Mul", cube, graph.constant(np.array(0.044715))))
        inner = graph.node("Mul", inner, graph.constant(np.array(np.sqrt(2 / np.pi))))
        half = graph.node("Mul", x, graph.constant(np.array(0.5)))
        one = graph.node("Add", graph.node("Tanh", inner), graph.constant(np.array(1.0)))
        return graph.node("Mul", half, one)
    operator = {"identity": "Identity"}.get(name, name.capitalize())
    return graph.node(operator, x)
