# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The data of covid (puffervec/envs/covid/data.py, settings.py): files are read, and what is wrong
in them is named; the script that drew the synthetic set draws it again.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from puffervec.envs.covid.data import COLUMNS, SYNTHETIC, load_data
from puffervec.errors import ConfigError
from scripts import make_covid_data
from scripts.make_covid_data import save_data


def test_the_synthetic_set_says_that_it_is() -> None:
    data = load_data()
    assert all(name.startswith("synthetic-") for name in data.names)
    assert data.states.shape == (51, len(COLUMNS)) and data.stringency.shape == (82, 51)
    assert data.weights.shape == (5, 51) and data.planner.shape == (6,)
    assert 2e8 < data.column("population").sum() < 4e8


@pytest.mark.slow
def test_the_script_draws_the_same_set_again(tmp_path: Path) -> None:
    """But for the bounds, which come from NumPy's sums over 540 days."""
    assert make_covid_data.main(["--out", str(tmp_path)]) == 0
    again, kept = load_data(tmp_path), load_data()
    np.testing.assert_allclose(again.states, kept.states, rtol=1e-8)
    np.testing.assert_allclose(again.planner, kept.planner, rtol=1e-8)
    assert (again.weights == kept.weights).all() and (again.stringency == kept.stringency).all()
    other = make_covid_data.draw_data(5)
    assert other.states.shape == kept.states.shape and (other.states != kept.states).any()


def test_a_set_is_written_and_read(tmp_path: Path) -> None:
    data = load_data()
    save_data(data, tmp_path)
    for path in sorted(SYNTHETIC.glob("*.csv")):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("file", "line", "place", "text", "said"),
    [
        (
            "states.csv",
            4,
            1,
            "many",
            "states.csv, line 4, column population: 'many' must be a number from 1 to 1e+10",
        ),
        (
            "states.csv",
            4,
            1,
            "-5",
            "line 4, column population: '-5' must be a number from 1 to 1e+10",
        ),
        ("states.csv", 4, 1, "5", "line 4, column population: 5.0 must be"),
        (
            "states.csv",
            2,
            0,
            "synthetic-02",
            "line 3, column state: 'synthetic-02' must be a unique name",
        ),
        (
            "states.csv",
            2,
            5,
            "1e9",
            "line 2, column vaccinated: 1000000000.0 must be at most recovered",
        ),
        (
            "states.csv",
            2,
            6,
            "1e9",
            "line 2, column unemployed: 1000000000.0 must be at most population",
        ),
        ("states.csv", 9, 8, "0.9", "line 9, column beta_slope: 0.9 must be such that"),
        ("states.csv", 9, 13, "-1", "line 9, column health_max: -1.0 must be more than health_min"),
        ("states.csv", 1, 2, "alive", "line 1: column 3 is 'alive': must be 'susceptible'"),
        (
            "planner.csv",
            2,
            0,
            "1.5",
            "planner.csv, line 2, column alpha: '1.5' must be a number from 0 to 0.999",
        ),
        (
            "filters.csv",
            3,
            0,
            "0",
            "filters.csv, line 3, column lambda_days: '0' must be a number from 0.1 to 1e+06",
        ),
        (
            "filters.csv",
            1,
            4,
            "else",
            "filters.csv, line 1: column 5 is 'else': must be 'synthetic-04'",
        ),
        (
            "stringency.csv",
            5,
            2,
            "0",
            "line 5, column synthetic-02: '0' must be a whole number from 1 to 10",
        ),
        (
            "stringency.csv",
            5,
            2,
            "2.5",
            "line 5, column synthetic-02: '2.5' must be a whole number from 1 to 10",
        ),
        (
            "stringency.csv",
            5,
            0,
            "3",
            "line 5, column day: 3 must be -78: days are consecutive, and the last one is 0",
        ),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, file: str, line: int, place: int, text: str, said: str
) -> None:
    save_data(load_data(), tmp_path)
    rows = [row.split(",") for row in (tmp_path / file).read_text().splitlines()]
    rows[line - 1][place] = text
    (tmp_path / file).write_text("\n".join(",".join(row) for row in rows))
    with pytest.raises(ConfigError) as caught:
        load_data(tmp_path)
    assert (
        said in str(caught.value)
        and str(tmp_path / file) in str(caught.value)
        and "\n" not in str(caught.value)
    )


def test_rows_and_cells_are_counted(tmp_path: Path) -> None:
    save_data(load_data(), tmp_path)
    path = tmp_path / "states.csv"
    whole = path.read_text()
    path.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    with pytest.raises(ConfigError, match="has 50 rows below the first line: must have 51"):
        load_data(tmp_path)
    path.write_text(whole.replace("\n", ",7\n", 2).replace(",7\n", "\n", 1))
    with pytest.raises(ConfigError, match="line 2: 17 cells: must have 16, one per column"):
        load_data(tmp_path)
    path.write_text(whole.replace("economic_max\n", "economic_max,more\n"))
    with pytest.raises(ConfigError, match="line 1: column 'more' is unknown: leave it out"):
        load_data(tmp_path)
    path.write_text("")
    with pytest.raises(ConfigError, match="is empty"):
        load_data(tmp_path)
    path.unlink()
    with pytest.raises(ConfigError, match=r"states.csv cannot be read: .*No such file"):
        load_data(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "device", "large"])
def test_only_plain_files_of_a_sane_size_are_read(tmp_path: Path, kind: str) -> None:
    """A checkpoint names the folder, and whoever made it may have made the checkpoint."""
    save_data(load_data(), tmp_path)
    path = tmp_path / "planner.csv"
    if kind == "large":
        os.truncate(path, 2**40)
    else:
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="planner.csv cannot be read: it "):
        load_data(tmp_path)
