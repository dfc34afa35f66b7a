import pytest

import kandle.cli._main as program


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the program; gives (exit code, output, errors)."""
    monkeypatch.setattr(program, "_COMMANDS", ("_study", "_reproduce"))

    def run(*arguments):
        code = program.main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
