# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Draw the synthetic data set of `covid` (puffervec/envs/covid/synthetic) from a seed.

    python scripts/make_covid_data.py                      rewrites the four files of the package
    python scripts/make_covid_data.py --seed 7 --out mine  another set

Nothing in the set is measured. Its states are fictitious regions with populations from half a
million to forty million. An epidemic begins in each region on a different day, measures follow, and
episodes begin with the state of the last day. Transmission falls with stringency from a basic
reproduction number of about 1.7 to 0.6. Unemployment rises some days after measures and falls over
months. The bounds of both indices come from two rollouts, all states at stringency 1 and all at 10
for the whole episode: an index is 0 at its mean in the rollout where it is worse, and 1 at its mean
in the other.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from puffervec.envs.covid.data import COLUMNS, STATES, SYNTHETIC, TASTE, CovidData
from puffervec.testing.reference.covid import Covid

SEED, DAYS, DELAY = 2021, 82, 29
PEOPLE = 330e6
LAMBDAS = np.array([7.0, 30.0, 90.0, 200.0, 450.0])
WEIGHTS = np.array(
    [-0.9, 0.35, 0.5, 0.5, 0.6]
)  # Effects per level of stringency: a sudden change shows after some days.
PLANNER_ALPHA, ETA = 0.5, 2.0
UNSCALED = {"health_min": 0.0, "health_max": 1.0, "economic_min": 0.0, "economic_max": 1.0}


def populations(draw: np.random.Generator) -> np.ndarray:
    """Draw populations as whole numbers, (51,), largest first."""
    shares = np.sort(np.exp(draw.normal(0.0, 1.0, STATES)))[::-1]
    return np.asarray(np.round(np.clip(shares / shares.sum() * PEOPLE, 0.55e6, 40e6)))


def levels_of(draw: np.random.Generator) -> np.ndarray:
    """Draw the stringency by day, (82, 51).

    It is 1 until measures begin, then increases by a level every few days.
    """
    begin, every = draw.integers(58, 72, STATES), draw.integers(3, 7, STATES)
    top = draw.integers(2, 6, STATES)
    climbed = np.maximum(0, (np.arange(DAYS)[:, None] - begin) // every + 1)
    return np.asarray(np.minimum(1 + climbed, top)).astype(np.uint8)


def epidemic(
    draw: np.random.Generator,
    population: np.ndarray,
    beta: tuple[np.ndarray, np.ndarray],
    levels: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Return susceptible, infected and recovered people of the last day.

    They follow from a daily SIR model, as in the env.
    """
    infected = np.zeros(STATES)
    recovered = np.zeros(STATES)
    begin = draw.integers(5, 30, STATES)
    seeds = population * draw.uniform(2e-5, 6e-5, STATES)
    for day in range(DAYS):
        infected = np.where(day == begin, seeds, infected)
        rate = beta[0] + beta[1] * levels[max(day - DELAY, 0)]
        new = rate * infected * (population - infected - recovered) / population
        infected, recovered = infected + new - infected / 14.0, recovered + infected / 14.0
    infected, recovered = np.round(infected), np.round(recovered)
    return population - infected - recovered, infected, recovered


def draw_data(seed: int) -> CovidData:
    """Draw a data set without bounds of the indices."""
    draw = np.random.default_rng(seed)
    population, levels = populations(draw), levels_of(draw)
    open_beta, closed_beta = (
        draw.normal(1.7, 0.1, STATES) / 14.0,
        draw.normal(0.6, 0.05, STATES) / 14.0,
    )
    slope = (closed_beta - open_beta) / 9.0
    beta = open_beta - slope, slope
    susceptible, infected, recovered = epidemic(draw, population, beta, levels)
    bias = draw.uniform(1.5, 3.0, STATES)
    weights = WEIGHTS[:, None] * draw.normal(1.0, 0.15, STATES)
    columns = {
        "population": population, "susceptible": susceptible,
        "infected": infected, "recovered": recovered,
        "vaccinated": np.zeros(STATES), "unemployed": np.zeros(STATES),
        "beta_intercept": beta[0], "beta_slope": beta[1],
        "unemployment_bias": bias, "alpha": draw.uniform(0.35, 0.65, STATES),
        "eta": np.full(STATES, ETA),
        **{name: np.full(STATES, value) for name, value in UNSCALED.items()},
    }  # fmt: skip
    planner = np.array([PLANNER_ALPHA, ETA, *UNSCALED.values()])
    states = np.array([columns[name] for name in COLUMNS]).T
    names = tuple(f"synthetic-{number:02d}" for number in range(1, STATES + 1))
    data = CovidData(names, states, planner, LAMBDAS, weights, levels)
    start = Covid(data)
    states[:, list(COLUMNS).index("unemployed")] = np.round(start.unemployment(start.filters))
    return dataclasses.replace(
        data,
        states=round_values(states),
        planner=round_values(planner),
        weights=round_values(weights),
    )


def round_values(values: np.ndarray) -> np.ndarray:
    """Round numbers to the ten digits of the files."""
    return np.array([float(f"{value:.10g}") for value in values.reshape(-1)]).reshape(values.shape)


def mean_indices(data: CovidData, level: int) -> np.ndarray:
    """Return the mean health and economic index of an episode at one stringency, (2, 52).

    The columns are those of the states, then of the planner.
    """
    env = Covid(data)
    actions = {"states": np.full(STATES, level), "planner": np.zeros(1, int)}
    sums = np.zeros((2, STATES + 1))
    for _ in range(env.episode_length):
        may = env.action_masks()["states"][:, level]
        env.step({**actions, "states": np.where(may, level, 0)})
        sums += np.hstack(env.indices)
    return np.asarray(sums / env.episode_length)


def with_bounds(data: CovidData) -> CovidData:
    """Return the data with bounds of both indices, which are the means of two rollouts."""
    open_health, open_economy = mean_indices(data, 1)
    closed_health, closed_economy = mean_indices(data, 10)
    bounds = round_values(
        np.array([open_health, closed_health, closed_economy, open_economy])
    )  # (4, 52), in the order of TASTE.
    states, planner = data.states.copy(), data.planner.copy()
    states[:, -4:], planner[-4:] = bounds[:, :STATES].T, bounds[:, STATES]
    return dataclasses.replace(data, states=states, planner=planner)


def save_data(data: CovidData, folder: Path) -> None:
    """Write the four files, as `load_data` reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    head = ["state", *COLUMNS]
    _write(
        folder / "states.csv",
        head,
        ([name, *map(_text, row)] for name, row in zip(data.names, data.states, strict=True)),
    )
    _write(folder / "planner.csv", list(TASTE), [[*map(_text, data.planner)]])
    rows = (
        [_text(days), *map(_text, row)]
        for days, row in zip(data.lambdas, data.weights, strict=True)
    )
    _write(folder / "filters.csv", ["lambda_days", *data.names], rows)
    first = 1 - len(data.stringency)
    levels = (
        [str(first + day), *map(str, row)] for day, row in enumerate(data.stringency.tolist())
    )
    _write(folder / "stringency.csv", ["day", *data.names], levels)


def _text(value: float) -> str:
    return f"{value:.10g}"


def _write(path: Path, head: Sequence[str], rows: Iterator[list[str]] | list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument(
        "--seed", type=int, default=SEED, help="seed of all draws (default: %(default)s)"
    )
    flags.add_argument(
        "--out",
        type=Path,
        default=SYNTHETIC,
        help="folder of the files (default: that of the package)",
    )
    options = flags.parse_args(arguments)
    data = with_bounds(draw_data(options.seed))
    save_data(data, options.out)
    print(
        f"{options.out}: {STATES} synthetic states, {data.column('population').sum():.4g} people, "
        f"{DAYS} days"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
