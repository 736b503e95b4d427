# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""bench/covid.py and bench/covid_learning.py in short; whether policies learn in that time is not
judged.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import covid, covid_learning
from tests.fixtures.training import torch_state  # noqa: F401 (autouse)


def test_rates_and_ratios() -> None:
    seconds = {
        "serial": [6e-5, 1.2e-4], covid.ONE: [8e-5, 1.6e-4], covid.TWO: [4e-5, 8e-5],
        covid.NUMPY: [2e-4, 4e-4], "transfer": [1.5e-5, 3e-5],
    }  # fmt: skip
    found = covid.rates(seconds, 60)
    assert found["env_steps_per_s"]["serial"].median == pytest.approx(750_000)
    assert found["env_steps_per_s"][covid.NUMPY].median == pytest.approx(3750)
    assert found["serial_over_numpy"].median == pytest.approx(200)
    assert (found["two_over_one"].median, found["transfer_share"].median) == pytest.approx(
        (2.0, 0.25)
    )


def test_a_fast_turn_is_one_of_the_fastest_tenth() -> None:
    durations = iter([0.02] + [0.0] * 19)
    assert 0.0 < covid.fast_turn(lambda: covid.time.sleep(next(durations)), 20) < 0.01


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--parts", "x"], "--parts has 'x'"), (["--envs", "1"], "--envs is '1'")],
)
def test_bad_input_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert covid.main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_bad_cores_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert covid_learning.main(["--cores", "0"]) == 2
    assert capsys.readouterr().err.startswith("error: --cores is 0: this process may use 1 to ")


@pytest.mark.slow
def test_rollouts_are_measured(tmp_path: Path) -> None:
    short = [
        "--parts",
        "rollout",
        "--envs",
        "4",
        "--repeats",
        "1",
        "--seconds",
        "0.001",
        "--json",
        str(tmp_path / "r.json"),
    ]
    assert covid.main(short) == 0
    found = json.loads((tmp_path / "r.json").read_text())["results"]["rollout"]["4"]
    assert (
        set(found["env_steps_per_s"]) == {*covid.MODES, covid.NUMPY}
        and found["serial_over_numpy"]["median"] > 1
    )


def test_who_plays_makes_a_difference() -> None:
    """Without a trained policy: random states hold the epidemic down, at the cost of work."""
    idle = covid_learning.play(None, ("idle", "idle"), 1, 1)
    random = covid_learning.play(None, ("random", "random"), 2, 1)
    assert random["deaths"] < 0.6 * idle["deaths"] and random["unemployment"] > idle["unemployment"]
    assert idle["subsidies"] == 0 < random["subsidies"] and len(idle["curves"]) == 109
    alike = covid_learning.ratios({name: idle for name in covid_learning.PAIRINGS})
    assert alike == dict.fromkeys(covid_learning.COMPARED, 1.0)


@pytest.mark.slow
def test_both_policies_are_trained_and_compared(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="draws a picture")
    short = [
        "--minutes",
        "0.02",
        "--episodes",
        "2",
        "--json",
        str(tmp_path / "r.json"),
        "--png",
        str(tmp_path / "r.png"),
    ]
    assert covid_learning.main(short) == 0
    (one,) = json.loads((tmp_path / "r.json").read_text())["results"]
    assert (
        list(one["pairings"]) == list(covid_learning.PAIRINGS)
        and one["training"]["agent_steps"] > 0
    )
    assert (
        set(one["ratios"]) == set(covid_learning.COMPARED)
        and (tmp_path / "r.png").stat().st_size > 1000
    )
