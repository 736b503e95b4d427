# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What `puffer-train profile` measures (puffervec/wings/profile/targets.py): policies, callables,
the trainer's own loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from puffervec.commands.verb import StopSignals
from puffervec.errors import ConfigError
from puffervec.train import TrainConfig
from puffervec.train.policies.protocol import Policy
from puffervec.train.run.trainer import Trainer
from puffervec.wings.profile import targets as profiling
from puffervec.wings.profile.fake import ProofError, prove_no_syncs
from puffervec.wings.profile.timing import Timing

Make = Callable[..., TrainConfig]
HOST = {
    "recv",
    "send",
    "host-to-device",
    "policy",
    "device-to-host",
    "advantages",
    "update",
    "rest of iteration",
}


@pytest.mark.slow
def test_the_phases_are_those_of_the_real_loop(small: Make) -> None:
    """Counts are those of the loop: of two halves, 8 steps and one sent anew each iteration;
    nothing stays replaced.
    """
    seen: list[Trainer] = []

    class Signals(StopSignals):
        def start(self, make: Callable[[], Trainer]) -> Trainer:
            seen.append(make())
            return seen[0]

    config = small("cartpole", vec={"backend": "serial", "num_envs": 4, "num_buffers": 2})
    whole, *phases = profiling.profile_loop(config, Timing(3, 1), Signals())
    by_name = {phase.name: phase for phase in phases}
    assert set(by_name) == HOST
    calls = {name: phase.per_iteration for name, phase in by_name.items()}
    assert calls == {
        "recv": 16,
        "host-to-device": 16,
        "policy": 16,
        "send": 16,
        "device-to-host": 16,
    } | dict.fromkeys(("advantages", "update", "rest of iteration"), 1)
    assert len(whole.wall) == 3 and sum(sum(phase.wall) for phase in phases) <= sum(whole.wall)
    for owner, method, _ in profiling.parts_of(seen[0]):
        assert method == "advantage" or method not in vars(owner)


@pytest.mark.slow
def test_ranges_of_a_loop_are_recorded_apart_from_its_times(small: Make) -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def around(name: str = "window") -> Iterator[None]:
        seen.append(name)
        yield
        seen.append(f"end of {name}")

    with Trainer(small("probe")) as trainer:
        found = profiling.phases(trainer, iterations=1, warmup=1, marks=around, window=around)
    assert seen[:2] == ["window", "iteration"] and seen[-2:] == [
        "end of iteration",
        "end of window",
    ]
    assert {one.name for one in found[1:-1]} <= set(seen) and found[-1].name == "rest of iteration"


def test_a_signal_ends_the_loop(small: Make) -> None:
    signals = StopSignals()

    def now() -> float:
        assert signals.trainer is not None
        signals.trainer.request_stop()
        return 0.0

    with pytest.raises(profiling.Stopped):
        profiling.profile_loop(small("probe"), Timing(3, 0, now=now), signals)
    assert signals.trainer is None


@pytest.mark.slow
def test_phases_of_a_roll_out_that_is_collected_beside_the_update(small: Make) -> None:
    config = small(
        "cartpole",
        train={"asynchronous": True},
        vec={"backend": "serial", "num_envs": 4, "num_buffers": 1},
    )
    _, *phases = profiling.profile_loop(config, Timing(2, 1), StopSignals())
    assert {one.name: one.per_iteration for one in phases}["update"] == 1


def test_the_phases_of_a_device_are_in_the_real_turn(small: Make) -> None:
    """On a CPU that works as CUDA does."""
    config = small("cartpole")
    with Trainer(config) as trainer:
        rollout = trainer.collector.rollout
        rollout.device_turns = True
        rollout.turns = [rollout._make_turn(index) for index in range(trainer.vec.num_buffers)]
        with profiling.Meter() as meter:
            for owner, method, name in profiling.parts_of(trainer):
                meter.watch(owner, method, name)
            with meter.range("iteration"):
                trainer.collect()
                trainer.update()
    names = {one.name for one in meter.latencies()}
    assert {
        "recv",
        "host-to-device",
        "graph",
        "device-to-host",
        "wait",
        "send",
        "advantages",
        "update",
    } <= names


@pytest.mark.parametrize(
    ("knob", "value", "section", "key", "found"),
    [("horizon", 16, "train", "horizon", 16), ("envs", 6, "vec", "num_envs", 6),
     ("agents", 8, "vec", "num_envs", 8), ("batch", 8, "vec", "num_envs", 16),
     ("layers", 3, "policy", "hidden", (8, 8, 8))],
)  # fmt: skip
def test_knobs_of_a_loop(
    knob: str, value: int, section: str, key: str, found: object, small: Make
) -> None:
    assert (
        getattr(getattr(profiling.with_knob(small("cartpole"), knob, value), section), key) == found
    )


def test_knobs_that_there_are_not(small: Make) -> None:
    with pytest.raises(ConfigError, match="a loop has horizon, agents"):
        profiling.with_knob(small("cartpole"), "num_steps", 2)
    with pytest.raises(ConfigError, match="multiples of"):
        profiling.with_knob(small("tag_grid"), "agents", 7)
    with pytest.raises(ConfigError, match="--sweep horizon: can be batch, agents, layers"):
        profiling.env_subject(small("cartpole"), "model", 4).whole({"horizon": 2})


@pytest.mark.parametrize(
    "target", ["cartpole", "tag_grid", "tag_continuous", "Pendulum-v1", "tests.train.envs:Pictures"]
)
@pytest.mark.parametrize("mode", ["model", "policy"])
def test_a_policy_acts_for_as_many_rows_as_are_asked_for(
    target: str, mode: str, small: Make
) -> None:
    subject = profiling.env_subject(small(target, policy={"channels": (4, 4)}), mode, 5)
    for work in subject.make({}).values():
        one, other = work(), work()
        if mode == "model":
            assert one[1].shape == (5,)
        else:
            assert len(one) == 5 and np.array_equal(one, other), "the noise is the same each time"


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", "mingru", "lstm"])
def test_policies_of_this_package_wait_for_nothing(memory: str, small: Make) -> None:
    for target in ("tag_grid", "Pendulum-v1"):
        subject = profiling.env_subject(small(target, policy={"memory": memory}), "policy", 3)
        for reports in subject.syncs().values():
            assert [report.found for report in reports] == [(), ()], [
                str(report) for report in reports
            ]


class Waiting(torch.nn.Linear):
    """A policy that looks at its values."""

    def __init__(self, group: object, section: object) -> None:
        super().__init__(4, 2)

    def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
        return ()

    def forward(self, obs: torch.Tensor, *rest: object) -> object:  # type: ignore[override]
        logits = super().forward(obs)
        if logits.isnan().any():
            raise AssertionError
        return (logits,), logits[:, 0], ()


def test_a_policy_that_waits_is_found_with_its_line(small: Make) -> None:
    assert issubclass(Waiting, Policy)
    subject = profiling.env_subject(
        small("cartpole", policy={"kind": f"{__name__}:Waiting"}), "policy", 3
    )
    ((operations, proof),) = subject.syncs().values()
    for report in (operations, proof):
        assert [(sync.file, sync.line) for sync in report.found] == [
            ("test_profiling.py", "if logits.isnan().any():")
        ]
    assert operations.ended and not proof.ended


def test_what_cannot_be_proved_is_said(small: Make) -> None:
    subject = profiling.callable_subject(f"{__name__}:unprovable", {}, "cpu", None)
    assert subject is not None
    ((operations, proof),) = subject.syncs().values()
    assert operations.found == proof.found == () and "no proof: " in str(proof)
    with pytest.raises(ProofError, match="no proof: .* weights"):
        prove_no_syncs(broken)  # type: ignore[arg-type]


def test_layers_make_a_deeper_network(small: Make) -> None:
    subject = profiling.env_subject(small("cartpole"), "model", 4)
    assert len(subject.whole({"layers": 3, "batch": 2})()[0][1]) == 2


def made(num_steps: int = 1, scale: float = 1.0) -> Callable[[], torch.Tensor]:
    """For tests of callables."""
    return lambda: torch.full((num_steps,), scale)


def works(num_steps: int = 2) -> int:
    """A function that does the work itself."""
    return num_steps


def unprovable() -> Callable[[], torch.Tensor]:
    return lambda: torch.zeros(2).requires_grad_().sum().backward() or torch.zeros(2)  # type: ignore[func-returns-value]


def broken() -> None:
    raise ValueError("no weights")


def test_callables_take_knobs_and_settings() -> None:
    subject = profiling.callable_subject(f"{__name__}:made", {"scale": 2.0}, "cpu", None)
    assert subject is not None and subject.whole({"num_steps": 3})()[0].tolist() == [2.0, 2.0, 2.0]
    subject = profiling.callable_subject(f"{__name__}:works", {}, "cpu", None)
    assert subject is not None and subject.whole({"num_steps": 7})() == [7]
    assert profiling.callable_subject("tests.train.envs:Pictures", {}, "cpu", None) is None, (
        "an env"
    )


@pytest.mark.parametrize(
    ("target", "words"),
    [(f"{__name__}:none", "has no 'none'"), ("nowhere:f", "nowhere"),
     (f"{__name__}:HOST", "is set: must be a function"),
     (f"{__name__}:broken", "ValueError: no weights"), (f"{__name__}:Waiting", "--set NAME=VALUE")],
)  # fmt: skip
def test_callables_that_cannot_be_profiled(target: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        profiling.callable_subject(target, {}, "cpu", None)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_the_phases_on_a_gpu(small: Make) -> None:
    """Each phase has a device time and a wall time; graphs are captured in the warm-up."""
    config = small("tag_grid", train={"device": "cuda", "update_epochs": 1})
    whole, *phases = profiling.profile_loop(config, Timing(3, 3), StopSignals())
    by_name = {phase.name: phase for phase in phases}
    assert {
        "recv",
        "host-to-device",
        "graph",
        "device-to-host",
        "wait",
        "send",
        "advantages",
        "update",
    } <= set(by_name)
    for name in ("graph", "update"):
        device, wall = by_name[name].device, by_name[name].wall
        assert device is not None and all(
            0 < d <= w * 1.1 for d, w in zip(device, wall, strict=True)
        )
    assert len(whole.wall) == 3
