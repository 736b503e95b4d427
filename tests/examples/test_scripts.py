# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The scripts of examples/ run as their heads say, and learn: cleanrl_ppo.py, double_buffered.py,
pettingzoo_script.py, pufferlib_style.py, sb3_script.py, train_any_env.py. What of them needs
minutes is slow.
"""

from __future__ import annotations

import re
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from puffervec.commands import cli
from tests.docs.pages import ROOT, run_script
from tests.helpers import thinned

EXAMPLES = ROOT / "examples"
CLEANRL, DOUBLE, PUFFERLIB = (
    EXAMPLES / f"{name}.py" for name in ("cleanrl_ppo", "double_buffered", "pufferlib_style")
)


def returns(script: Path, *arguments: str) -> list[float]:
    """Run a script; return the mean return that it printed after each update."""
    return [
        float(found)
        for found in re.findall(r"mean return (-?[\d.]+|nan)", run_script(script, *arguments))
    ]


# ---- cleanrl_ppo.py ------------------------------------------------------------------------------


@pytest.mark.slow
def test_cleanrl_learns_and_repeats_itself() -> None:
    """A random policy stands for about 22 steps; twelve updates triple that."""
    first = returns(CLEANRL, "--total-steps", "12288")
    assert len(first) == 12
    assert first[0] < 30
    assert max(first[-3:]) > 60
    assert returns(CLEANRL, "--total-steps", "12288") == first


@pytest.mark.slow
def test_cleanrl_does_the_same_with_gymnasiums_own_vector_env(tmp_path: Path) -> None:
    """One line changes, so that is the one to change back; the import is then of no use."""
    text, changed = CLEANRL.read_text(), "envs = puffervec.make_vec("
    assert text.count(changed) == text.count("puffervec.") == 1
    own = tmp_path / "own.py"
    own.write_text(
        text.replace(changed, changed.replace("puffervec", "gymnasium")).replace(
            "import puffervec\n", ""
        )
    )
    sizes = ("--total-steps", "1536", "--num-envs", "4", "--horizon", "128", "--seed", "2")
    assert returns(own, *sizes) == returns(CLEANRL, *sizes)


@pytest.mark.slow
def test_cleanrl_counts_truncated_episodes() -> None:
    """The first episodes of MountainCar end by time alone, at 200 steps."""
    sizes = ("--num-envs", "2", "--horizon", "210", "--total-steps", "420")
    assert returns(CLEANRL, "--env-id", "MountainCar-v0", *sizes) == [-200.0]


@pytest.mark.slow
def test_cleanrl_runs_over_a_c_env() -> None:
    found = returns(CLEANRL, "--env-id", "puffervec/CartPole-v1", "--total-steps", "2048")
    assert len(found) == 2 and found[0] < 30


# ---- double_buffered.py --------------------------------------------------------------------------


def test_double_buffering_has_36_lines() -> None:
    lines = DOUBLE.read_text().splitlines()
    assert all("SPDX" in line for line in lines[:2])
    assert len(lines[2:]) <= 36
    assert max(map(len, lines)) <= 100


@pytest.mark.slow
@pytest.mark.parametrize("given", thinned(2, [["CartPole-v1", "8", "20"], []]))
def test_double_buffering_prints_a_rate(given: list[str]) -> None:
    found = re.fullmatch(r"([\d,]+) agent-steps/s\n", run_script(DOUBLE, *given))
    assert found is not None and int(found[1].replace(",", "")) > 0


@pytest.mark.slow
@pytest.mark.parametrize(("env", "least"), [("cartpole", 0.8), ("tag_grid", 0.95)])
def test_nothing_is_copied_and_rows_without_a_step_do_not_count(
    env: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random pole falls after about 22 steps, and a game of Tag has many; the row after an
    episode's end is a reset.
    """
    monkeypatch.setattr(sys, "argv", [str(DOUBLE), env, "8", "150"])
    threads = torch.get_num_threads()
    try:
        left = runpy.run_path(str(DOUBLE))
    finally:
        torch.set_num_threads(threads)
    vec, views = left["vec"], left["views"]
    for half, view in zip(vec.halves, views, strict=True):
        (rows,) = half.groups.values()
        assert np.shares_memory(view.observations.numpy(), rows.observations)
        assert np.shares_memory(view.actions.numpy(), rows.actions)
    rows_seen = 2 * 150 * vec.agents_per_batch
    assert least * rows_seen < int(left["acted"]) < rows_seen
    assert vec.counters()["invalid_actions"] == 0


# ---- pettingzoo_script.py, pufferlib_style.py, sb3_script.py -------------------------------------


def test_chasing_taggers_tag_more_and_sooner() -> None:
    pytest.importorskip("pettingzoo")
    shown = run_script(EXAMPLES / "pettingzoo_script.py", "--episodes", "12")
    found = re.findall(
        r"(\w+) taggers: runner tagged in (\d+)% of 12 episodes, ([\d.]+) steps each", shown
    )
    assert [name for name, _, _ in found] == ["random", "chasing"]
    (_, random_share, random_steps), (_, share, steps) = found
    assert int(share) >= max(90, int(random_share)) and float(steps) < 0.5 * float(random_steps)


@pytest.mark.parametrize(
    ("script", "changed"),
    [
        (
            "pufferlib_style",
            "import puffervec.compat.pufferlib as pufferlib  # the one changed line",
        ),
        (
            "sb3_script",
            "from puffervec.sb3 import make_vec_env  # was: from "
            "stable_baselines3.common.env_util import ",
        ),
    ],
)
def test_one_line_differs(script: str, changed: str) -> None:
    lines = (EXAMPLES / f"{script}.py").read_text().splitlines()
    (line,) = [
        line for line in lines if line.startswith(("import", "from")) and "puffervec" in line
    ]
    assert line.startswith(changed)
    assert len(lines) < 150


@pytest.mark.slow
def test_pufferlib_style_learns() -> None:
    """A random policy stands for about 22 steps; ten updates triple that (four seeds gave 44 to
    98).
    """
    found = returns(PUFFERLIB, "--updates", "10")
    assert found[0] < 30
    assert max(found[-3:]) > 40


def test_pufferlib_style_runs_in_one_process_with_other_sizes() -> None:
    assert returns(
        PUFFERLIB, "--updates", "1", "--num-envs", "4", "--horizon", "40", "--backend", "Serial"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("env", "rows"), thinned(2, [("CartPole-v1", 4), ("tag_grid", 4 * 11)]))
def test_sb3_trains_over_python_workers_and_over_c_rows(env: str, rows: int) -> None:
    pytest.importorskip("stable_baselines3")
    shown = run_script(EXAMPLES / "sb3_script.py", "--env", env, "--n-envs", "4", "--steps", "2000")
    number = r"-?\d+\.\d\d"
    assert re.fullmatch(
        rf"{env}, {rows} rows: mean return {number} after 200 steps, {number} at the end\n", shown
    )


# ---- train_any_env.py ----------------------------------------------------------------------------


def test_the_thermostat_is_a_gymnasium_env() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice on unbounded Boxes
        check_env(
            runpy.run_path(str(EXAMPLES / "train_any_env.py"))["Thermostat"](),
            skip_render_check=True,
        )


@pytest.mark.slow
def test_the_thermostat_is_learned(tmp_path: Path) -> None:
    shown = run_script(EXAMPLES / "train_any_env.py", folder=tmp_path)
    found = re.search(r"return (-?\d+), ([\d.]+) degrees from the target", shown)
    assert (
        found is not None and int(found[1]) > -400 and float(found[2]) < 4
    )  # untrained: about -1,000 and 10
    day = re.search(r"one day with the trained policy: ([\d.]+) degrees", shown)
    assert day is not None and float(day[1]) < 5


@pytest.mark.slow
def test_the_thermostat_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    args = (
        "--env.target 23.5 --total-timesteps 500 --num-envs 4 --train.horizon 16 --log.dashboard "
        "plain --device cpu"
    )
    assert (
        cli.main(
            [
                "train_any_env:Thermostat",
                *args.split(),
                "--log.folder",
                str(tmp_path),
                "--run-name",
                "r",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "serial" in out and "away" in out and "power" in out
    assert (
        cli.main(
            ["eval", str(tmp_path / "r"), "--env", "train_any_env:Thermostat", "--episodes", "4"]
        )
        == 0
    )
    assert "train_any_env:Thermostat" in capsys.readouterr().out
