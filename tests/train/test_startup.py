# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puffervec.errors import PuffervecError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.learn.updater import UpdateResult
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run import startup
from puffervec.train.run.rundir import config_of
from puffervec.train.run.setup import make_vec
from puffervec.train.run.state import as_chosen
from tests.train import envs

Small = Callable[..., TrainConfig]
CPU = torch.device("cpu")
LONG = {"total_timesteps": 10**9}
AUTO = {"backend": "auto", "num_envs": 8}


def choose(config: TrainConfig, make: Any = make_vec, **more: Any) -> startup.Chosen:
    return startup.choose(RunSpec.of(config), make, **more)


def never(config: TrainConfig) -> Any:
    raise AssertionError("no vec env must be started")


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "usable_cores", lambda: 2)


@pytest.fixture
def speeds(monkeypatch: pytest.MonkeyPatch, two_cores: None) -> dict[str, float]:
    """Agent-steps/s by backend, which stand for what is measured; there is all the time in the
    world.
    """
    given: dict[str, float] = {}
    monkeypatch.setattr(startup, "MOST_S", 1000.0)
    monkeypatch.setattr(startup, "speed", lambda rollout, seconds: given[rollout.vec.as_asked])
    return given


def in_this_process(config: TrainConfig, seed: int | None = None) -> Any:
    """Like make_vec, but without processes; the vec env remembers what it was asked to be."""
    vec: Any = make_vec(config.merged({"vec": {"backend": "serial"}}), seed)
    vec.as_asked = config.vec.backend
    return vec


@pytest.mark.parametrize(
    ("train", "seconds"),
    [
        ({"total_timesteps": 10**9}, 1.0),
        ({"total_timesteps": 10**9, "time_limit_s": 60.0}, 0.6),
        ({"total_timesteps": 10**9, "time_limit_s": 49.0}, 0.0),
        ({"total_timesteps": 49_000_000}, 0.0),
        ({"total_timesteps": 10**9, "deterministic": True}, 0.0),
    ],
)
def test_measuring_takes_a_hundredth_at_most(
    small: Small, train: dict[str, Any], seconds: float
) -> None:
    assert startup.measuring_s(small(train=train)) == pytest.approx(seconds)


def test_short_runs_are_not_measured(small: Small, two_cores: None) -> None:
    config = small(vec=AUTO, train={"precision": "auto"})
    chosen = choose(config, never)
    assert chosen.run.config.train.precision == ("bf16" if startup.cpu_has_bf16() else "fp32")
    assert (chosen.run.config.vec.backend, chosen.run.config.vec.num_buffers) == (
        "auto",
        2,
    )  # as on a machine with more cores
    assert chosen.lines == () and chosen.measured == {}


@pytest.mark.parametrize(
    "vec",
    [
        {"backend": "serial"},
        {"backend": "multiprocessing"},
        {"num_workers": 2},
        {"num_buffers": 1},
        {"batch_size": 4},
    ],
)
def test_settings_win(small: Small, two_cores: None, vec: dict[str, Any]) -> None:
    config = small(vec=AUTO | vec, train=LONG)
    chosen = choose(config, never)
    assert all(getattr(chosen.run.config.vec, name) == value for name, value in vec.items())


@pytest.mark.parametrize(
    ("serial", "threads", "expected", "line"),
    [
        (15_000.0, 9_000.0, ("serial", 1),
         "vec: in-process, 1 buffer (15k agent-steps/s while collecting; processes 100, th"),
        (109.0, 90.0, ("multiprocessing", 2),
         "vec: 2 workers, 2 buffers (100 agent-steps/s while collecting; in-process 109"),
        (90.0, 2e6, ("threading", 2),
         "vec: 2 threads, 2 buffers (2.0M agent-steps/s while collecting; processes 100"),
    ],
)  # fmt: skip
def test_the_fastest_is_taken_if_it_is_clearly_faster(
    small: Small,
    speeds: dict[str, float],
    serial: float,
    threads: float,
    expected: tuple[str, int],
    line: str,
) -> None:
    speeds |= {"serial": serial, "threading": threads, "multiprocessing": 100.0}
    chosen = choose(small(vec=AUTO, train=LONG), in_this_process)
    assert (chosen.run.config.vec.backend, chosen.run.config.vec.num_buffers) == expected
    assert len(chosen.lines) == 1 and chosen.lines[0].startswith(line)
    rates = {"processes": 100.0, "in-process": serial, "threads": threads}
    assert chosen.measured["vec"]["agent_steps_per_s"] == rates
    assert (
        choose(chosen.run.config, never).run.config == chosen.run.config
    )  # What was chosen is not measured again.


def test_threads_are_for_c_envs(small: Small, speeds: dict[str, float]) -> None:
    speeds |= {"serial": 1.0, "multiprocessing": 100.0}
    chosen = choose(small("CartPole-v1", vec=AUTO, train=LONG), in_this_process)
    assert set(chosen.measured["vec"]["agent_steps_per_s"]) == {
        "processes",
        "in-process",
    }


@pytest.mark.parametrize(
    ("target", "settings", "cores", "buffers"),
    [
        ("CartPole-v1", {}, 2, 1),
        ("CartPole-v1", {}, 3, 2),
        ("CartPole-v1", {"deterministic": True}, 2, 2),
        ("probe", {}, 2, 2),
    ],
)
def test_python_envs_on_few_cores_have_one_buffer(
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    settings: dict[str, Any],
    cores: int,
    buffers: int,
) -> None:
    """A deterministic run has the same number of buffers on every machine."""
    monkeypatch.setattr(startup, "usable_cores", lambda: cores)
    config = TrainConfig.of(target, train={"total_timesteps": 10_000, **settings})
    assert choose(config, never).run.config.vec.num_buffers == buffers
    assert choose(config, never, measure=False).run.config.vec.num_buffers == 2


def test_envs_that_fail_are_left_to_the_run(small: Small, two_cores: None) -> None:
    def fails(config: TrainConfig) -> Any:
        raise RuntimeError("not in this process")

    chosen = choose(small(vec=AUTO, train=LONG), fails)
    assert chosen.lines == () and chosen.run.config.vec.num_buffers == 2
    assert chosen.measured == {"vec": {"failed": "RuntimeError: not in this process"}}


def test_envs_that_take_long_to_make_are_not_made_twice(
    small: Small, two_cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    times = iter(range(1000))
    monkeypatch.setattr(
        startup.time, "perf_counter", lambda: float(next(times))
    )  # A second between two looks.

    def slow(config: TrainConfig) -> Any:
        made.append(config.vec.backend)
        return in_this_process(config)

    assert choose(small(vec=AUTO, train=LONG), slow).lines == () and len(made) <= 1


def test_real_vec_envs_are_measured_and_ended(
    small: Small, two_cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        startup, "speed", lambda rollout, seconds: real(rollout, min(seconds, 0.05))
    )
    monkeypatch.setattr(startup, "MOST_S", 100.0)
    made: list[Any] = []

    def keep(config: TrainConfig) -> Any:
        made.append(make_vec(config))
        return made[-1]

    chosen = choose(small(vec=AUTO, train={"total_timesteps": 10**12}), keep)
    assert [vec.num_buffers for vec in made] == [1, 2, 2]
    for vec in made:
        with pytest.raises(PuffervecError, match="closed"):
            vec.recv()
    assert "agent_steps_per_s" in chosen.measured.get("vec", {}), chosen.measured
    assert all(rate > 0 for rate in chosen.measured["vec"]["agent_steps_per_s"].values())


real = startup.speed


def test_speed_counts_valid_transitions(small: Small) -> None:
    config = small(env={"num_agents": 3}, vec={"num_buffers": 2}, train={"horizon": 8})
    ticks = iter(range(1000))
    with make_vec(config) as vec:
        slots = startup._slots(RunSpec(config, vec.spec), {})
        rollout = startup.Rollout(vec, slots, CPU, False, torch.Generator(), startup.ThreadPool(1))
        rollout.begin(1)
        # The clock is looked at at the begin, at each half turn but the first two, and at the end:
        # here 2, 3, 4, 5.
        assert startup.speed(rollout, 3.0, lambda: float(next(ticks))) == pytest.approx(12 * 2 / 4)
        assert not rollout.full
        assert (
            startup.speed(rollout, 1e9, lambda: float(next(ticks))) > 0 and rollout.full
        )  # one rollout at most


def test_generators_are_given_back(small: Small, speeds: dict[str, float]) -> None:
    class Greedy(envs.Guess):
        def reset(self, **kwargs: Any) -> Any:
            random.random(), np.random.rand(), torch.rand(1)
            return super().reset(**kwargs)

    speeds |= {"serial": 1.0, "multiprocessing": 100.0}
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    config = TrainConfig.of(Greedy, vec=AUTO, train={**LONG, "precision": "auto"})
    chosen = choose(config, in_this_process)
    assert "vec" in chosen.measured
    assert before == (
        random.getstate(),
        np.random.get_state()[1].tolist(),
        torch.get_rng_state().tolist(),
    )


# ---- precision -----------------------------------------------------------------------------------


@pytest.fixture
def instructions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(startup, "cpu_has_bf16", lambda: True)
    yield


@pytest.mark.parametrize(("bf16_s", "expected"), [(0.5, "bf16"), (0.95, "fp32"), (2.0, "fp32")])
def test_bf16_must_be_clearly_faster(
    small: Small, instructions: None, monkeypatch: pytest.MonkeyPatch, bf16_s: float, expected: str
) -> None:
    monkeypatch.setattr(
        startup,
        "interleaved",
        lambda variants, seconds: {"fp32": [9.0, 1.0, 1.0], "bf16": [bf16_s]},
    )
    chosen = choose(small(train={**LONG, "precision": "auto"}))
    assert chosen.run.config.train.precision == expected
    assert (
        chosen.lines[0].startswith(f"precision: {expected} (")
        and chosen.measured["precision"]["fp32_s"] == 1.0
    )


@pytest.mark.parametrize(
    ("env", "policy"),
    [("probe", {}), ("probe", {"memory": "mingru"}), (envs.Guess, {}), (envs.Aim, {})],
)
@pytest.mark.parametrize("bf16", [False, True])
def test_a_measured_update_learns_nothing(env: Any, policy: dict[str, Any], bf16: bool) -> None:
    config = TrainConfig.of(
        env, policy={"hidden": (8,), **policy}, train={"horizon": 4, "microbatch_size": 24}
    )
    (rows,) = RunSpec.of(config).rows.values()
    mine = rows.build()
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    result = startup._microbatch_update(config.vec.num_envs, rows, mine, bf16)()
    assert (
        isinstance(result, UpdateResult)
        and result.valid in (24, 16 * 4)
        and np.isfinite(result.losses["value"])
    )
    assert all(torch.equal(value, mine.state_dict()[name]) for name, value in before.items())


# ---- kept with the run ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_keeps_what_was_chosen(
    small: Small, speeds: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puffervec.train.run.setup.make_vec", in_this_process)
    speeds |= {"serial": 1000.0, "threading": 1.0, "multiprocessing": 100.0}
    config = small(vec=AUTO, train={**LONG, "precision": "auto", "compile": "off"})
    with Trainer(config) as trainer:
        chosen, folder = trainer.config, trainer.folder
        trainer.collect()
        trainer.update()
        path = trainer.save()
    assert (chosen.vec.backend, chosen.vec.num_buffers) == (
        "serial",
        1,
    ) and chosen.train.precision in ("fp32", "bf16")
    kept = json.loads((folder / "config.json").read_text())
    assert (
        kept["vec"]["backend"] == "serial" and kept["train"]["precision"] == chosen.train.precision
    )
    assert (
        json.loads((folder / "run.json").read_text())["starts"][0]["measured"]["vec"]["chosen"]
        == "in-process"
    )
    speeds |= {"serial": 1.0}
    monkeypatch.setattr(startup, "interleaved", never)
    for again in (config, chosen):  # Also where the config says auto, as it does from Python.
        with Trainer(again, checkpoint=path) as trainer:
            assert (
                trainer.config.vec == chosen.vec
                and trainer.config.train == chosen.train
                and trainer.chosen.lines == ()
            )
            assert trainer.collector.rollout.full


def test_an_older_run_goes_on_with_what_it_had(small: Small) -> None:
    """Manifests from before had two buffers and a precision beside the config."""
    golden = json.loads(
        (Path(__file__).parent / "golden" / "checkpoint_v1" / "manifest.json").read_text()
    )
    config = small(vec=AUTO, train={**LONG, "precision": "auto"})
    before, cpu = config_of(golden, config), torch.device("cpu")
    old = golden | {"numerics": {"device": "cpu", "bf16": True}}
    assert as_chosen(config, before, old, cpu).train.precision == "bf16"
    kept = as_chosen(config, before, golden, cpu).vec
    assert (kept.backend, kept.num_buffers) == tuple(
        golden["config"]["vec"][name] for name in ("backend", "num_buffers")
    )
