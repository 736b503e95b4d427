# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""examples/out_of_tree: a package with a C env and an algorithm, built by pip against our headers,
used like built-in ones.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import puffervec
from puffervec import envs
from puffervec._ffi import lib
from puffervec.commands import cli
from puffervec.commands import eval as evaluate
from puffervec.commands import list as listing
from puffervec.commands.eval import run_evaluation
from puffervec.contract import env_types
from puffervec.errors import ConfigError, WorkerError
from puffervec.gym import register_envs
from puffervec.pettingzoo import parallel_env
from puffervec.train import ActionSpec, Batch, TrainConfig, read_metrics
from puffervec.train.config.ranges import build_space
from puffervec.train.learn.ppo import PPOSection
from puffervec.train.learn.ppo_loss import ppo_loss
from puffervec.viewing.render.sight import fields_of
from tests.env_contract import EnvContract
from tests.helpers import serial
from tests.libraries import compile_library, environment, install_example

PACKAGE = "coin_grid"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_example("out_of_tree", tmp_path_factory.mktemp("out_of_tree"))


@pytest.fixture(scope="module", autouse=True)
def installed(site: Path) -> Iterator[Path]:
    """Put the package on sys.path for this module's tests, and forget it afterwards."""
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(site)
    yield site
    patch.undo()
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        sys.modules.pop(name)


class TestCoinGrid(EnvContract):
    env = "coin_grid"
    settings = {"size": 4, "episode_length": 30}


class TestTheSmallestGrid(EnvContract):
    env = "coin_grid"
    settings = {"size": 2, "episode_length": 5}


def test_it_is_listed_and_found_by_name(site: Path) -> None:
    assert PACKAGE in envs.names()
    env = envs.get(PACKAGE)
    assert env.shared_library_path is not None
    assert Path(env.shared_library_path).parent == site / PACKAGE


def test_gymnasium_makes_it_too(no_leaks: None) -> None:
    """By its name, and by the id that the registry gives it, with the settings as keyword
    arguments.
    """
    register_envs()
    envs = puffervec.make_vec(PACKAGE, num_envs=3, num_workers=1, size=4)
    assert envs.spec is not None and (envs.spec.id, envs.num_envs) == (f"puffervec/{PACKAGE}-v0", 3)
    first, _ = envs.reset(seed=0)
    again = gymnasium.make_vec(envs.spec)
    assert np.array_equal(again.reset(seed=0)[0], first)
    again.close()
    envs.close()
    env = gymnasium.make(f"puffervec/{PACKAGE}-v0", size=4)
    assert np.array_equal(env.reset(seed=0)[0], first[0])
    env.close()


def test_the_game_by_hand() -> None:
    """Walk to the coin around the pit: it brings the reward, and the next coin lies elsewhere."""
    with serial(PACKAGE, {"size": 5, "coin_reward": 2.5}) as vec:
        vec.reset(seed=8)
        for _ in range(20):
            before = vec.peek(0)
            to = before["coin"] - before["agent"]
            axis = int(abs(to[1]) > abs(to[0]))
            ahead = before["agent"].copy()
            ahead[axis] += np.sign(to[axis])
            if (ahead == before["pit"]).all():
                axis = 1 - axis
            action = 1 + 2 * axis + (1 if to[axis] < 0 else 0)
            observations, rewards, terminals, _, _ = vec.step([action])
            after = vec.peek(0)
            found = (after["agent"] == before["coin"]).all()
            fell = (after["agent"] == before["pit"]).all()
            assert rewards[0] == (-1.0 if fell else 2.5 if found else 0.0)
            assert terminals[0] == fell
            assert (after["coin"] != before["coin"]).any() == found
            np.testing.assert_allclose(observations[0, 2:4], after["coin"] / 5, rtol=1e-6)
            if fell:
                break


@pytest.mark.slow
def test_the_game_in_python_is_the_same() -> None:
    from coin_grid.reference import CoinGrid  # type: ignore[import-not-found]

    settings = [
        {"size": 2, "episode_length": 5},
        {"size": 5, "coin_reward": 0.3, "pit_penalty": 0.7},
    ]
    seen = puffervec.check_env_equal(
        PACKAGE, CoinGrid, settings=settings, seeds=(0, 2**40), steps=300
    )
    assert min(seen.events.values()) > 20 and "state.coin" in seen.largest


def test_unusable_settings_are_the_envs_own_words() -> None:
    with pytest.raises(ConfigError, match="size is 1: use 2 to 1000"):
        serial(PACKAGE, {"size": 1})
    with pytest.raises(ConfigError, match="no setting 'width'"):
        serial(PACKAGE, {"width": 1})


def test_a_saved_state_of_a_larger_grid_is_refused() -> None:
    with serial(PACKAGE, {"size": 50}) as large, serial(PACKAGE, {"size": 2}) as small:
        large.reset(seed=0)
        small.reset(seed=0)
        with pytest.raises(WorkerError, match="is no cell of a grid of 2"):
            small.load(large.save())


def test_a_library_of_other_headers_is_refused(site: Path, tmp_path: Path) -> None:
    """As after an update of puffervec without a rebuild of the package."""
    include = tmp_path / "include"
    shutil.copytree(env_types.get_include(), include, ignore=shutil.ignore_patterns("*.c"))
    base = include / "base.h"
    base.write_text(base.read_text().replace(f"#define PV_ABI {lib.PV_ABI} ", "#define PV_ABI 41 "))
    source = (
        Path(__file__).resolve().parents[2] / "examples" / "out_of_tree" / PACKAGE / "coin_grid.c"
    )
    library = compile_library(source, tmp_path / "old.so", include=str(include))
    with pytest.raises(ConfigError, match=rf"'coin_grid' .* ABI 41 .* ABI {lib.PV_ABI} .* rebuild"):
        dataclasses.replace(envs.get(PACKAGE), shared_library=str(library))


def test_a_library_that_is_rebuilt_wrongly_is_refused_by_the_workers(
    tmp_path: Path, no_leaks: None
) -> None:
    """Each process looks again: the learner had opened the good file."""
    good = envs.get(PACKAGE).shared_library_path
    assert good is not None
    library = tmp_path / "core.so"
    shutil.copy2(good, library)
    env = dataclasses.replace(envs.get(PACKAGE), shared_library=str(library))
    library.unlink()
    library.write_text("half written")
    with pytest.raises(WorkerError), puffervec.make(env, num_envs=2, num_workers=1):
        pass


@pytest.mark.slow
def test_it_trains_from_the_command_line(site: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "puffervec.commands.cli",
        PACKAGE,
        "--env.size",
        "4",
        "--vec.num-envs",
        "64",
    ]
    command += [
        "--vec.num-workers",
        "2",
        "--train.total-timesteps",
        "20000",
        "--log.folder",
        str(tmp_path),
    ]
    done = subprocess.run(
        command, env=environment(site), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "one coin and one pit on 4 x 4 cells" in done.stdout
    assert "coins per 100 steps" in done.stdout and "64 grids of 4 x 4" in done.stdout


def test_its_evaluation_is_its_own(
    site: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = evaluate.EvalRequest(
        PACKAGE, baseline="walk", json=tmp_path / "walk.json", env_flags=("--env.size", "4")
    )
    run_evaluation(asked)
    assert "64 grids of 4 x 4" in capsys.readouterr().out
    (row,) = json.loads((tmp_path / "walk.json").read_text())["rows"]
    assert row["episodes"] == 256 and 0 < row["in the pit"] < 1 and row["coins per 100 steps"] > 10
    low, high = row["in the pit_95"]
    assert low < row["in the pit"] < high
    run_evaluation(dataclasses.replace(asked, baseline="random", json=None))
    with pytest.raises(ConfigError, match="--baseline best: coin_grid has random, walk"):
        run_evaluation(dataclasses.replace(asked, baseline="best"))
    pytest.importorskip("matplotlib")
    run_evaluation(dataclasses.replace(asked, json=None, png=tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_its_training_is_its_own(site: Path) -> None:
    config = TrainConfig.of(PACKAGE)
    assert config.vec.num_envs == 256 and config.train.gamma == 0.95
    assert "train.gamma" in build_space(config, {})
    (row,) = [row for row in listing.envs() if row["env"] == PACKAGE]
    assert row["preset"] == "own"


@pytest.mark.slow
def test_its_frames_are_its_own(site: Path) -> None:
    from coin_grid.drawing import COLOURS

    pytest.importorskip("PIL")
    with contextlib.closing(parallel_env(PACKAGE, render_mode="rgb_array", size=5)) as env:
        env.reset(seed=0)
        frame = env.render()
    seen = {f"#{red:02X}{green:02X}{blue:02X}" for red, green, blue in frame.reshape(-1, 3)}
    assert set(COLOURS.values()) <= seen


def test_its_replay_knows_what_its_agent_sees(site: Path) -> None:
    """The agent's observation, put back into the drawing, lies on coin and pit."""
    from coin_grid.drawing import drawing

    with puffervec.make(PACKAGE, backend="serial", num_envs=1) as vec:
        vec.reset(seed=4)
        for action in (1, 3, 2, 4):
            vec.step([action])
            state, group = vec.peek(0), vec.halves[0].groups["agents"]
            drawn = drawing(vec.config, state)
            coin, pit = drawn.observed(fields_of(vec.spec.groups[0], group.observations), state)[
                "agent"
            ]
            shapes = {shape.role: shape for shape in drawn.shapes(state, None)}
            assert (coin.x, coin.y) == pytest.approx((shapes["coin"].x, shapes["coin"].y), abs=1e-5)
            assert (pit.x, pit.y) == pytest.approx((shapes["pit"].x, shapes["pit"].y), abs=1e-5)
            assert drawn.facts(state) == {
                "agent": {"to the coin": abs(state["agent"] - state["coin"]).sum()}
            }
            assert {name: numbers[0] for name, numbers in drawn.actions([action]).items()} == {
                "right": {1: 1, 2: -1}.get(action, 0),
                "up": {3: -1, 4: 1}.get(action, 0),
            }


def test_it_is_rendered(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    command = [
        "render",
        PACKAGE,
        "--baseline",
        "walk",
        "--format",
        "gif",
        "--steps",
        "9",
        "--out",
        str(tmp_path),
        "--seed",
        "2",
    ]
    assert cli.main(command) == 0
    said = capsys.readouterr().out
    assert "episode.gif: 9 steps, 8 per second" in said and "snapshots.png: steps 0, 9" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "episode.gif",
        "snapshots.png",
    ]  # it gives no numbers


@pytest.mark.slow
def test_its_algorithm_trains_any_env(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its name, with a setting and figures of its own, also after it was stopped."""
    run = tmp_path / "run"
    argv = (
        "probe --train.algorithm spo --train.reach 0.3 --train.horizon 8 --total-timesteps 100 "
        "--train.threads 1"
    ).split()
    argv += (
        "--vec.backend serial --vec.num-envs 4 --policy.hidden 8 --policy.memory mingru "
        "--log.name run"
    ).split()
    argv += ["--log.folder", str(tmp_path)]
    assert cli.main(argv) == 0
    assert cli.main(["--resume", str(run), "--total-timesteps", "200"]) == 0
    config = json.loads((run / "config.json").read_text())["train"]
    assert (config["algorithm"], config["reach"]) == ("spo", 0.3) and "clip" not in config
    *_, last = read_metrics(run / "metrics.jsonl")
    losses = {
        key.removeprefix("losses/"): value
        for key, value in last.items()
        if key.startswith("losses/")
    }
    assert list(losses) == [
        "policy",
        "value",
        "entropy",
        "ratio_change",
        "grad_norm",
        "explained_variance",
    ]
    assert 0 < losses["ratio_change"] < 0.3
    assert (
        cli.main([*argv, "--train.reach", "0"]) == 2
        and cli.main([*argv, "--train.clip", "0.1"]) == 2
    )
    said = capsys.readouterr().err
    assert "train.reach is 0.0: must be above 0" in said and "unknown flag --train.clip" in said
    assert {
        "train.algorithm": "spo",
        "what": "SPO: a quadratic penalty on the probability ratio.",
    } in listing.learners()


def gradient(loss: Any, section: Any, ratio: float) -> torch.Tensor:
    """That of three logits, from a sample that was drawn as choice 0 and was good."""
    logits, value = (
        torch.tensor([0.3, -0.2, 0.1], requires_grad=True),
        torch.tensor([0.5], requires_grad=True),
    )
    log_probs = logits.detach().log_softmax(0)[:1] - math.log(ratio)
    one, zero = torch.ones(1), torch.zeros(1)
    batch = Batch({}, torch.zeros(1, 1, dtype=torch.int32), log_probs, one, one, zero, None)
    total, _ = loss(
        lambda *_: ((logits.view(1, 3),), value, ()),
        ActionSpec("discrete", (3,), (), ()),
        batch,
        section,
        False,
    )
    return torch.autograd.grad(total, [logits])[0]


def test_its_penalty_pulls_back() -> None:
    """The gradient begins as PPO's; beyond the clip range, where PPO's is 0, it points back."""
    from coin_grid.spo import SPOSection, spo_loss

    torch.testing.assert_close(
        gradient(spo_loss, SPOSection(), 1.0), gradient(ppo_loss, PPOSection(), 1.0)
    )
    spo = gradient(spo_loss, SPOSection(entropy_coef=0.0), 1.5)
    assert (
        spo[0] > 0 and not gradient(ppo_loss, PPOSection(entropy_coef=0.0), 1.5).any()
    )  # descending lowers its logit
