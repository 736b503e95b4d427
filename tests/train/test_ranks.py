# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Ranks are threads here (gangs.py); test_job.py has processes that torchrun starts."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch import nn

from puffervec.errors import ConfigError
from puffervec.system import cores
from puffervec.train import TrainConfig, Trainer
from puffervec.train.collect import turn
from puffervec.train.collect.storage import Storage
from puffervec.train.config.sections import PolicySection
from puffervec.train.device.device import ThreadPool
from puffervec.train.device.ranks import (
    GroupRanks,
    RankLost,
    Ranks,
    from_environment,
    match,
    part_of,
    take_cores,
    this_process,
    with_others,
)
from puffervec.train.learn.ppo import PPOSection
from puffervec.train.learn.updater import Updater
from puffervec.train.metrics.log import read_metrics
from puffervec.train.policies.registry import build_policy
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.diverged import Diverged
from tests.helpers import eventually
from tests.train.gangs import all_well, together
from tests.train.streams import Cuda, cuda
from tests.train.test_updater import SPEC, Unseeing, filled_storage, weights

__all__ = ["cuda"]
Small = Callable[..., TrainConfig]
WHOLE = {"update_epochs": 2, "horizon": 8}


# ---- messages ------------------------------------------------------------------------------------


def test_messages() -> None:
    def work(ranks: GroupRanks) -> list[Any]:
        mine = [
            torch.full((2, 3), float(ranks.rank)),
            torch.arange(3.0) * ranks.rank,
            torch.tensor([ranks.rank]),
        ]
        summed = [mine[0].clone(), nn.Parameter(mine[1].clone())]
        ranks.all_reduce(summed)
        ranks.broadcast(mine)
        return [
            ranks.sums([1, 2.5 * ranks.rank]),
            ranks.agree(False, ranks.rank == 1, True),
            ranks.broadcast_object({"path": None} if ranks.first else 3),
            ranks.all_gather_object("x" * ranks.rank),
            ranks.gather(b"ab" * ranks.rank),
            [tensor.tolist() for tensor in summed],
            [tensor.tolist() for tensor in mine],
        ]

    for rank, found in enumerate(all_well(3, work)):
        sums, agreed, shared, collected, gathered, summed, taken = found
        assert sums == [3.0, 7.5] and agreed == [False, True, True] and shared == {"path": None}
        assert collected == ["", "x", "xx"] and gathered == (
            [b"", b"ab", b"abab"] if rank == 0 else []
        )
        assert summed == [[[3.0] * 3] * 2, [0.0, 3.0, 6.0]] and taken == [
            [[0.0] * 3] * 2,
            [0.0] * 3,
            [0],
        ]


def test_alone_it_is_what_it_has() -> None:
    alone, mine = Ranks(), torch.ones(3)
    alone.all_reduce([mine])
    alone.broadcast([mine])
    assert mine.tolist() == [1, 1, 1] and alone.first and alone.device("auto") == "auto"
    assert alone.sums([1.5]) == [1.5] and alone.agree(True, False) == [True, False]
    assert (
        alone.broadcast_object("x") == "x"
        and alone.all_gather_object("x") == ["x"]
        and alone.gather(b"x") == [b"x"]
    )


def test_what_differs_is_refused_on_all_ranks() -> None:
    found = together(2, lambda ranks: match(ranks, "settings", "same" if ranks.first else "other"))
    assert all(
        isinstance(error, ConfigError) and "rank 1 has different settings from rank 0" in str(error)
        for error in found
    )
    found = together(2, lambda ranks: ranks.broadcast([torch.zeros(2 + ranks.rank)]))
    assert all(isinstance(error, ConfigError) and "policies" in str(error) for error in found)


def test_a_rank_that_is_gone_is_not_waited_for_in_vain() -> None:
    error, none = together(
        2, lambda ranks: ranks.sums([1.0]) if ranks.first else None, timeout_s=0.3
    )
    assert isinstance(
        error, RankLost
    ) and "rank 0 of 2 lost another rank while adding up numbers" in str(error)
    assert none is None


def test_a_process_that_is_gone_or_stopped_is_named() -> None:
    sleeper = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    host, pid = this_process()[0], sleeper.pid
    peers = [this_process(), (host, pid, psutil.Process(pid).create_time()), ("elsewhere", 1, 0.0)]

    def said() -> str:
        with pytest.raises(RankLost) as found, with_others("adding up", 0, peers):
            raise RuntimeError("Connection closed\nby peer")
        return str(found.value)

    try:
        sleeper.send_signal(signal.SIGSTOP)
        eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "it is stopped")
        stopped = said()
    finally:
        sleeper.kill()
    gone = said()  # Not yet waited for: a zombie.
    sleeper.communicate()
    words = (
        "rank 0 of 3 lost rank 1 (process {} {}) while adding up: Connection closed; continue with "
        "--resume"
    )
    assert stopped.startswith(words.format(pid, "is stopped")) and gone.startswith(
        words.format(pid, "is gone")
    )
    assert said() == gone


class Nccl:
    """Stands for the group of the GPUs: its messages are never waited for."""

    def __init__(self) -> None:
        self.aborted = 0

    def abort(self) -> None:
        self.aborted += 1


def test_between_gpus_a_rank_that_is_gone_is_missed_before_the_device_is_asked() -> None:
    groups = [Nccl(), Nccl()]

    def work(ranks: GroupRanks) -> None:
        ranks.device_group = groups[ranks.rank]  # type: ignore[assignment]
        ranks.barrier()
        if ranks.first:
            ranks.barrier()

    error, none = together(2, work, timeout_s=0.3)
    assert isinstance(error, RankLost) and none is None
    assert [group.aborted for group in groups] == [1, 0]


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, second) = all_well(2, lambda ranks: ranks)
    second._local_rank = 1
    assert second.device("auto") == "auto"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [ranks.device("auto") for ranks in (first, second)] == ["cuda:0", "cuda:1"]
    assert (
        second.device("cuda") == "cuda:1"
        and second.device("cuda:0") == "cuda:0"
        and second.device("cpu") == "cpu"
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ConfigError, match="1 CUDA devices"):
        second.device("auto")
    kinds = together(2, lambda ranks: ranks.use(torch.device("cuda" if ranks.rank else "cpu")))
    assert all(isinstance(error, ConfigError) and "cpu, cuda" in str(error) for error in kinds)


def test_cores_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [part_of(range(8), place, 3) for place in range(3)] == [[0, 1], [2, 3], [4, 5]]
    assert [part_of([4, 5], place, 3) for place in range(3)] == [[4], [5], [4]]
    bound: list[list[int]] = []
    monkeypatch.setattr(cores, "affinity", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, to: bound.append(to))
    monkeypatch.setattr(cores, "_sharers", 1)
    monkeypatch.setattr(cores, "cpu_quota", lambda: 4.0)
    all_well(2, take_cores)
    assert sorted(bound) == [[0, 1], [2, 3]] and cores.usable_cores() == 2


def test_outside_of_torchrun_nothing_is_imported() -> None:
    """The same names are set by other launchers; without torchrun's own they mean nothing."""
    code = (
        "import sys, puffervec.commands.cli, puffervec.train.device.ranks as ranks\n"
        "assert ranks.from_environment(1.0).size == 1\n"
        "assert 'torch' not in sys.modules"
    )
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2"}
    environment.pop("TORCHELASTIC_RUN_ID", None)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_one_rank_alone_under_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"TORCHELASTIC_RUN_ID": "x", "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = from_environment(1.0)
    assert found.size == 1 and "id x" in found.job


# ---- updates -------------------------------------------------------------------------------------


def side_by_side(parts: list[Storage]) -> Storage:
    """One storage with the rows of several."""
    whole = Storage(
        SPEC, parts[0].horizon, sum(part.rows for part in parts), torch.device("cpu"), None
    )
    for name, tensor in whole.tensors().items():
        tensor.copy_(torch.cat([part.tensors()[name] for part in parts], dim=1))
    for half in parts[0].first_states:
        columns = zip(*(part.first_states[half] for part in parts), strict=True)
        whole.first_states[half] = tuple(torch.cat(states) for states in columns)
    return whole


def two_storages(memory: str, few: bool) -> list[Storage]:
    """Two rollouts, one of them larger; few: the other has but two valid samples, fewer than
    minibatches.
    """
    parts = [filled_storage(rows=6), filled_storage(rows=9, invalid=0.6)]
    for seed, part in enumerate(parts):
        r = torch.Generator().manual_seed(seed)
        part.rewards.add_(torch.randn(part.rewards.shape, generator=r) * (1 + seed) + seed)
        policy = build_policy(SPEC, PolicySection(hidden=(8,), memory=memory))  # type: ignore[arg-type]
        part.first_states[0] = tuple(
            torch.randn(s.shape, generator=r) for s in policy.initial_state(part.rows)
        )
    if few:
        parts[0].masks.zero_()
        parts[0].masks[2:4, 1] = 1
        parts[0].masks[0, 4] = 1
    return parts


def updater_of(
    storage: Storage, memory: str, ranks: Ranks | None, minibatches: int = 3, **section: Any
) -> Updater:
    policy = build_policy(SPEC, PolicySection(hidden=(8,), memory=memory))  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for number, parameter in enumerate(policy.parameters()):
            parameter.copy_(
                torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)) * 0.3
            )
    settings = PPOSection(**{"update_epochs": 2, "max_grad_norm": 0.1, **section})
    return Updater(
        policy, storage, settings, minibatches, False, generator, ThreadPool(1), ranks=ranks
    )


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("memory", ["none", "mingru"])
def test_ranks_on_devices_learn_what_ranks_on_cpus_learn(memory: str, few: bool) -> None:
    """Gradients, message and descent in fixed buffers, as graphs hold the first and the last."""

    def work(buffers: bool, ranks: GroupRanks) -> tuple[list[torch.Tensor], dict[str, float]]:
        u = updater_of(two_storages(memory, few)[ranks.rank], memory, ranks)
        if buffers:
            u.use_buffers(
                u.storage.rows * (1 if memory != "none" else u.storage.horizon), capture=False
            )
        results = [u.update(1e-2).losses for _ in range(2)]
        return u.parameters, results[-1]

    plain, held = (all_well(2, functools.partial(work, buffers)) for buffers in (False, True))
    for (weights_of, losses), (same_weights, same_losses) in zip(plain, held, strict=True):
        assert losses == pytest.approx(same_losses, rel=1e-4, abs=1e-5)
        for a, b in zip(weights_of, same_weights, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_several_ranks_record_two_graphs_around_their_message(cuda: Cuda) -> None:
    def work(ranks: GroupRanks) -> Any:
        if not ranks.first:  # On a CPU: the stand-in has one thread's notes.
            return updater_of(two_storages("none", False)[1], "none", ranks).update(1e-2) and None
        u = updater_of(two_storages("none", False)[0], "none", ranks)
        u.use_buffers(u.storage.rows * u.storage.horizon, capture=True)
        all_reduce = u.ranks.all_reduce
        messages: list[int] = []

        def noted(tensors: Any) -> None:
            messages.append(cuda.recordings)
            cuda.notes.append(("default", "adds up", None))
            all_reduce(tensors)

        u.ranks.all_reduce = noted  # type: ignore[method-assign]
        u.update(1e-2)
        assert u.device_step is not None
        return u.device_step.graph, u._descent.graph, messages

    (first, _) = all_well(2, work)
    gradients, descent, messages = first
    assert gradients is not None and descent is not None and not any(messages)
    last = [note for note in cuda.notes if note[1] in ("replays", "adds up")][-3:]
    assert last == [
        ("default", "replays", gradients),
        ("default", "adds up", None),
        ("default", "replays", descent),
    ]


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("memory", ["none", "mingru"])
def test_ranks_learn_what_one_process_learns(memory: str, few: bool) -> None:
    """The only minibatch of the one is those of the ranks put together."""
    parts = two_storages(memory, few)
    (first, result), (second, other) = all_well(
        2, lambda ranks: _updated(updater_of(parts[ranks.rank], memory, ranks, 1))
    )
    assert torch.equal(first, second) and result == other
    one = updater_of(side_by_side(parts), memory, None, 1)
    before = weights(one)
    after, expected = _updated(one)
    torch.testing.assert_close(first, after, rtol=1e-4, atol=1e-5)
    assert float((after - before).abs().max()) > 1e-2
    assert result.valid == expected.valid and result.losses == pytest.approx(
        expected.losses, rel=1e-4, abs=1e-5
    )


def test_a_rank_without_samples_steps_along() -> None:
    parts = [filled_storage(), filled_storage(invalid=2.0)]
    found = all_well(2, lambda ranks: _updated(updater_of(parts[ranks.rank], "none", ranks)))
    alone = _updated(updater_of(parts[0], "none", None))
    assert torch.equal(found[0][0], found[1][0]) and found[0][1].valid == alone[1].valid
    torch.testing.assert_close(found[0][0], alone[0], rtol=1e-4, atol=1e-6)


def _updated(u: Updater) -> tuple[torch.Tensor, Any]:
    result = u.update(1e-2)
    return weights(u), result


def test_one_rank_stops_all() -> None:
    parts = [filled_storage(), filled_storage()]

    def work(ranks: GroupRanks) -> tuple[bool, int]:
        u = updater_of(parts[ranks.rank], "none", ranks, update_epochs=9)
        asked: list[int] = []
        result = u.update(
            1e-2, lambda: asked.append(1) is not None or (ranks.rank == 1 and len(asked) > 2)
        )
        return result.finished, int(next(iter(u.optimizer.state().values()))["step"])

    assert all_well(2, work) == [(False, 6), (False, 6)]


# ---- trainers ------------------------------------------------------------------------------------


def small_of(small: Small, target: str = "tag_grid", **tables: Any) -> TrainConfig:
    """A config whose minibatch is the whole batch, so that ranks and one process have the same."""
    config = small(target, policy={"hidden": (8,)}, log={"name": "x"}).merged(
        {
            "train": {
                **WHOLE,
                "optimizer": "adam",
                "microbatch_size": 64,
                "lr": 0.01,
                "total_timesteps": 10**9,
            }
        }
    )
    return config.merged(tables)


def whole_batch(config: TrainConfig, rows: int) -> TrainConfig:
    return config.merged({"train": {"minibatch_size": rows * config.train.horizon}})


@pytest.mark.parametrize("target", ["tag_grid", "CartPole-v1"])
def test_trainers_equal_one_with_all_envs(
    target: str, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Envs, observation statistics, reward scale, losses and metrics are those of one process with
    the envs of both.
    """
    monkeypatch.setattr(
        turn, "draw_noise", lambda spec, rows, *_: torch.full((rows, len(spec.sizes)), 0.37)
    )
    config = small_of(small, target, vec={"num_envs": 8, "num_buffers": 1})
    if config.python:
        config = config.merged({"train": {"scale_rewards": True, "horizon": 16}})

    def run(trainer: Trainer) -> tuple[torch.Tensor, list[dict[str, float]]]:
        lines = []
        for _ in range(3):
            assert trainer.collect()
            lines.append(trainer.report(trainer.update()))
        state = trainer.policies["default"].state_dict().values()
        return torch.cat([tensor.double().flatten() for tensor in state]), lines

    def rank(ranks: GroupRanks) -> tuple[torch.Tensor, list[dict[str, float]]]:
        # The ranks of a test are threads, which would draw first weights from the same generator.
        with Trainer(
            whole_batch(config, rows), policies=copy.deepcopy(begin), ranks=ranks
        ) as trainer:
            return run(trainer)

    rows = 8 * (11 if target == "tag_grid" else 1)
    one = whole_batch(config.merged({"vec": {"num_envs": 16}, "log": {"name": "y"}}), 2 * rows)
    with Trainer(one) as trainer:
        begin = copy.deepcopy(trainer.policies)
        expected, single = run(trainer)
    (first, lines), (second, _) = all_well(2, rank)
    assert torch.equal(first, second)
    torch.testing.assert_close(first, expected, rtol=1e-3, atol=1e-5)
    for mine, theirs in zip(lines, single, strict=True):
        for key, value in theirs.items():
            if key in ("step", "update") or key.startswith(("episode/", "env/", "losses/")):
                assert mine[key] == pytest.approx(value, rel=1e-3, abs=1e-4), key
    assert single[-1]["step"] > 0 and ("episode/return" in single[-1] or target == "tag_grid")


def test_only_the_first_rank_writes(small: Small) -> None:
    """Two ranks that draw differently: one folder, one log, one line per update, weights alike."""
    config = small_of(
        small,
        train={"total_timesteps": 2000, "minibatch_size": 0},
        log={"checkpoint_interval_s": 0},
    )

    def work(ranks: GroupRanks) -> tuple[Path, dict[str, torch.Tensor], int, torch.Tensor]:
        with Trainer(config, ranks=ranks) as trainer:
            trainer.train()
            slot = trainer.slots["default"].storage
            return (
                trainer.folder,
                trainer.policies["default"].state_dict(),
                trainer.counters.agent_steps,
                slot.actions.clone(),
            )

    (folder, mine, steps, actions), (other, theirs, their_steps, their_actions) = all_well(2, work)
    assert (
        folder == other and steps == their_steps >= 2000 and not torch.equal(actions, their_actions)
    )
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())
    lines = list(read_metrics(folder / "metrics.jsonl"))
    assert [line["update"] for line in lines] == list(range(1, len(lines) + 1)) and lines[-1][
        "step"
    ] == steps
    path = ckpt.newest(folder / "checkpoints")
    assert path is not None and {"envs-rank1.safetensors", "random-rank1.safetensors"} <= {
        p.name for p in path.iterdir()
    }


@pytest.mark.slow
def test_resume_is_exact_with_as_many_ranks(small: Small) -> None:
    config = small_of(small, train={"minibatch_size": 0})
    with Trainer(config) as one:
        begin = copy.deepcopy(
            one.policies
        )  # The ranks of a test are threads, which would draw from the same generator.

    def run(
        ranks: GroupRanks, name: str, updates: int, path: Path | None = None
    ) -> tuple[Path, list[torch.Tensor]]:
        named, found = config.merged({"log": {"name": name}}), path if ranks.first else None
        with Trainer(
            named, policies=copy.deepcopy(begin), ranks=ranks, checkpoint=found
        ) as trainer:
            for _ in range(updates):
                trainer.collect()
                trainer.update()
            kept = [
                *trainer.policies["default"].state_dict().values(),
                *trainer.slots["default"].storage.tensors().values(),
            ]
            return trainer.save(), [tensor.clone() for tensor in kept]

    def work(ranks: GroupRanks) -> bool:
        _, straight = run(ranks, "straight", 4)
        path, _ = run(ranks, "halved", 2)
        _, resumed = run(ranks, "halved", 2, path)
        return all(torch.equal(a, b) for a, b in zip(straight, resumed, strict=True))

    assert all_well(2, work) == [True, True]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_a_run_goes_on_with_another_number_of_ranks(before: int, after: int, small: Small) -> None:
    config = small_of(small, train={"minibatch_size": 0})

    def work(ranks: Ranks, path: Path | None = None) -> tuple[Path, int]:
        with Trainer(config, ranks=ranks, checkpoint=path) as trainer:
            trainer.collect()
            trainer.update()
            return trainer.save(), trainer.counters.updates

    path, _ = work(Ranks()) if before == 1 else all_well(before, work)[0]
    found = (
        [work(Ranks(), path)] if after == 1 else all_well(after, lambda ranks: work(ranks, path))
    )
    assert [updates for _, updates in found] == [2] * after


def test_stop_and_time_limit_are_agreed(small: Small) -> None:
    """One rank is told to stop; in another run one rank's clock is ahead. All end after the same
    update, with a checkpoint.
    """

    def stopped(ranks: GroupRanks) -> tuple[int, bool]:
        with Trainer(small_of(small, train={"minibatch_size": 0}), ranks=ranks) as trainer:
            trainer.collect()
            trainer.update()
            if ranks.rank == 1:
                trainer.request_stop()
            trainer.train()
            return trainer.counters.updates, ckpt.newest(trainer.folder / "checkpoints") is not None

    assert all_well(2, stopped) == [(1, True), (1, True)]

    def late(ranks: GroupRanks) -> int:
        config = small_of(
            small, train={"minibatch_size": 0, "time_limit_s": 1000.0}, log={"name": "late"}
        )
        with Trainer(config, ranks=ranks) as trainer:
            trainer.counters.elapsed_s = 2000.0 * ranks.rank
            trainer.train()
            return trainer.counters.updates

    assert all_well(2, late) == [0, 0]


def test_what_goes_wrong_on_one_rank_ends_all(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is said by all ranks, a reward that is no number makes all diverge, other
    settings are refused by all.
    """
    config = small_of(small, train={"minibatch_size": 0})

    def full(ranks: GroupRanks) -> None:
        with Trainer(config, ranks=ranks) as trainer:
            trainer.save()

    with monkeypatch.context() as patch:
        patch.setattr(ckpt, "write", lambda *_: (_ for _ in ()).throw(ckpt.SaveError("disk full")))
        assert [str(error) for error in together(2, full)] == ["disk full"] * 2

    def diverging(ranks: GroupRanks) -> None:
        with Trainer(config.merged({"log": {"name": "d"}}), ranks=ranks) as trainer:
            trainer.collect()
            if ranks.rank == 1:
                trainer.slots["default"].storage.rewards.fill_(np.nan)
            trainer.update()

    assert [type(error) for error in together(2, diverging)] == [Diverged, Diverged]

    def other(ranks: GroupRanks) -> None:
        given = dataclasses.replace(
            config, train=dataclasses.replace(config.train, lr=0.1 + ranks.rank)
        )
        Trainer(given.merged({"log": {"name": "o"}}), ranks=ranks)

    assert all("different settings" in str(error) for error in together(2, other))


def test_policies_that_differ_become_those_of_the_first_rank(small: Small) -> None:
    config = small_of(small, "probe", train={"minibatch_size": 0})

    def work(ranks: GroupRanks) -> list[float]:
        policy = Unseeing()
        policy.logits.data.fill_(3.0 + ranks.rank)
        with Trainer(config, ranks=ranks, policies={"default": policy}):
            return policy.logits.tolist()

    assert all_well(2, work) == [[3.0] * 5] * 2
