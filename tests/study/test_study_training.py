"""Real trainings, tiny, through the engine and through the program."""

import argparse
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from study_rows import assert_same, rows

from kandle import UserError, init, kernels, paper, problems, study
from kandle.cli import _study, main
from kandle.report import _names
from kandle.report.figures._style import line_style
from kandle.store import Outcome, RunSpec, Store
from kandle.study import Axes, CostModel, InlineExecutor, LocalExecutor
from kandle.study._trainer import train_batch
from kandle.train import Architecture, train

TINY = Axes(
    problems=("f1",),
    grids=(3,),
    widths=(2,),
    depths=(1,),
    alphas=(0.25,),
    betas=(1.0, 1.75),
    seeds=2,
    steps=6,
)
OPTIONS = [
    *("--problems", "f1", "--grids", "3", "--widths", "2", "--depths", "1"),
    *("--alphas", "0.25", "--betas", "1.0,1.75", "--seeds", "2", "--steps", "6"),
]
PROGRAM = [sys.executable, "-c", "import sys; from kandle.cli import main; sys.exit(main())"]


@pytest.fixture
def command(monkeypatch, capsys):
    """Run a command in this process: what it prints and its exit code, as `kandle` gives them."""

    def run(*arguments, check=True, cwd=None):
        with monkeypatch.context() as patch:
            if cwd:
                patch.chdir(cwd)
            capsys.readouterr()
            arguments = list(map(str, arguments))
            try:
                code = main(arguments)
            except SystemExit as exit:  # of the parser
                code = exit.code
        done = subprocess.CompletedProcess(arguments, code, *capsys.readouterr())
        assert not check or code == 0, done.stderr
        return done

    return run


def kandle(*arguments, check=True, **options):
    """Run the program in a process of its own."""
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The tiny plan, run by the program on two workers."""
    directory = tmp_path_factory.mktemp("trained") / "store"
    output = kandle("study", "run", "functions", *OPTIONS, "--store", directory, "--workers", 2)
    assert "12 of 12 runs are stored" in output.stdout
    return directory


def test_rows_tell_the_training(trained):
    frame = rows(trained)[0]
    assert len(frame) == 12
    assert (frame["status"] == "ok").all()
    assert frame[["loss", "l2", "l2_robust", "test_mse"]].notna().all(axis=None)
    assert set(frame["steps"]) == {6}
    assert (frame["machine"] != "").all()
    assert set(frame["backend"]) <= {"native", "dense"}
    with Store.open(trained) as store:
        assert (store.frame()["wall_s"] > 0).all()
        curves = store.curves()
    assert len(curves) == 12
    for identity, curve in curves.items():
        assert curve.steps.tolist() == [1, 2, 3, 4, 5, 6]
        assert curve.loss[-1] == np.float32(frame.set_index("identity").loc[identity, "loss"])


LEAST_SQUARES = "levenberg-marquardt"


@pytest.mark.parametrize(
    ("problem", "optimizer", "computed_by"),
    [
        ("transport", "adam", kernels.default_backend()),
        ("transport", LEAST_SQUARES, kernels.default_backend()),
        ("mixed", "adam", kernels.default_backend()),
        ("mixed", LEAST_SQUARES, "dense"),
        ("dispersive", "adam", "dense"),
    ],
)
def test_the_backend_of_a_row_is_what_computed_the_run(problem, optimizer, computed_by):
    shape = {"G": 3, "width": 2, "depth": 1}
    options = {"steps": 1, "dtype": "float64", "rba": "off", "optimizer": optimizer}
    name = f"study_problem:{problem}"
    spec = RunSpec(study="own", problem=name, scheme="glorot", seed=0, **shape, **options)
    [outcome] = train_batch([spec])
    assert (outcome.status, outcome.backend) == ("ok", computed_by)


@pytest.mark.parametrize("backend", ["dense", "reference"])
def test_a_result_says_which_backend_computed_it(backend):
    [result] = train("f1", Architecture(2, 1, 3), [("glorot", 0)], steps=1, backend=backend)
    assert result.backend == backend


def test_one_batch_or_many_in_this_process_or_others_give_the_same_rows(
    trained, tmp_path, notes, monkeypatch
):
    monkeypatch.setattr("kandle.study._batch._MOST_RUNS", 3)
    plan = study.plan(study.get("functions"), axes=TINY)
    study.run(plan, tmp_path, executor=lambda: LocalExecutor(1), watcher=notes)
    assert_same(rows(tmp_path), rows(trained))


def test_ray_gives_the_same_rows(trained, tmp_path, notes, ray_cluster):
    few = replace(TINY, schemes=("baseline", "glorot"))
    plan = study.plan(study.get("functions"), axes=few)
    study.run(
        plan, tmp_path, executor=lambda: study.RayExecutor(ray_cluster.address), watcher=notes
    )
    assert_same(rows(tmp_path), rows(trained, {spec.identity for spec in plan.specs}))


def test_shards_merged_by_the_program_give_the_same_rows(trained, tmp_path, command):
    shards = [tmp_path / "shard1", tmp_path / "shard2"]
    for i, shard in enumerate(shards, 1):
        kandle(
            "study",
            "run",
            "functions",
            *OPTIONS,
            "--store",
            shard,
            "--shard",
            f"{i}/2",
            "--workers",
            1,
        )
    output = command("study", "merge", *shards, "--store", tmp_path / "whole")
    assert output.stdout.count("runs added, 0 were there already") == 2
    assert_same(rows(tmp_path / "whole"), rows(trained))
    again = command("study", "merge", *shards, "--store", tmp_path / "whole")
    assert again.stdout.count(": 0 runs added") == 2


def test_conflicts_are_reported_and_the_exit_code_says_so(trained, tmp_path, command):
    command("study", "export", "--store", trained, "--out", tmp_path / "rows.csv")
    text = (tmp_path / "rows.csv").read_text().splitlines()
    header = text[0].split(",")
    cells = text[1].split(",")
    cells[header.index("loss")] = "0.5"
    text[1] = ",".join(cells)
    (tmp_path / "rows.csv").write_text("\n".join(text) + "\n")
    done = command("study", "import", tmp_path / "rows.csv", "--store", tmp_path / "other")
    assert "12 runs added" in done.stdout
    done = command("study", "merge", trained, "--store", tmp_path / "other", check=False)
    assert done.returncode == 1
    assert "1 runs differ from those stored and were not added" in done.stderr


def test_status_export_and_import(trained, tmp_path, command):
    output = json.loads(command("study", "status", "--store", trained, "--json").stdout)
    assert (output["runs"], output["writer"]) == (12, None)
    (only,) = output["studies"]
    assert (only["study"], only["ok"], only["failed"]) == ("functions", 12, 0)
    assert (only["session"]["state"], only["session"]["missing"]) == ("complete", 0)
    text = command("study", "status", "--store", trained).stdout
    assert "functions: 12 runs: 12 ok, 0 diverged, 0 failed" in text
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"rows.{suffix}"
        command("study", "export", "--store", trained, "--out", path)
        output = command("study", "import", path, "--store", tmp_path / suffix)
        assert "12 runs added, 0 were there already" in output.stdout
        assert rows(tmp_path / suffix)[0].equals(rows(trained)[0])


def test_a_study_file_with_a_users_problem_and_a_schemes_settings(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nfrom kandle.problems import Function\n"
        "wave = Function(lambda x: np.sin(3 * x), [(-1, 1)], name='wave', n_train=64, n_test=16)\n"
    )
    (tmp_path / "mine.toml").write_text(
        """
problems = ["mine:wave"]
grids = [3]
widths = [2]
depths = [1]
steps = 5

[[optimizers]]
name = "sgd"
learning_rate = [1e-2, 1e-1]
schedule = ["constant", { name = "exponential", factor = 0.5, every = 2 }]
arguments = { momentum = 0.9 }

[[schemes]]
name = "glorot"
seeds = 1
gain = [1.0, 2.0]
"""
    )
    output = kandle("study", "plan", "mine.toml", "--json", cwd=tmp_path)
    assert json.loads(output.stdout)["runs"] == 8
    kandle("study", "run", "mine.toml", "--store", "store", "--workers", 1, cwd=tmp_path)
    frame = rows(tmp_path / "store")[0]
    assert (frame["status"] == "ok").all()
    assert frame.groupby(["gain", "learning_rate", "schedule"])["loss"].first().nunique() == 8
    assert set(frame["problem"]) == {"mine:wave"}


OWN_SCHEME = """
from dataclasses import dataclass
from kandle.init import Glorot, Scheme

@dataclass(frozen=True)
class Scaled(Scheme):
    factor: float = 1.0
    name = "scaled"
    color = "#AA3377"

    @property
    def label(self):
        return f"{self.factor:g} times Glorot"

    def scales_from_moments(self, n_in, n_out, moments):
        sigma_r, sigma_b = Glorot().scales_from_moments(n_in, n_out, moments)
        return self.factor * sigma_r, self.factor * sigma_b
"""


def test_an_own_scheme_in_a_study_file_and_as_an_option(tmp_path, command):
    (tmp_path / "mine.py").write_text(OWN_SCHEME)
    (tmp_path / "mine.toml").write_text(
        """
problems = ["f1"]
architectures = [{ G = 3, width = 2, depth = 1 }]
steps = 5
schemes = ["glorot", { name = "mine:Scaled", seeds = 1, factor = [1.0, 2.0] }]
"""
    )
    kandle(
        *("study", "run", "mine.toml", "--seeds", 1, "--store", "store", "--workers", 1),
        cwd=tmp_path,
    )
    options = ["--schemes", "mine:Scaled", "--seeds", 1, "--store", "store", "--workers", 1]
    kandle("study", "run", "functions", *OPTIONS, *options, cwd=tmp_path)
    # What is stored can be read without the module.
    (tmp_path / "mine.py").write_text("raise RuntimeError")
    with Store.open(tmp_path / "store") as store:
        frame = store.frame("mine").set_index(["scheme", "settings"])["loss"]
        losses = [frame["mine:Scaled", f'{{"factor":{factor}}}'] for factor in ("1.0", "2.0")]
        assert losses[0] == frame["glorot", ""] != losses[1]
        assert store.schemes() == {
            ("mine:Scaled", ""): ("1 times Glorot", "#AA3377"),
            ("mine:Scaled", '{"factor":1.0}'): ("1 times Glorot", "#AA3377"),
            ("mine:Scaled", '{"factor":2.0}'): ("2 times Glorot", "#AA3377"),
        }
        assert set(store.frame("functions")["scheme"]) == {"mine:Scaled"}
    # Tables and figures use the stored label and color, without the module.
    with Store.open(tmp_path / "store") as store:
        _names.use_looks(store.schemes())
    assert _names.scheme("mine:Scaled(factor=2)") == "Scaled (factor=2)"
    assert line_style("mine:Scaled")[0] == "#AA3377"
    command("study", "status", "--store", "store", cwd=tmp_path)
    command("study", "export", "--store", "store", "--out", "rows.csv", cwd=tmp_path)
    command("study", "import", "rows.csv", "--store", "copy", cwd=tmp_path)
    command("study", "merge", "store", "--store", "merged", cwd=tmp_path)
    with Store.open(tmp_path / "merged") as merged, Store.open(tmp_path / "store") as store:
        assert merged.schemes() == store.schemes()
        assert merged.frame().equals(store.frame())


@pytest.mark.parametrize("problem", ["evil:thing", "evil"])
def test_importing_rows_never_runs_code(tmp_path, problem):
    (tmp_path / "evil.py").write_text("open('ran', 'w')\n")
    (tmp_path / "rows.csv").write_text(
        "study,problem,scheme,G,width,depth,seed,steps,loss,l2\n"
        f"mine,{problem},evil:Scheme,5,8,2,0,100,0.5,0.5\n"
    )
    done = kandle("study", "import", "rows.csv", "--store", "store", cwd=tmp_path, check=False)
    assert not (tmp_path / "ran").exists()
    if problem == "evil":
        assert done.returncode == 2
        assert "row 1: Unknown problem 'evil'" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        kandle("study", "status", "--store", "store", cwd=tmp_path)
        kandle("study", "export", "--store", "store", "--out", "copy.csv", cwd=tmp_path)
        kandle("study", "merge", "store", "--store", "merged", cwd=tmp_path)
        assert not (tmp_path / "ran").exists()


def test_a_pde_trains_with_its_weights_and_reference(tmp_path, notes):
    axes = Axes(
        problems=("allen-cahn",), architectures=((3, 2, 1),), schemes=("glorot",), seeds=1, steps=3
    )
    plan = study.plan(study.get("pdes"), axes=axes)
    study.run(plan, tmp_path, executor=InlineExecutor, watcher=notes)
    (row,) = rows(tmp_path)[0].to_dict("records")
    assert (row["rba"], row["reference"], row["status"]) == ("published", "dirichlet", "ok")
    assert np.isnan(row["test_mse"])


def test_draws_of_the_layers_are_an_axis(tmp_path, notes, command):
    found = study.get("functions").with_axes(replace(TINY, betas=(1.0,), seeds=1))
    plan = study.plan(replace(found, draws=("independent", "published")))
    study.run(plan, tmp_path / "a", executor=InlineExecutor, watcher=notes)
    with Store.open(tmp_path / "a") as store:
        frame = store.frame().set_index(["scheme", "draws"])
    assert set(frame.index.get_level_values("draws")) == {"independent", "published"}
    for scheme in ("baseline", "glorot", "power-law"):
        losses = [frame.loc[(scheme, draws), "loss"] for draws in ("independent", "published")]
        shape = Architecture(width=2, depth=1, grid=3)
        start = (init.PowerLaw(0.25, 1.0) if scheme == "power-law" else scheme, 0)
        by_hand = [
            train(problem, shape, [start], steps=6, sampler=sampler)[0].loss
            for problem, sampler in (("f1", None), paper.published_draws(problems.get("f1")))
        ]
        assert losses == by_hand
        assert losses[0] != losses[1]

    # There and back by a table.
    command("study", "export", "--store", tmp_path / "a", "--out", tmp_path / "a.csv")
    command("study", "import", tmp_path / "a.csv", "--store", tmp_path / "b")
    with Store.open(tmp_path / "a") as a, Store.open(tmp_path / "b") as b:
        pd.testing.assert_frame_equal(a.frame(), b.frame())


def test_spectra_land_in_the_store(tmp_path, notes):
    axes = Axes(problems=("f1",), architectures=((3, 2, 1),), schemes=("glorot",), steps=4)
    plan = study.plan(study.get("ntk-functions"), axes=axes)
    study.run(plan, tmp_path, executor=InlineExecutor, watcher=notes)
    with Store.open(tmp_path) as store:
        (found,) = store.spectra().values()
    assert [(s.block, s.step) for s in found] == [("ntk", step) for step in range(5)]
    for spectrum in found:
        assert spectrum.eigenvalues.shape == (256,)
        assert (np.diff(spectrum.eigenvalues) <= 0).all()
        assert spectrum.error_share is not None
        assert spectrum.error_share.sum() == pytest.approx(1.0, abs=1e-5)


def test_too_few_conditions_are_a_line_before_training(tmp_path):
    (tmp_path / "posed.py").write_text(
        "from kandle import problems\n"
        "box = [(0, 1), (-1, 1)]\n"
        "start = problems.side('start', box, axis=0, at=0)\n"
        "left = problems.side('left', box, axis=1, at=-1)\n"
        "def residual(x, d):\n"
        "    return d['t'] - d['x', 'x']\n"
        "heat = problems.PDE('heat', residual, box, [start, left], inputs=('t', 'x'))\n"
    )
    (tmp_path / "own.toml").write_text(
        'problems = ["posed:heat"]\ngrids = [3]\nwidths = [2]\ndepths = [1]\nsteps = 2\n'
        '[[schemes]]\nname = "glorot"\nseeds = 1\n'
    )
    done = kandle("study", "run", "own.toml", "--store", "store", cwd=tmp_path)
    assert done.stderr.splitlines()[0] == (
        "kandle: warning: PDE 'heat' is of order 2 in 'x', but has 1 condition at the ends of 'x' "
        "('left'), and none at x = 1: its solution is not unique."
    )


def test_a_run_that_cannot_be_made_fails_with_its_reason_and_exit_code_1(tmp_path, command):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\nfrom kandle.problems import Function\ndef f(x):\n    import sys\n   "
        " if 'kandle.study._worker' in sys.modules and sys.argv[0] == '-c' and len(sys.argv) == "
        "4:\n        raise RuntimeError('no such luck')\n    return x\nbad = Function(f, [(-1, "
        "1)], name='bad', n_train=16, n_test=4)\n"
    )
    options = (
        "--problems mine:bad --grids 3 --widths 2 --depths 1 --schemes glorot --seeds 2 --steps 2"
    )
    done = kandle(
        *("study", "run", "functions", *options.split(), "--store", "store", "--workers", 1),
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 1
    assert "2 runs failed" in done.stdout
    output = command("study", "status", "--store", tmp_path / "store").stdout
    assert "failed (2): UserError: Function 'bad' of 1 inputs cannot be evaluated: " in output
    assert "RuntimeError: no such luck" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("plan", "functions", "--widths", "0"),
            "option 'widths' must be a list of at least one value",
        ),
        (("plan", "functions", "--scale", "huge"), "Unknown scale 'huge'. Known: smoke, quick"),
        (("plan", "none.toml"), "There is no study file none.toml"),
        (("plan", "functions", "--shard", "3/2"), "must be I/N with 1 <= I <= N, got 3/2"),
        (("status", "--store", "nowhere"), "There is no store at nowhere"),
        (("run", "functions", "--workers", "0"), "must be at least 1"),
        (("merge", "nowhere", "--store", "s"), "There is no store at nowhere"),
        (("import", "nowhere.csv", "--store", "s"), "There is no file nowhere.csv"),
        (("plan", "functions", "--alphas", "inf"), "option 'alphas' must be a list of at least"),
        (("plan", "functions", "--problems", "broken:f"), "ends in ZeroDivisionError: division"),
        (
            ("run", "functions", *OPTIONS, "--ray", "nonsense"),
            "must be HOST:PORT, ray://HOST:PORT or auto",
        ),
        (
            ("run", "functions", *OPTIONS, "--ray", "127.0.0.1:1"),
            "There is no Ray cluster at 127.0.0.1:1",
        ),
        (("run", "functions", *OPTIONS, "--ray", "--batch-cpus", "0"), "must be not both 0"),
        (("run", "functions", *OPTIONS, "--store", "broken.py"), "The store must be a directory"),
    ],
)
def test_misuse_is_told_in_a_line_with_exit_code_2(tmp_path, arguments, message, command):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    done = command("study", *arguments, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "s").exists()


def test_a_terminal_without_the_characters_ends_no_command(tmp_path):
    (tmp_path / "mine.toml").write_text(
        'description = "3 × 3 – ok"\nproblems = ["f1"]\narchitectures = ["small"]\nsteps = 2\n'
        'schemes = [{ name = "glorot", seeds = 1 }]\n'
    )
    plain = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = kandle(
        *("study", "run", "mine.toml", "--store", "étude", "--workers", 1),
        cwd=tmp_path,
        env=plain,
    )
    assert re.search(r"1 of 1 runs are stored in \?+tude", done.stdout)
    done = kandle("study", "status", "--store", "nö", cwd=tmp_path, env=plain, check=False)
    assert done.returncode == 2
    assert r"There is no store at n\udc" in done.stderr


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\nb", "a\0b", "a/b", "..\\b", " a", "a\u202eb"])
def test_names_with_control_characters_or_separators_are_refused(tmp_path, name):
    row = {"study": "s", "problem": "f1", "scheme": "glorot", "machine": "m"}
    rest = {"G": 5, "width": 8, "depth": 2, "seed": 0, "steps": 7, "loss": 0.5, "l2": 0.5}
    for column in row:
        pd.DataFrame([{**row, **rest, column: name}]).to_parquet(tmp_path / "rows.parquet")
        with pytest.raises(UserError, match=f"row 1: '{column}' must be a name"):
            study.read_file(tmp_path / "rows.parquet")
    quoted = json.dumps(name)
    for key in ("name", "problems", "schemes"):
        value = quoted if key == "name" else f"[{quoted}]"
        keys = {"problems": '["f1"]', "schemes": '["glorot"]', "architectures": '["small"]'}
        text = "\n".join(f"{k} = {v}" for k, v in {**keys, key: value}.items())
        (tmp_path / "study.toml").write_text(text)
        with pytest.raises(UserError, match=r"must be a (name|list)"):
            study.get(tmp_path / "study.toml")


def test_a_received_store_with_hostile_names_is_shown_safely(tmp_path, command):
    hostile = "x\x1b]0;owned\x07\ny"
    spec = study.RunSpec(hostile, hostile, hostile, 5, 8, 2, 0)
    with Store.open(tmp_path / "store", "w") as store:
        store.add(spec, Outcome("failed", reason=hostile, machine=hostile))
    shown = command("study", "status", "--store", tmp_path / "store").stdout
    command("study", "export", "--store", tmp_path / "store", "--out", tmp_path / "rows.csv")
    for text in (shown, (tmp_path / "rows.csv").read_text()):
        assert "\x1b" not in text
        assert r"x\x1b]0;owned\x07\ny" in text
    done = command(
        *("study", "export", "--store", tmp_path / "store", "--out", tmp_path / "rows.csv"),
        *("--study", "\x1b"),
        check=False,
    )
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("field", ["study", "problem", "scheme", "machine", "identity", "loss"])
def test_a_store_with_records_that_are_no_runs_is_not_merged(tmp_path, field, capsys):
    good = study.RunSpec("s", "f1", "glorot", 5, 8, 2, 0)
    bad, machine = good.replace(seed=1), "m"
    if field == "machine":
        machine = "m\x1b[31m"
    elif field in ("study", "problem", "scheme"):
        bad = bad.replace(**{field: "../x\x1b[31m"})
    with Store.open(tmp_path / "received", "w") as store, store.transaction():
        for spec, name in ((good, "m"), (bad, machine)):
            identity = "0" * 64 if (field, spec) == ("identity", bad) else spec.identity
            store.put(identity, spec.to_dict(), Outcome("ok", loss=0.5, machine=name))
    if field == "loss":
        with sqlite3.connect(tmp_path / "received" / "runs.sqlite") as connection:
            connection.execute("UPDATE runs SET loss = 0.25 WHERE id = 2")
        connection.close()
    merge = ["study", "merge", str(tmp_path / "received"), "--store", str(tmp_path / "own")]
    assert main(merge) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "\x1b" not in error
    word = {"identity": "does not fit its identity", "loss": "1 damaged record"}
    assert word.get(field, f"'{field}' of a run must be a name") in error
    assert not (tmp_path / "own").exists()


def test_a_refused_import_leaves_no_store(tmp_path, command):
    (tmp_path / "rows.csv").write_text("study,problem\na,b\n")
    done = command("study", "import", "rows.csv", "--store", "store", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "given",
    [
        ["--alphas=-0.5,1.0", "--seeds", "2"],
        ["--ray", "host:1", "--batch-cpus", "0.5", "--batch-gpus", "0.25", "--retry-failed"],
        ["--shard", "2/3", "--workers", "4", "--scale", "quick"],
    ],
)
def test_the_command_to_go_on_says_all_that_was_said(given):
    parser = argparse.ArgumentParser()
    _study.add(parser.add_subparsers())
    first = parser.parse_args(["study", "run", "functions", *given])
    again = parser.parse_args(shlex.split(_study._command(first))[1:])
    assert vars(again) == vars(first)


def test_killed_in_the_midst_of_training_nothing_changes(tmp_path, notes):
    """Workers that really train are killed, and the rows are those of an undisturbed run."""
    axes = replace(TINY, steps=400, widths=(2, 3), schemes=("baseline", "power-law"))
    plan = study.plan(study.get("functions"), "paper", axes)
    quiet, disturbed = tmp_path / "quiet", tmp_path / "disturbed"
    study.run(plan, quiet, executor=lambda: LocalExecutor(2), watcher=notes)
    executor, ended, killed = LocalExecutor(2), threading.Event(), []

    def kill():
        while len(killed) < 3 and not ended.wait(0.1):
            busy = [worker for worker in executor._workers if worker.ready and worker.batch]
            if busy:
                killed.append(busy[0].process.pid)
                os.kill(killed[-1], signal.SIGKILL)
                ended.wait(1.0)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        study.run(plan, disturbed, executor=lambda: executor, watcher=notes)
    finally:
        ended.set()
        killer.join()
    assert killed
    assert any("killed by signal 9" in note for note in notes.notes)
    assert_same(rows(disturbed), rows(quiet))


def test_ctrl_c_stops_within_seconds_and_tells_how_to_go_on(tmp_path):
    options = ("--problems", "f1", "--widths", "8", "--workers", "1", "--store", str(tmp_path))
    process = subprocess.Popen(
        [*PROGRAM, "study", "run", "functions", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("0/")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "Stopped: 0 of 4,208 runs are stored" in stderr
    assert (
        "Resume with: kandle study run functions --scale paper --problems f1 --widths 8" in stderr
    )


def test_calibration_tells_core_hours(command, monkeypatch):
    monkeypatch.setattr("kandle.study._calibrate._SECONDS", 0.1)
    options = [*OPTIONS, "--widths", "2,4"]
    found = json.loads(
        command("study", "plan", "functions", *options, "--calibrate", "--json").stdout
    )
    rates = found["step_seconds"]
    slower = rates["function"] / CostModel().function
    model = CostModel(**rates, normalized=slower * CostModel().normalized)
    specs = study.plan(study.get("functions"), axes=replace(TINY, widths=(2, 4))).specs
    seconds = sum(map(model.run, specs))
    assert found["core_hours"] == pytest.approx(seconds / 3600, rel=1e-3)
