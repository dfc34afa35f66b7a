"""A network in one call equals its layers one by one, and steps aside where these are called."""

# ruff: noqa: E402

import copy
import gc
import pickle
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad
from torch.nn.utils import parametrize, prune

from kandle import UserError
from kandle._route import LayerSpec
from kandle.bases import BSpline
from kandle.kernels import route
from kandle.torch import KAN, KANLinear, _native

pytestmark = pytest.mark.skipif(
    route(KAN([1, 1]), torch.zeros(1, 1)).path != "one call",
    reason="the native kernels are not built",
)


def build(widths=(2, 5, 3, 1), dtype=torch.float64, seed=0, **options):
    torch.manual_seed(seed)
    model = KAN(widths, dtype=dtype, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model


def rows(n=37, n_in=2, dtype=torch.float64):
    return 2.4 * torch.rand(n, n_in, dtype=dtype, generator=torch.Generator().manual_seed(n)) - 1.2


def one_by_one(model, x):
    for layer in model.layers:
        x = layer(x)
    return x


def is_one_call(model, x=None):
    with torch.no_grad():
        return route(model, rows() if x is None else x).path == "one call"


def refused(model, x=None):
    """Why the network is not one call."""
    return route(model, rows() if x is None else x).reasons["one call"]


def own_nodes(tensor):
    """How many nodes of a tensor's graph are Kandle's: the names of PyTorch's end in a digit."""
    nodes, seen = [tensor.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [following for following, _ in node.next_functions]
    names = [node.name() for node in seen]
    return sum(not name[-1].isdigit() and "::" not in name for name in names)


def assert_same(ours, theirs, tolerance):
    for a, e in zip(ours, theirs, strict=True):
        assert (a is None) == (e is None)
        if a is None:
            continue
        if tolerance == 0:
            assert torch.equal(a, e)
        else:
            scale = e.abs().max().item()
            torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance * scale)


# ---- numbers -------------------------------------------------------------------------------------

OPTIONS = [
    {},
    {"residual": None},
    {"bias": False},
    {"enable_standalone_scale_spline": False},
    {"spline_order": 2, "domain": (0.0, 2.0)},
    {"grid_size": [3, 9, 4]},
]


def trained(model, forward, x, y):
    """The output and all gradients of a regression loss."""
    model.zero_grad()
    output = forward(x)
    torch.mean((output - y) ** 2).backward()
    return [output.detach(), *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_training_has_the_bits_of_the_layers(options, dtype):
    model, x = build(dtype=dtype, **options), rows(dtype=dtype)
    y = torch.randn(37, 1, dtype=dtype)
    assert is_one_call(model, x)
    ours = trained(model, model, x, y)
    assert_same(ours, trained(model, lambda x: one_by_one(model, x), x, y), 0)


@pytest.mark.parametrize("widths", [(2, 1), (2, 40, 20, 3), (3, 300, 2)])
def test_wide_and_shallow_networks_have_the_bits_of_the_layers(widths):
    model, x = build(widths, torch.float32), rows(50, widths[0], torch.float32)
    y = torch.randn(50, widths[-1])
    ours = trained(model, model, x, y)
    assert is_one_call(model, x)
    assert_same(ours, trained(model, lambda x: one_by_one(model, x), x, y), 0)
    with torch.no_grad():
        assert torch.equal(model(x), ours[0])


def test_bits_do_not_depend_on_the_number_of_threads():
    model, x = build((2, 8, 8, 1), torch.float32), rows(3000, dtype=torch.float32)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append([*trained(model, model, x, 0.0), *differentiated(model, model, x, 2)])
    finally:
        torch.set_num_threads(before)
    assert_same(*results, 0)


@pytest.mark.parametrize("widths", [(2, 8, 8, 1), (2, 40, 8, 1), (40, 8, 1)], ids=str)
@pytest.mark.parametrize("wanted", ["all", "last layer", "inputs"])
def test_chunks_of_samples_have_the_bits_of_the_layers(widths, wanted):
    """Layers with short rows are cut into chunks, which go through the network side by side."""
    model, x = build(widths, torch.float32), rows(3000, widths[0], torch.float32)
    if wanted == "last layer":
        model.layers[:-1].requires_grad_(False)
    if wanted == "inputs":
        model.requires_grad_(False)
        x.requires_grad_()
    results = []
    for forward in (model, lambda x: one_by_one(model, x)):
        results.append(trained(model, forward, x, 0.5))
        if wanted == "inputs":
            results[-1] += torch.autograd.grad(forward(x).square().sum(), x)
    assert_same(*results, 0)


def differentiated(model, forward, x, order, squared=True):
    """Derivatives in x up to an order, then all gradients of a loss with each of them in it."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    u = forward(x)
    results, value = [u], (u**2).sum() if squared else u.sum()
    for _ in range(order):
        (slope,) = torch.autograd.grad(value, x, create_graph=True)
        results.append(slope)
        # Bounded: powers of high derivatives would only measure how errors grow.
        value = slope[:, 1].sum() + torch.tanh(slope[:, 0]).sum()
    sum(torch.tanh(result).square().mean() for result in results).backward()
    return [*results, x.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("squared", [True, False])
@pytest.mark.parametrize("options", OPTIONS[:4], ids=str)
@pytest.mark.parametrize("widths", [(2, 4, 3, 2), (2, 3, 1, 2, 1)], ids=str)
def test_derivatives_of_a_pinn(widths, options, squared, order):
    # More rows than a block of the kernels has where the derivatives are theirs.
    model, x = build(widths, **options), rows(300 if order < 3 else 9)
    ours = differentiated(model, model, x, order, squared)
    expected = differentiated(model, lambda x: one_by_one(model, x), x, order, squared)
    assert_same(ours, expected, 1e-10)


@pytest.mark.parametrize("widths", [(2, 8, 8, 1), (2, 3, 1, 2, 1)], ids=str)
def test_every_derivative_of_a_pinn_is_one_call(widths):
    model, x = build(widths, torch.float32), rows(dtype=torch.float32).requires_grad_()
    assert route(model, x).path == "one call"
    u = model(x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (d_xx,) = torch.autograd.grad(du[:, 1].sum(), x, create_graph=True)
    assert [own_nodes(value) for value in (u, du, d_xx)] == [1, 1, 1]
    assert own_nodes((u + du[:, :1] - d_xx[:, 1:]).square().mean()) == 3


def test_networks_without_native_derivatives_are_called_layer_by_layer_where_x_has_gradients():
    x = rows()
    for options in ({"spline_order": 2}, {"widths": (2, 300, 1)}):
        model = build(**options)
        assert is_one_call(model, x)
        reason = refused(model, x.clone().requires_grad_())
        assert "the inputs require gradients" in reason
        assert "degree 2" in reason or "300 outputs" in reason


def test_gradcheck_and_gradgradcheck():
    model, x = build((2, 3, 1)), rows(3).requires_grad_()
    weights = tuple(model.parameters())

    def value(x, *weights):
        names = [name for name, _ in model.named_parameters()]
        return torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x,))

    assert torch.autograd.gradcheck(value, (x, *weights))
    assert torch.autograd.gradgradcheck(value, (x, *weights))


def test_third_derivatives_equal_the_plain_operations():
    model, x = build((2, 3, 2)), 0.8 * rows(5)
    ours = differentiated(model, model, x, 3)
    with forward_ad.dual_level():
        assert route(model, x).path == "plain"
        assert_same(ours, differentiated(model, model, x, 3), 1e-9)


def test_derivatives_of_gradients_in_the_weights():
    """As in meta-learning: a step of gradient descent, differentiated."""
    model, x = build((2, 3, 1)), rows(7)
    weights = list(model.parameters())
    results = []
    for forward in (model, lambda x: one_by_one(model, x)):
        loss = forward(x).square().mean()
        gradients = torch.autograd.grad(loss, weights, create_graph=True)
        penalty = sum(gradient.square().sum() for gradient in gradients)
        results.append(torch.autograd.grad(penalty, weights))
    assert_same(*results, 1e-10)


def test_some_gradients_only():
    model, x = build(), rows().requires_grad_()
    u = model(x)
    (all_x, *_) = torch.autograd.grad(u.sum(), [x, *model.parameters()], retain_graph=True)
    (only_x,) = torch.autograd.grad(u.sum(), x, retain_graph=True)
    last = model.layers[-1].spline_weight
    (only_last,) = torch.autograd.grad(u.sum(), last)
    assert torch.equal(only_x, all_x)
    (expected,) = torch.autograd.grad(one_by_one(model, x).sum(), last)
    assert torch.equal(only_last, expected)


# ---- PyTorch's own machinery ---------------------------------------------------------------------


def test_leading_axes_and_rows_that_are_not_contiguous():
    model, x = build(), rows(24)
    assert torch.equal(model(x.reshape(2, 3, 4, 2)).reshape(24, 1), model(x))
    assert torch.equal(model(x.T.contiguous().T), model(x))
    assert torch.equal(model(x[:1].expand(24, 2)), model(x[:1]).expand(24, 1))
    assert model(x[0]).shape == (1,)


def test_no_rows():
    model = build()
    y = model(torch.zeros(0, 2, dtype=torch.float64))
    assert y.shape == (0, 1)
    y.sum().backward()
    assert all(parameter.grad.eq(0).all() for parameter in model.parameters())
    x = torch.zeros(0, 2, dtype=torch.float64, requires_grad=True)
    (dx,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    (dxx,) = torch.autograd.grad(dx.sum(), x, create_graph=True)
    dxx.sum().backward()
    assert x.grad.shape == (0, 2)


def test_frozen_parameters():
    model, x = build(), rows()
    expected = trained(model, model, x, 1.0)[1:]
    model.layers[0].requires_grad_(False)
    model.layers[1].spline_scaler.requires_grad_(False)
    model.layers[2].bias.requires_grad_(False)
    trained(model, model, x, 1.0)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert (parameter.grad is None) == (not parameter.requires_grad)
        assert parameter.grad is None or torch.equal(parameter.grad, gradient)
    model.requires_grad_(False)
    assert not model(x).requires_grad


def test_no_grad_and_inference_mode():
    model, x = build(), rows()
    expected = model(x).detach()
    with torch.no_grad():
        assert torch.equal(model(x), expected)
    with torch.inference_mode():
        y = model(x)
        assert y.is_inference()
        assert torch.equal(y, expected)
        assert route(model, x).path == "one call"


def test_weights_shared_between_layers():
    model = build((3, 3, 3))
    model.layers[1] = model.layers[0]
    x = rows(n_in=3)
    y = torch.zeros(37, 3, dtype=torch.float64)
    assert is_one_call(model, x)
    ours = trained(model, model, x, y)
    assert_same(ours, trained(model, lambda x: one_by_one(model, x), x, y), 1e-12)


def test_retain_graph_and_accumulation():
    model, x = build(), rows()
    loss = model(x).square().mean()
    loss.backward(retain_graph=True)
    once = [parameter.grad.clone() for parameter in model.parameters()]
    loss.backward()
    assert_same([parameter.grad for parameter in model.parameters()], [2 * g for g in once], 0)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


@pytest.mark.parametrize("what", ["weight", "input"])
def test_writing_to_a_saved_tensor_is_noticed(what):
    model, x = build(), rows()
    loss = model(x).sum()
    with torch.no_grad():
        (model.layers[1].spline_weight if what == "weight" else x).add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_the_output_may_be_written_to():
    model, x = build(), rows()
    y = model(x)
    y += 1.0
    y.sum().backward()


def test_anomaly_mode():
    model, x = build(), rows()
    model.layers[0].bias.requires_grad_(False)
    with pytest.warns(UserWarning, match="Anomaly"):
        anomaly = torch.autograd.detect_anomaly()
    with anomaly:
        trained(model, model, x, 1.0)
        differentiated(model, model, x, 2)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant):
    from torch.utils.checkpoint import checkpoint

    model, x = build(), rows().requires_grad_()
    expected = trained(model, model, x, 1.0)
    ours = trained(model, lambda x: checkpoint(model, x, use_reentrant=reentrant), x, 1.0)
    assert_same(ours, expected, 0)


def test_saved_tensors_can_be_moved_elsewhere():
    model, x = build(), rows()
    expected = trained(model, model, x, 1.0)
    packed = []

    def pack(tensor):
        packed.append(tensor.shape)
        return tensor.detach().clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = torch.mean((model(x) - 1.0) ** 2)
    model.zero_grad()
    loss.backward()
    assert len(packed) > 12
    assert_same([parameter.grad for parameter in model.parameters()], expected[1:], 0)


def test_graphs_are_freed():
    model, x = build(), rows().requires_grad_()
    u = model(x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    alive = weakref.ref(du.grad_fn)
    gc.disable()
    try:
        del u, du
        assert alive() is None
    finally:
        gc.enable()


def test_copies_and_pickles():
    model, x = build(), rows()
    expected = model(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), expected)
        trained(other, other, x, 1.0)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_autocast_computes_as_the_layers_do():
    model, x = build(dtype=torch.float32), rows(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, theirs = model(x), one_by_one(model, x)
        low = model(x.bfloat16())
    assert ours.dtype is torch.float32
    assert torch.equal(ours, theirs)
    assert torch.equal(low, model(x.bfloat16().float()))


def test_distributed_training(tmp_path):
    from torch.nn.parallel import DistributedDataParallel

    model, x = build(), rows()
    expected = trained(model, model, x, 1.0)
    store = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        parallel = DistributedDataParallel(model, find_unused_parameters=True)
        assert_same(trained(model, parallel, x, 1.0), expected, 1e-15)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("vectorize", [True, False])
def test_hessians(vectorize):
    model, x = build((2, 3, 1)), rows(1)
    hessian = torch.autograd.functional.hessian
    ours = hessian(lambda x: model(x).sum(), x, vectorize=vectorize)
    expected = hessian(lambda x: one_by_one(model, x).sum(), x, vectorize=vectorize)
    assert_same([ours], [expected], 1e-12)


def test_gradients_in_batches():
    """Cotangents of a vectorized backward pass, over a graph made in an eager call."""
    model, x = build((2, 3, 2)), rows(4).requires_grad_()
    u, v = model(x), one_by_one(model, x)
    cotangents = torch.randn(5, 4, 2, dtype=torch.float64)
    sought = [x, *model.parameters()]
    ours, theirs = (
        torch.autograd.grad(y, sought, cotangents, is_grads_batched=True) for y in (u, v)
    )
    assert_same(ours, theirs, 1e-12)


def test_gradients_of_a_pinn_in_batches():
    model, x = build((2, 3, 2)), rows(4).requires_grad_()
    results = []
    for forward in (model, lambda x: one_by_one(model, x)):
        u = forward(x)
        (du,) = torch.autograd.grad(u.sin().sum(), x, create_graph=True)
        (d_xx,) = torch.autograd.grad(du[:, 1].sum(), x, create_graph=True)
        sought = [x, *model.parameters()]
        for y in (du, d_xx):
            cotangents = torch.randn(3, 4, 2, dtype=torch.float64, generator=torch.manual_seed(0))
            gradients = torch.autograd.grad(
                y, sought, cotangents, is_grads_batched=True, retain_graph=True
            )
            results.append(gradients)
    assert_same(results[0], results[2], 1e-11)
    assert_same(results[1], results[3], 1e-11)


def test_functional_transforms():
    model, x = build((2, 3, 1)), rows(5)
    weights, routes = dict(model.named_parameters()), []

    def value(weights, x):
        routes.append(route(model, x))
        return torch.func.functional_call(model, weights, (x,)).sum()

    per_sample = torch.func.vmap(torch.func.grad(value), in_dims=(None, 0))(weights, x)
    assert [taken.path for taken in routes] == ["per layer"]
    assert "torch.func" in routes[0].reasons["one call"]
    for j, row in enumerate(x):
        model.zero_grad()
        model(row).sum().backward()
        for name, parameter in model.named_parameters():
            assert_same([per_sample[name][j]], [parameter.grad], 1e-11)


def test_functional_call_with_other_weights():
    model, other, x = build(), build(seed=1), rows()
    y = torch.func.functional_call(model, dict(other.named_parameters()), (x,))
    assert torch.equal(y, other(x))
    y.sum().backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.grad is not None for parameter in other.parameters())


# ---- layers that are more than their weights -----------------------------------------------------


def test_hooks_run():
    model, seen = build(), []
    assert is_one_call(model)
    layer = model.layers[1]
    for register in (
        layer.register_forward_hook,
        layer.register_forward_pre_hook,
        torch.nn.modules.module.register_module_forward_hook,
        torch.nn.modules.module.register_module_forward_pre_hook,
    ):
        handle = register(lambda *arguments: seen.append(arguments[0]))
        assert "hooks" in refused(model)
        model(rows())
        assert layer in seen
        handle.remove()
        seen.clear()
    for register in (layer.register_full_backward_hook, layer.register_full_backward_pre_hook):
        handle = register(lambda *arguments: seen.append(arguments[0]))
        model(rows()).sum().backward()
        assert seen == [layer]
        handle.remove()
        seen.clear()
    assert is_one_call(model)
    model.register_forward_hook(lambda *arguments: seen.append(arguments[0]))
    model(rows())
    assert seen == [model]


def test_hooks_of_the_residual_function_run():
    model, seen = build(), []
    R = model.layers[1].base_activation
    assert is_one_call(model)
    handle = R.register_forward_hook(lambda *arguments: seen.append(arguments[0]))
    assert "layers[1]: its residual function" in refused(model)
    expected = one_by_one(model, rows())
    assert seen == [R]
    assert torch.equal(model(rows()), expected)
    assert len(seen) == 2
    handle.remove()
    assert is_one_call(model)


def test_hooks_run_after_others_were_removed_by_force():
    model, seen = build(), []
    assert is_one_call(model)
    model.layers[1]._forward_hooks = type(model.layers[1]._forward_hooks)()
    model.layers[1].register_forward_hook(lambda *arguments: seen.append(arguments[0]))
    model(rows())
    assert seen == [model.layers[1]]


def test_weights_that_are_replaced_are_followed():
    model, x = build((2, 3, 1)), rows()
    layer = model.layers[0]
    model(x)
    layer.spline_weight = torch.nn.Parameter(2 * layer.spline_weight.detach())
    assert torch.equal(model(x), one_by_one(model, x))
    layer.base_weight.data = 3 * layer.base_weight.data
    assert torch.equal(model(x), one_by_one(model, x))
    # The same numbers at the same address, turned.
    square = build((3, 3, 1))
    before = square(rows(n_in=3))
    square.layers[0].base_weight.data = square.layers[0].base_weight.data.T
    assert not is_one_call(square, rows(n_in=3))
    assert not torch.equal(square(rows(n_in=3)), before)
    layer.spline_scaler = None
    assert is_one_call(model)
    assert torch.equal(model(x), one_by_one(model, x))
    layer.bias = torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))
    assert "layers[0]: its weights are not all contiguous" in refused(model)
    model.layers[0] = KANLinear(2, 3, dtype=torch.float64)
    assert torch.equal(model(x), one_by_one(model, x))
    model.float()
    assert model(x.float()).dtype is torch.float32
    with pytest.raises(UserError, match="float32"):
        model(x)


def test_weights_of_one_call_are_not_kept():
    model, x = build((2, 3, 1)), rows()
    weights = {name: 2 * parameter for name, parameter in model.named_parameters()}
    alive = weakref.ref(weights["layers.0.spline_weight"])
    torch.func.functional_call(model, weights, (x,))
    del weights
    gc.collect()
    assert alive() is None


def test_tensors_of_a_finished_transform():
    model, x, escaped = build((2, 3, 1)), rows(), []

    def value(x):
        escaped.append(x * 1.0)
        return model(x).sum()

    torch.func.grad(value)(x)
    for forward in (model, model.layers[0]):
        assert torch.equal(forward(escaped[0]), forward(x))
        with torch.no_grad():
            assert torch.equal(forward(escaped[0]), forward(x))


def test_layers_of_another_class_are_called():
    class Doubled(KANLinear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = build((2, 3, 1))
    expected = model(rows())
    doubled = Doubled(3, 1, dtype=torch.float64)
    doubled.load_state_dict(model.layers[1].state_dict())
    model.layers[1] = doubled
    assert "layers[1]: a Doubled may compute something else" in refused(model)
    assert torch.equal(model(rows()), 2 * expected)


def test_forward_of_one_layer_may_be_replaced():
    model = build((2, 3, 1))
    expected = model(rows())
    forward = model.layers[1].forward
    model.layers[1].forward = lambda x: 2 * forward(x)
    assert refused(model) == "layers[1]: its forward was replaced"
    assert torch.equal(model(rows()), 2 * expected)


def test_parametrized_and_pruned_weights():
    class Halved(torch.nn.Module):
        def forward(self, weight):
            return weight / 2

    model, x = build((2, 3, 1)), rows()
    parametrize.register_parametrization(model.layers[0], "spline_weight", Halved())
    ours = model(x)
    parametrize.remove_parametrizations(model.layers[0], "spline_weight")
    assert torch.equal(ours, model(x))
    prune.l1_unstructured(model.layers[0], "spline_weight", amount=0.5)
    pruned = model(x)
    pruned.sum().backward()
    mask = model.layers[0].spline_weight_mask
    assert torch.all(model.layers[0].spline_weight_orig.grad[mask == 0] == 0)
    prune.remove(model.layers[0], "spline_weight")
    assert torch.equal(pruned, model(x))
    assert is_one_call(model)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"residual": "tanh"}, "residual function is not SiLU"),
        ({"init": "lecun-normalized"}, "standardized"),
        ({"dtype": torch.float16}, "float32 and float64"),
    ],
    ids=str,
)
def test_layers_that_the_kernels_compute_in_part(options, reason):
    model = KAN([2, 3, 1], **options)
    x = rows(dtype=options.get("dtype", torch.float32))
    taken = route(model, x)
    assert taken.path == "per layer"
    assert reason in taken.reasons["one call"]
    assert torch.equal(model(x), one_by_one(model, x))


def test_grids_that_change_are_followed():
    model, x = build((2, 3, 1)), rows()
    model.update_grid(2 * x)
    assert is_one_call(model)
    assert torch.equal(model(x), one_by_one(model, x))
    model.refine(7)
    assert is_one_call(model)
    assert torch.equal(model(x), one_by_one(model, x))
    other = build((2, 3, 1), domain=(-3.0, 3.0))
    model = build((2, 3, 1))
    model.load_state_dict(other.state_dict())
    assert torch.equal(model(x), other(x))
    with torch.no_grad():
        model.layers[0].grid[:, 5] += 0.01
    assert refused(model) == "layers[0]: its knots are not uniform"
    assert route(model, x).path == "per layer"  # of which the other one has uniform knots
    assert route(model.layers[0], x).path == "plain"
    assert torch.equal(model(x), one_by_one(model, x))
    model = build((2, 3, 1))
    model(x, update_grid=True)
    assert model.layers[0].domain != (-1.0, 1.0)


def test_grids_that_are_replaced_are_followed():
    model, other, x = build((2, 3, 1)), build((2, 3, 1), domain=(-2.0, 2.0)), rows()
    model(x)
    model.layers[0].grid = other.layers[0].grid.clone()
    model.layers[1].grid.data = other.layers[1].grid.data.clone()
    assert model.layers[0].domain == model.layers[1].domain == (-2.0, 2.0)
    assert is_one_call(model)
    assert torch.equal(model(x), other(x))
    for forward in (model, copy.deepcopy(model)):
        assert torch.equal(forward(x), other(x))


def test_networks_made_in_inference_mode():
    x = rows()
    with torch.inference_mode():
        model = build((2, 3, 1))
        expected = model(x)
    with torch.no_grad():
        assert torch.equal(model(x), expected)
    model = build((2, 3, 1))
    with torch.inference_mode():
        model.float()
        expected = model(x.float())
    with torch.no_grad():
        assert torch.equal(model(x.float()), expected)


def test_wrong_calls_say_what_they_must_be():
    model = build((2, 3, 1), torch.float32)
    with pytest.raises(UserError, match="2 components"):
        model(torch.zeros(5, 3))
    with pytest.raises(UserError, match=r"torch\.float32.*torch\.float64"):
        model(torch.zeros(5, 2, dtype=torch.float64))
    model.layers[1] = KANLinear(4, 1)
    with pytest.raises(UserError, match="4 components"):
        model(torch.zeros(5, 2))


class Unchecked(BSpline):
    """Splines that may be anything."""

    def __post_init__(self):
        pass


@pytest.mark.parametrize(
    ("n_out", "basis"),
    [
        (3, Unchecked(0, 3)),
        (3, Unchecked(5, 6)),
        (3, Unchecked(5, 3, (float("nan"), 1.0))),
        (3, Unchecked(5, 3, (-1.0, -5.0))),
        (2, Unchecked(5, 3)),
    ],
    ids=str,
)
def test_native_calls_are_checked(n_out, basis):
    """The kernels would read beyond the end of the weights."""
    model, x = build((2, 3, 1)), rows()
    layers = LayerSpec(2, n_out, basis, "silu"), LayerSpec(3, 1, BSpline(5, 3), "silu")
    weights = []
    for layer in model.layers:
        weights += [layer.base_weight, layer.spline_scaler, layer.spline_weight, layer.bias]
    with pytest.raises(UserError):
        _native.forward(_native.Network(layers), x, weights, True)


@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
def test_compiled_networks(compiler):
    model, x = build((2, 3, 1)), rows()
    compiled = torch.compile(model, fullgraph=True, backend=compiler)
    assert_same(trained(model, compiled, x, 1.0), trained(model, model, x, 1.0), 1e-12)
    torch._dynamo.reset()


def test_a_layer_may_be_compiled_in_place():
    model, x = build((2, 3, 1)), rows()
    expected = model(x)
    model.layers[0].compile(backend="eager")
    assert_same([model(x)], [expected], 1e-12)
    torch._dynamo.reset()


def test_another_residual_function():
    model = build((2, 3, 1))
    model.layers[0].base_activation = torch.nn.GELU()
    assert not is_one_call(model)
    model.layers[0].base_activation = torch.nn.SiLU()
    assert is_one_call(model)
    assert is_one_call(build((2, 3, 1), residual=torch.nn.functional.silu))
    model(rows())
    model.layers[0].base_activation = None  # its weights stay, unused
    assert is_one_call(model)
    assert torch.equal(model(rows()), one_by_one(model, rows()))


# ---- the route -----------------------------------------------------------------------------------


def test_routes_of_layers():
    layer, x = KANLinear(2, 3), rows(dtype=torch.float32)
    assert route(layer, x).path == "per layer"
    assert route(layer.half(), x.half()).path == "per layer"
    meta = KAN([2, 3, 1], device="meta")
    assert route(meta, x.to("meta")).path == "plain"
    assert "CPU" in route(meta, x.to("meta")).reasons["per layer"]


@pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated
def test_routes_of_traced_calls():
    taken = []

    class Asking(KAN):
        def forward(self, x, update_grid=False):
            taken.append(route(self, x))
            return super().forward(x, update_grid)

    torch.jit.trace(Asking([2, 3, 1]), rows(dtype=torch.float32))
    assert taken[0].path == "plain"
    assert "torch.jit" in taken[0].reasons["per layer"]


def test_a_route_needs_a_tensor_and_no_targets():
    model, x = build(), rows()
    with pytest.raises(UserError, match=r"'x' of route.*a tensor"):
        route(model, x.numpy())
    with pytest.raises(UserError, match=r"'y' of route.*None"):
        route(model, x, x)
