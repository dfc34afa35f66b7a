"""Layers whose class is PyTorch's own, though somebody else made them, are named, not skipped."""

# ruff: noqa: E402

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch_layers import KANLinear

import kandle
from kandle import UserError

# `torch.jit` is deprecated, and still what models are shipped with.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]

X = torch.linspace(-0.9, 0.9, 8).reshape(4, 2)


class Headed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kan, self.head = KANLinear(2, 2), torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.head(self.kan(x))


class SinKAN(torch.nn.Module):
    """A KAN of PyTorch's parts alone."""

    def __init__(self):
        super().__init__()
        self.mix = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.mix(torch.sin(x))


class Listed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(2))])

    def forward(self, x):
        return x * self.w[0]


def traced(module):
    return torch.jit.trace(module, X)


def loaded(module, tmp_path):
    torch.jit.save(traced(module), tmp_path / "module.pt")
    return torch.jit.load(tmp_path / "module.pt")


def graph(module):
    return torch.fx.symbolic_trace(module)


def inlined():
    """A graph that computes with parameters of its own."""
    module = graph(torch.nn.Identity())
    module.base_weight = torch.nn.Parameter(torch.ones(2, 2))
    return module


def bare(**parts):
    module = torch.nn.Module()
    module.register_buffer("grid", torch.linspace(-1, 1, 12))
    for name, part in parts.items():
        setattr(module, name, part)
    return module


@pytest.mark.parametrize(
    ("make", "unknown", "left"),
    [
        (lambda: traced(KANLinear(2, 2)), ["1 (KANLinear)"], []),
        (lambda: traced(Headed()), ["1.kan (KANLinear)"], ["1.head (Linear)"]),
        (lambda: traced(Listed()), ["1 (Listed)"], []),
        (lambda: traced(torch.nn.Linear(2, 2)), [], ["1 (Linear)"]),
        (lambda: torch.jit.script(SinKAN()), ["1 (SinKAN)"], []),
        (lambda: torch.jit.script(torch.nn.PReLU()), [], ["1 (PReLU)"]),
        (lambda: torch.jit.freeze(traced(KANLinear(2, 2).eval())), ["1 (KANLinear)"], []),
        (lambda: graph(Headed()), ["1.kan (Module)"], ["1.head (Linear)"]),
        (lambda: graph(SinKAN()), ["1 (SinKAN)"], []),
        (lambda: graph(torch.nn.Sequential(torch.nn.Linear(2, 2))), [], ["1.0 (Linear)"]),
        (inlined, ["1 (Identity)"], []),
        (lambda: bare(w=torch.nn.Parameter(torch.ones(2, 8))), ["1 (Module)"], []),
        (lambda: bare(mix=torch.nn.Linear(2, 2)), ["1 (Module)"], []),
    ],
)
def test_what_a_compiler_made_is_told_by_what_it_was(make, unknown, left):
    net = torch.nn.Sequential(KANLinear(2, 2), make(), torch.nn.Linear(2, 1))
    before = {name: tensor.clone() for name, tensor in net[1].state_dict().items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = kandle.torch.initialize_(net, "power-law", seed=0)
    assert [layer.name for layer in report.layers] == ["0"]
    assert report.unknown == tuple(unknown)
    assert report.left == (*left, "2 (Linear)")
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == bool(unknown)
    assert all(name in messages[0] for name in unknown)
    for name, tensor in net[1].state_dict().items():
        assert torch.equal(before[name], tensor), name


def test_a_script_from_a_file_is_told_too(tmp_path):
    net = torch.nn.Sequential(KANLinear(2, 2), loaded(Headed(), tmp_path))
    with pytest.warns(UserWarning, match=r"1\.kan \(KANLinear\)"):
        report = kandle.torch.initialize_(net, "power-law", seed=0)
    assert report.left == ("1.head (Linear)",)


@pytest.mark.parametrize("compiled", [traced, graph])
def test_a_whole_model_that_was_compiled_is_an_error_that_says_so(compiled):
    with pytest.raises(UserError, match=r"in Headed: it has .*kan.*before that") as caught:
        kandle.torch.initialize_(compiled(Headed()), "power-law", seed=0)
    assert "\n" not in str(caught.value)


def test_an_exported_model_is_an_error_that_says_so():
    exported = torch.export.export(Headed(), (X,)).module()
    with pytest.raises(UserError, match=r"kan \(Module\).*before that"):
        kandle.torch.initialize_(exported, "power-law", seed=0)


def test_a_compiled_model_is_still_the_model():
    net = torch.compile(Headed())
    report = kandle.torch.initialize_(net, "power-law", seed=0)
    assert [layer.name for layer in report.layers] == ["_orig_mod.kan"]
    assert report.unknown == ()


def test_a_layer_with_a_scripted_activation_is_put_back():
    layer = KANLinear(2, 2)
    layer.base_activation = torch.jit.script(torch.nn.SiLU())
    layer.spline_weight = torch.nn.Parameter(torch.ones(2, 2, 3))  # of another grid
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    with pytest.raises(UserError, match="could not write layer 'module'"):
        kandle.torch.initialize_(layer, "power-law", seed=0)
    for name, tensor in layer.state_dict().items():
        assert torch.equal(before[name], tensor), name
