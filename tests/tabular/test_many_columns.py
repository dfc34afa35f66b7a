"""Tables with very many columns."""

import numpy as np
import pytest

from kandle import UserError
from kandle.tabular._read import numbers, read_frame


def write(path, names, rows=2):
    lines = [",".join(names)]
    lines += [",".join(str((7 * i + r) % 13) for i in range(len(names))) for r in range(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_thousands_of_columns_are_read(tmp_path):
    names = [f"c{i}" for i in range(5000)]
    frame = read_frame(write(tmp_path / "wide.csv", names))
    values = numbers(frame, names)
    expected = (7 * np.arange(5000) + np.arange(2)[:, None]) % 13
    np.testing.assert_array_equal(values, expected)


def test_a_bad_cell_or_a_repeated_name_among_them_is_named(tmp_path):
    names = [f"c{i}" for i in range(2000)]
    frame = read_frame(write(tmp_path / "wide.csv", names))
    frame.loc[1, "c1234"] = np.nan
    with pytest.raises(UserError, match=r"Column 'c1234', row 2 is missing"):
        numbers(frame, names)
    with pytest.raises(UserError, match=r"Column 'c7' occurs more than once"):
        read_frame(write(tmp_path / "twice.csv", [*names, "c7"]))
