import pytest
import synthetic

import kandle.cli._main as program
from kandle.problems import FEYNMAN


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the program with the commands under test; gives (exit code, output, errors)."""
    monkeypatch.setattr(program, "_COMMANDS", ("_study", "_table", "_figure", "_explore"))

    def run(*arguments):
        code = program.main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def parts():
    """A small piece of every built-in study."""
    shapes = [(5, 8, 2), (5, 8, 3), (5, 64, 2), (5, 64, 4), (10, 8, 2), (20, 32, 3), (40, 8, 2)]
    pairs = (0.0, 0.25, 1.0, 1.75)
    few = {"exponents": pairs, "power_seeds": 2, "seeds": 3}
    four = [(a, b) for a in (0.25, 1.0) for b in (1.0, 1.75)]
    return [
        synthetic.grid_study(problems=("f1", "f3"), shapes=shapes, **few),
        synthetic.pdes(problems=("allen-cahn", "burgers"), shapes=shapes[:6], **few),
        synthetic.feynman(problems=(*list(FEYNMAN)[:6], "I.27.6"), seeds=3, power_seeds=3),
        synthetic.curves_study(problems=("f1", "f3"), seeds=3, points=60),
        synthetic.curves_study("curves-pdes", synthetic.PDES[:2], seeds=2, points=60),
        synthetic.ntk_study(),
        synthetic.ntk_study("ntk-pdes", synthetic.PDES),
        synthetic.ntk_study("ntk-exponents", ("f3", "burgers"), four, ("power-law",)),
    ]


@pytest.fixture(scope="session")
def store(parts, tmp_path_factory):
    return synthetic.write_store(tmp_path_factory.mktemp("report") / "store", *parts)
