# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/drive.md: its code runs, and its tables are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from drive_env.actions import axes_of
from drive_env.config import CHOICES, LIMITS, DriveConfig
from drive_env.env import ENV
from drive_env.evaluate.baselines import ACCELERATIONS_MPS2, STEERINGS_RAD
from drive_env.evaluate.columns import MEANS, MORE_RATES
from drive_env.evaluate.evaluate import SUITES
from drive_env.evaluate.likelihood import ESTIMATORS, WEIGHTS
from drive_env.evaluate.observation import Column, columns
from drive_env.kinds import NUMBERS, kinds
from drive_env.rewards import terms
from puffervec.commands import eval as evaluate
from puffervec.train.config.flags import known_flags
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec
from tests.docs import pages

PAGE = (pages.ROOT / "docs" / "drive.md").read_text(encoding="utf-8")
RECORDS = "record | in the log and in `eval` | what it is a share or mean of"


def table(head: str, number: int = 0) -> list[list[str]]:
    """Return the rows of the table under a head row, as cells without backquotes. number: which of
    those with this head.
    """
    rows = PAGE.split(f"| {head} |\n")[1 + number].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip().replace("`", "") for cell in row.split("|")[1:-1]] for row in rows]


@pytest.mark.slow
def test_the_code_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path))
    assert pages.differing(PAGE, tmp_path) == []


PRESETS = ("pufferdrive", "gpudrive")


@pytest.mark.parametrize("preset", ["", *PRESETS])
def test_observation_tables(preset: str) -> None:
    blocks: dict[tuple[Column, ...], list[str]] = {}  # with equal columns
    for name, listed in columns().items():
        if next((known for known in PRESETS if name.startswith(known)), "") == preset:
            blocks.setdefault(listed, []).append(f"`{name}`")
    rows = [
        (
            ", ".join(names),
            f"`{c.name}`",
            c.unit,
            f"{c.scale:.6g}",
            f"{c.most:g}" if c.most else "range_m",
            c.meaning,
        )
        for listed, names in blocks.items()
        for c in listed
    ]
    text = "".join(
        "|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n" for row in rows
    )
    head = "| block | column | unit | scale | byte | meaning |\n|---|---|---|---|---|---|\n"
    expected = (head + text).rstrip()
    path = pages.ROOT / "docs" / (f"from-{preset}.md" if preset else "drive.md")
    assert expected in path.read_text(encoding="utf-8"), f"a table in {path} is to be\n\n{expected}"


def test_actions() -> None:
    rows = dict(table("| values"))
    for key, values in (
        ("acceleration in m/s²", ACCELERATIONS_MPS2),
        ("steering in rad, positive to the left", STEERINGS_RAD),
    ):
        assert [float(text) for text in rows[key].split(",")] == pytest.approx(values.tolist())
    assert len(ACCELERATIONS_MPS2) * len(STEERINGS_RAD) == 91


def test_models_and_their_axes() -> None:
    head = "`dynamics` | axis | unit | values | from | to"
    axes = [(name, axis) for name in CHOICES["dynamics"] for axis in axes_of(name)]
    for cells, (name, axis) in zip(table(head), axes, strict=True):
        assert cells[:3] == [name, axis.name, axis.unit]
        assert [float(cell) for cell in cells[4:]] == pytest.approx([axis.low, axis.high], rel=1e-5)
        if axis.values and not cells[3].endswith("evenly"):
            assert [float(text) for text in cells[3].split(",")] == pytest.approx(
                list(axis.values), rel=1e-5
            )
    assert [cells[0] for cells in table("`dynamics` | formula | source")] == list(
        CHOICES["dynamics"]
    )
    assert [cells[0] for cells in table("`actions` | space | an action")][1:] == list(
        CHOICES["actions"]
    )[1:]
    assert {cells[0] for cells in table("setting | limit")} == set(LIMITS)


def test_rewards_and_their_defaults() -> None:
    rows = [
        (
            f"`reward_{term.name}`",
            f"{getattr(DriveConfig, f'reward_{term.name}'):g}",
            term.unit,
            term.meaning,
        )
        for term in terms()
    ]
    text = "".join(
        "|" + "".join(f" {cell} |" if cell else " |" for cell in row) + "\n" for row in rows
    )
    expected = f"| setting | default | unit | value |\n|---|---|---|---|\n{text}\n"
    assert expected in PAGE, f"the table in docs/drive.md is to be\n\n{expected}"


def test_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path))
    spec = env_spec(
        TrainConfig.bare("drive").merged({"env": {"scenes": "generated:2", "num_agents": 24}})
    )
    head = RECORDS
    assert {cells[0] for cells in table(head)} == set(spec.record_names)
    measured = env_spec(
        TrainConfig.bare("drive").merged(
            {"env": {"scenes": "generated:2", "num_agents": 24, "metrics": 1}}
        )
    )
    rows = table(head, 1)
    names = [name for cells in rows for name in cells[0].split(", ")]
    assert names == list(measured.record_names[len(spec.record_names) :])
    shown = {shown: record for record, shown, _ in rows if shown and shown != "the same"}
    rates = {**MORE_RATES, **MEANS}
    assert shown == {
        name: of.partition("/")[0] for name, of in rates.items() if not name.startswith("peak_")
    }
    for name, of in rates.items():
        said = next(cells[2] for cells in rows if of.partition("/")[0] in cells[0])
        assert not of.partition("/")[2] or of.partition("/")[2] in said, name


def test_suites() -> None:
    assert [row[0] for row in table("`--suite` | who is driven by the policy | scenes")] == list(
        SUITES
    )


def test_kinds_of_drivers() -> None:
    def cell(low: float, high: float) -> str:
        return "" if high == 0 else f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"

    rows = [[kind, *(cell(*ranges[name]) for name in NUMBERS)] for kind, ranges in kinds().items()]
    assert table(f"kind | {' | '.join(NUMBERS)}") == rows


def test_estimators_of_realism() -> None:
    rows = [
        [
            name,
            f"{e.low:g}",
            f"{e.high:g}",
            str(e.bins),
            f"{e.pseudocount:g}",
            f"{WEIGHTS['2025'][name]:g}",
            f"{WEIGHTS['2024'][name]:g}",
            e.group,
        ]
        for name, e in ESTIMATORS.items()
    ]
    assert (
        table("feature | low | high | bins | pseudocount | weight 2025 | weight 2024 | group")
        == rows
    )


def test_limits_of_comfort() -> None:
    header = (pages.ROOT / "csrc/drive/judge/records.h").read_text()
    limits = dict(re.findall(r"#define DRIVE_COMFORT_(\w+) ([\d.]+)f", header))
    said = PAGE.partition("- **Comfort** is ")[2].partition("nuPlan")[0]
    assert len(limits) == 5 and all(
        f" {value} " in said.replace(",", " ").replace("\n", " ") for value in limits.values()
    )


def test_settings_and_flags_exist() -> None:
    config = TrainConfig.bare("drive")
    names = set(re.findall(r"`(\w+_\w+)`", PAGE))
    listed_names = {name for names in CHOICES.values() for name in names}
    listed_names |= {axis.name for name in CHOICES["dynamics"] for axis in axes_of(name)}
    known = {flag.removeprefix("--env.").replace("-", "_") for flag in known_flags(config)}
    listed = {column.name for found in columns().values() for column in found} | set(columns())
    listed |= {
        *MORE_RATES,
        *MEANS,
        *ESTIMATORS,
        *(
            cell
            for number in (0, 1)
            for row in table(RECORDS, number)
            for cell in row[0].split(", ")
        ),
    }
    listed |= {name for names in CHOICES.values() for name in names}
    others = {"mark_as_expert", "goal_steps", "progress_m", "goals_again", "agent_types",
              "remove_at_goal", "PUFFERVEC_CACHE", "DRIVE_SETTINGS", "DRIVE_BLOCKS", "write_NAME",
              "DRIVE_COLUMNS_channel", "DRIVE_COLUMNS_NAME", "DRIVE_COLUMN_SETS",
              "DRIVE_REWARDS_ASKED", "value_NAME", "reward_NAME", "partners_cut", "lanes_cut",
              "roads_cut", "invalid_actions", "waymo_open_dataset", "PUFFERVEC_WOSAC_PYTHON",
              "PUFFERVEC_WOSAC_SUBMISSION", "scenario_id", "min_ade_m"}  # fmt: skip
    assert names - known - listed - listed_names - others == set()
    own = ENV.own_evaluation()
    assert own is not None
    commands = pages.commands(PAGE, "sh")
    assert len(commands) == 10
    for command in commands:
        request = evaluate.parse(shlex.split(command)[2:])
        assert set((request.baseline or "runs/OLD").split(",")) <= {*own.baselines, "runs/OLD"}
