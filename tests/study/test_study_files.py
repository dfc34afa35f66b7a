"""Study files: what they can say, and the messages for mistakes in them."""

from pathlib import Path

import pytest

from kandle import UserError, study
from kandle.paper import STUDIES
from kandle.study._declare import declare
from kandle.study._registry import draws_names

WHOLE = """
name = "mine"
description = "everything a study file can say"
problems = ["f1", "burgers", "allen-cahn", "study_problem:wave"]
architectures = ["small", { G = 3, width = 4, depth = 1 }]
steps = 100
degrees = [2, 3]
dtypes = ["float64"]
rba = ["text", "off"]
draws = ["published", "independent"]
references = ["dirichlet", "periodic"]
residual = ["silu", "none"]
bias = false
domain = [-2, 2]
curve = "all"
checkpoints = 3

[[optimizers]]
name = "adamw"
learning_rate = [1e-3, 1e-2]
schedule = { name = "exponential", factor = 0.9, every = 50 }
arguments = { weight_decay = 1e-3 }

[[schemes]]
name = "glorot"
seeds = [4, 7]
gain = [1.0, 1.7]

[[schemes]]
name = "lecun-numerical"
seeds = 1
split = ["equal", "half"]

[scales.smoke]
problems = ["f1"]
seeds = { glorot = 1 }
steps = 2
"""

BARE = """
problems = ["f1"]
grids = [5]
widths = [2]
depths = [1]
schemes = ["baseline"]
"""


@pytest.fixture
def write(tmp_path):
    def to(text, name="study.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return to


def test_a_file_can_say_it_all(write):
    found = study.get(write(WHOLE))
    specs = found.specs()
    # (f1 and wave: 1, burgers: 2 ways of RBA, allen-cahn: 2 × 2 references)
    assert len(specs) == (1 + 1 + 2 + 4) * 2 * 2 * 2 * 2 * 2 * (2 * 2 + 2)
    assert len(set(specs)) == len(specs) == len(found)
    spec = next(s for s in specs if s.scheme == "glorot" and s.problem == "allen-cahn")
    assert (spec.study, spec.G, spec.width, spec.depth, spec.degree) == ("mine", 5, 8, 2, 2)
    assert (spec.steps, spec.dtype, spec.rba, spec.draws, spec.reference) == (
        *(100, "float64", "text"),
        *("published", "dirichlet"),
    )
    assert (spec.optimizer, spec.learning_rate) == ("adamw", 1e-3)
    assert spec.schedule == '{"every":50,"factor":0.9,"name":"exponential"}'
    assert spec.optimizer_arguments == '{"weight_decay":0.001}'
    assert (spec.domain, spec.bias, spec.curve) == ("[-2.0,2.0]", False, "all")
    assert (spec.residual, spec.checkpoints) == ("silu", "[0,50,100]")
    assert {(s.seed, s.gain) for s in specs if s.scheme == "glorot"} == {
        (seed, gain) for seed in (4, 7) for gain in (1.0, 1.7)
    }
    assert {s.settings for s in specs if s.scheme == "lecun-numerical"} == {
        '{"split":"equal"}',
        '{"split":"half"}',
    }
    smoke = study.plan(found, "smoke").specs
    assert {(s.problem, s.steps) for s in smoke} == {("f1", 2)}
    assert {s.seed for s in smoke if s.scheme == "glorot"} == {0}


def test_a_bare_file_takes_the_defaults(write):
    found = study.get(str(write(BARE, "bare.toml")))
    assert found.name == "bare"
    specs = found.specs()
    assert [s.seed for s in specs] == [0, 1, 2, 3, 4]
    assert specs[0] == study.RunSpec("bare", "f1", "baseline", 5, 2, 1, 0)


def test_a_misspelt_key_is_told_before_the_one_that_is_missing_for_it(write):
    with pytest.raises(UserError, match=r"Unknown key in .*'schems'. Did you mean 'schemes'"):
        study.get(write(BARE.replace("schemes", "schems")))


def test_seeds_that_no_key_has_are_refused(write):
    text = BARE.replace('["baseline"]', '[{ name = "baseline", seeds = [4294967296] }]')
    with pytest.raises(UserError, match=r"'seeds' must be .* from 0 to 2³² - 1"):
        study.get(write(text))


def test_optimizers_told_twice_make_a_run_once(write):
    twice = "[[optimizers]]\nname = 'adam'\n[[optimizers]]\nlearning_rate = [1e-3, 1e-2]\n"
    found = study.get(write(BARE + twice))
    assert len(found.specs()) == len(set(found.specs())) == len(found) == 2 * 5


def test_built_in_studies_are_of_the_same_form():
    for name, declaration in STUDIES.items():
        assert declare({"name": name, **declaration}, draws=draws_names()) == study.get(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("widhts = [2]", "Unknown key in {file}: 'widhts'. Did you mean 'widths'?"),
        ("steps = 0", "{file}: 'steps' must be a whole number of at least 1. Got 0 instead."),
        ("steps = true", "{file}: 'steps' must be a whole number of at least 1. Got True"),
        ('steps = "many"', "{file}: 'steps' must be a whole number of at least 1. Got 'many'"),
        ("degrees = []", "{file}: 'degrees' must be a list of at least one value"),
        ("degrees = [3, 3]", "none twice. Got [3, 3] instead."),
        ("degrees = [9]", "each a whole number from 1 to 5"),
        ('dtypes = ["float16"]', "each one of 'float32', 'float64'"),
        ('curve = "some"', "{file}: 'curve' must be one of 'log', 'all'. Got 'some' instead."),
        ('draws = "one"', "{file}: 'draws' must be one of 'independent', 'published'"),
        ('rba = "of"', "{file}: 'rba' must be one of 'published', 'text', 'off'"),
        ("domain = [1, -1]", "{file}: 'domain' must be two finite numbers, the lower first"),
        ('architectures = ["small"]', "'grids' and 'architectures' exclude each other"),
        (
            'residual = "siluu"',
            "{file}: 'residual': Unknown residual function 'siluu'. Did you mean 'silu'?",
        ),
        ("[scales.tiny]\nseeds = 1", "Unknown key in {file}: scales: 'tiny'"),
        ("domain = [0, inf]", "{file}: 'domain' must be two finite numbers"),
        ('references = ["periodic"]', "{file}: 'references' must be left out where no problem"),
        ("[scales.smoke]\nalphas = [inf]", "{file}: scale 'smoke': 'alphas' must be a list of"),
        (
            '[scales.smoke]\nproblems = ["f9"]',
            "{file}: scale 'smoke': 'problems': Unknown problem 'f9'",
        ),
        (
            "[scales.smoke]\nseeds = { baselin = 2 }",
            "Unknown scheme in {file}: scale 'smoke': seeds: 'baselin'. Did you mean 'baseline'?",
        ),
        (
            "[[optimizers]]\nschedule = { name = 'exponential', factor = nan, every = 50 }",
            "{file}: optimizer 1: schedule: 'factor' must be a finite number",
        ),
        (
            "[[optimizers]]\nschedule = { name = 'exponential', factor = 1979-05-27 }",
            "{file}: optimizer 1: schedule: 'factor' must be a finite number",
        ),
        (
            "[[optimizers]]\narguments = { b1 = 1979-05-27 }",
            "{file}: optimizer 1: arguments: 'b1' must be a finite number, text or true/false",
        ),
        (
            '[[optimizers]]\narguments = { b1 = "x" }',
            "{file}: optimizer 1: The arguments {{'b1': 'x'}} of optimizer 'adam' do not work",
        ),
        ("[scales.smoke]\nseed = 1", "Unknown key in {file}: scale 'smoke': 'seed'. Did you mean"),
        ("[scales.smoke]\nwidths = [0]", "{file}: scale 'smoke': 'widths' must be a list of"),
        ("[[optimizers]]\nrate = 1", "Unknown key in {file}: optimizer 1: 'rate'"),
        (
            '[[optimizers]]\nname = "adem"',
            "{file}: optimizer 1: Unknown optimizer 'adem'. Did you mean 'adam'?",
        ),
        ("[[optimizers]]\nlearning_rate = -1", "'learning_rate' must be a positive number"),
        (
            "[[optimizers]]\narguments = { beta1 = 0.5 }",
            "{file}: optimizer 1: Unknown argument of optimizer",
        ),
    ],
)
def test_a_wrong_file_is_told_where_and_what(write, change, message):
    path = write(BARE + change)
    with pytest.raises(UserError) as error:
        study.get(path)
    assert message.format(file=path) in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('problems = ["f1"]', "", "{file}: 'problems' must be given"),
        ('problems = ["f1"]', "problems = []", "{file}: 'problems' must be a list of at least one"),
        ('["f1"]', '["f9"]', "{file}: 'problems': Unknown problem 'f9'"),
        (
            '["f1"]',
            '["nowhere:wave"]',
            "{file}: 'problems': Problem 'nowhere:wave': there is no module",
        ),
        ("depths = [1]", "", "{file}: 'depths' must be given"),
        (
            '["baseline"]',
            '["basline"]',
            "{file}: scheme 1: Unknown scheme 'basline'. Did you mean 'baseline'?",
        ),
        (
            'schemes = ["baseline"]',
            '[[schemes]]\nname = "baseline"\nalpha = 1',
            "{file}: scheme 1: Unknown parameter of scheme 'baseline': 'alpha'. Known: none.",
        ),
        (
            'schemes = ["baseline"]',
            '[[schemes]]\nname = "glorot"\ngian = 1.0',
            "{file}: scheme 1: Unknown parameter of scheme 'glorot': 'gian'. Did you mean 'gain'?",
        ),
        (
            'schemes = ["baseline"]',
            '[[schemes]]\nname = "glorot"\ngain = [1.0, -1.0]',
            "{file}: scheme 1: The 'gain' parameter of Glorot must be a positive",
        ),
        (
            'schemes = ["baseline"]',
            '[[schemes]]\nname = "glorot"\nseeds = "five"',
            "{file}: scheme 1: 'seeds' must be a whole number of at least 1 or a list",
        ),
        (
            'schemes = ["baseline"]',
            "[[schemes]]\nseeds = 1",
            "{file}: scheme 1: 'name' must be given",
        ),
        ("grids", "grids = [5]\ngrids", "{file} is not TOML: "),
        ("grids", f"steps = {'9' * 5000}\ngrids", "{file} is not TOML: "),
        ("grids", f"steps = {'[' * 5000}\ngrids", "{file} is not TOML: "),
        (
            'schemes = ["baseline"]',
            '[[schemes]]\nname = "glorot"\nseeds = 9223372036854775807000',
            "'seeds' must be at most 1,000,000 per scheme. Got 9223372036854775807000",
        ),
    ],
)
def test_a_wrong_value_is_told_where_and_what(write, old, new, message):
    path = write(BARE.replace(old, new))
    with pytest.raises(UserError) as error:
        study.get(path)
    assert message.format(file=path) in str(error.value)


def test_a_scale_that_is_not_declared(write):
    found = study.get(write(BARE))
    assert study.plan(found, "paper").runs == 5
    with pytest.raises(UserError, match=r"declares no scale 'quick'\. Declared: paper"):
        study.plan(found, "quick")


def test_a_study_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="There is no study file"):
        study.get(tmp_path / "none.toml")
    with pytest.raises(UserError, match=r"Unknown study 'functons'\. Did you mean 'functions'"):
        study.get("functons")


QUIET = {"quiet-functions": (2100, 12), "quiet-pdes": (630, 6), "quiet-feynman": (800, 1)}


@pytest.mark.parametrize("name", QUIET)
def test_the_studies_of_the_quiet_start(name):
    """Every setting under the same starts, five seeds each; smoke and quick choose among them."""
    path = Path(__file__).parents[2] / "studies" / f"{name}.toml"
    specs = study.plan(study.get(path)).specs
    shapes = {(spec.G, spec.width, spec.depth) for spec in specs}
    assert (len(specs), len(shapes)) == QUIET[name]
    starts = {(s.scheme, s.alpha, s.beta, s.settings) for s in specs}
    assert len(starts) == (8 if name == "quiet-feynman" else 7)
    assert {s.seed for s in specs} == set(range(5))
    for scale in ("smoke", "quick"):
        assert 0 < study.plan(study.get(path), scale).runs < 100


@pytest.mark.parametrize("number", ["9" * 400, f"0x{'f' * 5000}", "1e400", "nan"])
@pytest.mark.parametrize("key", ["gain", "seeds"])
def test_numbers_beyond_float64_are_refused_in_one_line(tmp_path, number, key):
    path = tmp_path / "long.toml"
    scheme = {"name": '"glorot"', "seeds": "2", key: f"[{number}]"}
    table = ", ".join(f"{k} = {v}" for k, v in scheme.items())
    axes = 'problems = ["f1"]\narchitectures = ["small"]'
    path.write_text(f"{axes}\nschemes = [{{{table}}}]")
    with pytest.raises(UserError, match=f"'{key}'") as caught:
        study.get(path)
    assert "\n" not in str(caught.value)
