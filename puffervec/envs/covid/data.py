# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The data of `covid` about its 51 states, which are read from four CSV files and checked.

    states.csv      a row per state: people at the start, transmission, bias of unemployment, and
                    the weights of the health and economy indices
    planner.csv     one row: the planner's weights
    filters.csv     a row per filter of unemployment: its lambda in days, and its weight in each
                    state
    stringency.csv  a row per day up to the start (day 0): the stringency of each state, 1 to 10

The folder `synthetic` next to this file is a synthetic data set, drawn by
scripts/make_covid_data.py; no state in it is real.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from puffervec.errors import ConfigError
from puffervec.system.folder import Folder

STATES, FILTERS, LEVELS, WINDOW = 51, 5, 10, 600
MOST_BYTES = 1 << 20  # Limit for a file: 600 days of 51 states take 100 kB.
SYNTHETIC = Path(__file__).resolve().parent / "synthetic"
Bounds = tuple[float, float]
PEOPLE, INDEX = (0.0, 1e10), (-1e9, 1e9)
TASTE: Mapping[str, Bounds] = {
    "alpha": (0.0, 0.999),
    "eta": (0.0, 20.0),
    "health_min": INDEX,
    "health_max": INDEX,
    "economic_min": INDEX,
    "economic_max": INDEX,
}
# In the order of covid_facts (csrc/covid/covid.h).
COLUMNS: Mapping[str, Bounds] = {
    "population": (1.0, 1e10),
    "susceptible": PEOPLE,
    "infected": PEOPLE,
    "recovered": PEOPLE,
    "vaccinated": PEOPLE,
    "unemployed": PEOPLE,
    "beta_intercept": (-10.0, 10.0),
    "beta_slope": (-10.0, 10.0),
    "unemployment_bias": (0.0, 98.0),
    **TASTE,
}
WEIGHT, LAMBDA = (-1e4, 1e4), (0.1, 1e6)


@dataclass(frozen=True)
class CovidData:
    """The data of the 51 states.

    Attributes:
        names: names of the states.
        states: (51, 15) float64, the columns of COLUMNS.
        planner: (6,) float64, the columns of TASTE.
        lambdas: (5,) float64, days.
        weights: (5, 51) float64.
        stringency: (days, 51) uint8, 1 to 10; episodes begin on the last day.
    """

    names: tuple[str, ...]
    states: np.ndarray
    planner: np.ndarray
    lambdas: np.ndarray
    weights: np.ndarray
    stringency: np.ndarray

    def column(self, name: str) -> np.ndarray:
        """Return a column of `states`, (51,)."""
        return np.asarray(self.states[:, list(COLUMNS).index(name)])


class _Table:
    """A CSV file. Error messages name file, line, column and value, and what is allowed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        try:
            with Folder(folder) as opened:
                text = opened.read(name, MOST_BYTES).decode()
            rows = list(csv.reader(io.StringIO(text, newline="")))
        except OSError as error:
            raise ConfigError(
                f"covid: {self.path} cannot be read: {error.strerror or error}"
            ) from None
        # ValueError: the file is not UTF-8, or the folder's name contains a NUL.
        except (ValueError, csv.Error) as error:
            raise ConfigError(f"covid: {self.path} cannot be read: {error}") from None
        numbered = [(line, row) for line, row in enumerate(rows, 1) if row]
        if not numbered:
            raise ConfigError(f"covid: {self.path} is empty: its first line must name the columns")
        (_, self.columns), *self.rows = numbered

    def require(self, columns: Sequence[str], least: int, most: int) -> None:
        """Raise ConfigError unless the file has these columns in order and least to most rows."""
        for place, wanted in enumerate(columns):
            name = self.columns[place] if place < len(self.columns) else "missing"
            if name != wanted:
                raise ConfigError(
                    f"covid: {self.path}, line 1: column {place + 1} is {name!r}: must be "
                    f"{wanted!r}"
                )
        if len(self.columns) > len(columns):
            extra = self.columns[len(columns)]
            raise ConfigError(
                f"covid: {self.path}, line 1: column {extra!r} is unknown: leave it out"
            )
        if not least <= len(self.rows) <= most:
            allowed = str(least) if least == most else f"{least} to {most}"
            raise ConfigError(
                f"covid: {self.path} has {len(self.rows)} rows below the first line: must have "
                f"{allowed}"
            )
        for line, row in self.rows:
            if len(row) != len(columns):
                raise ConfigError(
                    f"covid: {self.path}, line {line}: {len(row)} cells: must have "
                    f"{len(columns)}, one per column"
                )

    def cells(self, column: str) -> Iterator[tuple[int, str]]:
        """Yield (line, text) of a column."""
        place = self.columns.index(column)
        return ((line, row[place].strip()) for line, row in self.rows)

    def numbers(self, column: str, bounds: Bounds, whole: bool = False) -> list[float]:
        """Return a column. Raises: ConfigError: a cell is not a number within the bounds."""
        low, high = bounds
        return [
            self._number(line, column, text, low, high, whole) for line, text in self.cells(column)
        ]

    def _number(
        self, line: int, column: str, text: str, low: float, high: float, whole: bool
    ) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high or (whole and value != int(value)):
            kind = "a whole number" if whole else "a number"
            raise self.refuse(line, column, text, f"{kind} from {low:g} to {high:g}")
        return value

    def refuse(self, line: int, column: str, value: object, allowed: str) -> ConfigError:
        """Return the error for a cell."""
        return ConfigError(
            f"covid: {self.path}, line {line}, column {column}: {value!r} must be {allowed}"
        )


def load_data(folder: str | Path | None = None) -> CovidData:
    """Read the four files of a folder; None: the synthetic data set.

    Raises:
        ConfigError: a file cannot be used; the message names file, line, column and value, and what
            is allowed.
    """
    where = SYNTHETIC if folder is None else Path(folder)
    names, states = _load_states(_Table(where, "states.csv"))
    planner = _Table(where, "planner.csv")
    planner.require(list(TASTE), 1, 1)
    _check_bounds(planner)
    filters = _Table(where, "filters.csv")
    filters.require(["lambda_days", *names], FILTERS, FILTERS)
    return CovidData(
        names,
        states,
        np.array([planner.numbers(name, bounds)[0] for name, bounds in TASTE.items()]),
        np.array(filters.numbers("lambda_days", LAMBDA)),
        np.array([filters.numbers(name, WEIGHT) for name in names]).T.copy(),
        _load_stringency(_Table(where, "stringency.csv"), names),
    )


def _load_states(table: _Table) -> tuple[tuple[str, ...], np.ndarray]:
    table.require(["state", *COLUMNS], STATES, STATES)
    names: list[str] = []
    for line, name in table.cells("state"):
        if not name or name in names or name in ("day", "lambda_days"):
            raise table.refuse(line, "state", name, "a unique name")
        names.append(name)
    columns = {name: table.numbers(name, bounds) for name, bounds in COLUMNS.items()}
    for row, (line, _) in enumerate(table.rows):
        _check_state(table, line, {name: values[row] for name, values in columns.items()})
    _check_bounds(table)
    return tuple(names), np.array(list(columns.values())).T.copy()


def _check_state(table: _Table, line: int, of: Mapping[str, float]) -> None:
    """Raise ConfigError if the numbers of a state are inconsistent."""
    alive = of["susceptible"] + of["infected"] + of["recovered"]
    if abs(alive - of["population"]) > 1e-6 * of["population"] + 1.0:
        allowed = f"{alive:.9g}, the sum of susceptible, infected and recovered, within 1 person"
        raise table.refuse(line, "population", of["population"], allowed)
    if of["vaccinated"] > of["recovered"]:
        allowed = f"at most recovered, {of['recovered']:.9g}, which includes the vaccinated"
        raise table.refuse(line, "vaccinated", of["vaccinated"], allowed)
    if of["unemployed"] > of["population"]:
        raise table.refuse(
            line, "unemployed", of["unemployed"], f"at most population, {of['population']:.9g}"
        )
    for level in (1, LEVELS):
        beta = of["beta_intercept"] + level * of["beta_slope"]
        if not 0.0 <= beta <= 1.0:
            allowed = (
                f"such that beta_intercept + {level} * beta_slope, {beta:.6g}, is from 0 to 1: "
                "transmission a day"
            )
            raise table.refuse(line, "beta_slope", of["beta_slope"], allowed)


def _check_bounds(table: _Table) -> None:
    """Raise ConfigError if an index's minimum is not below its maximum."""
    for index in ("health", "economic"):
        most = table.numbers(f"{index}_max", INDEX)
        least = table.numbers(f"{index}_min", INDEX)
        for (line, _), low, high in zip(table.rows, least, most, strict=True):
            if not low < high:
                raise table.refuse(line, f"{index}_max", high, f"more than {index}_min, {low:.9g}")


def _load_stringency(table: _Table, names: Sequence[str]) -> np.ndarray:
    table.require(["day", *names], 1, WINDOW)
    first = 1 - len(table.rows)
    for place, ((line, _), day) in enumerate(
        zip(table.rows, table.numbers("day", (-1e6, 1e6), whole=True), strict=True)
    ):
        if day != first + place:
            raise table.refuse(
                line,
                "day",
                int(day),
                f"{first + place}: days are consecutive, and the last one is 0",
            )
    return np.array([table.numbers(name, (1, LEVELS), whole=True) for name in names]).T.astype(
        np.uint8
    )
