# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A rollout ahead of the learner (puffervec/train/collect/ahead.py): which weights act, same
bytes, checkpoints, errors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from puffervec.errors import ClosedError, WorkerError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.collect.ahead import Ahead
from puffervec.train.learn.updater import reevaluate
from tests.helpers import slow_but
from tests.train.streams import Cuda, cuda

__all__ = ["cuda"]
Small = Callable[..., TrainConfig]
AHEAD = {"asynchronous": True, "total_timesteps": 10_000}
PROCESSES = {"backend": "multiprocessing", "num_workers": 2, "num_buffers": 2}


def learn(trainer: Trainer, updates: int) -> None:
    for _ in range(updates):
        assert trainer.collect()
        trainer.update()


def result(trainer: Trainer) -> dict[str, Any]:
    learned = trainer.learner.updaters["default"].storage.tensors()
    return {
        **copy.deepcopy(trainer.policies["default"].state_dict()),
        **{k: v.clone() for k, v in learned.items()},
    }


def test_a_roll_out_is_one_update_behind(small: Small) -> None:
    with Trainer(small(train=AHEAD, policy={"normalize": False})) as trainer:
        updater = trainer.learner.updaters["default"]
        acted = [
            copy.deepcopy(updater.policy),
            copy.deepcopy(updater.policy),
        ]  # The first two with the weights of the start.
        for _ in range(3):
            assert trainer.collect()
            kept = {name: tensor.clone() for name, tensor in updater.storage.tensors().items()}
            # Without step 0, which the rollout before has drawn.
            ratios = reevaluate(acted.pop(0), updater.storage, False, False, trainer.pool, 100)[1:]
            torch.testing.assert_close(ratios, torch.ones_like(ratios), rtol=0, atol=1e-5)
            trainer.update()
            acted.append(copy.deepcopy(updater.policy))
            assert not torch.equal(kept["values"], updater.storage.values)  # of today's policy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vec", "memory"),
    slow_but(
        [({"num_buffers": 2}, "mingru")],
        [({}, "none"), ({"num_buffers": 2}, "mingru"), (PROCESSES, "none")],
    ),
)
def test_resume_is_exact(small: Small, vec: dict[str, Any], memory: str) -> None:
    config = small(train=AHEAD, vec=vec, env={"episode_length": 5}, policy={"memory": memory})
    with Trainer(config) as trainer:
        learn(trainer, 5)
        straight = result(trainer)
    with Trainer(config) as trainer:
        learn(trainer, 2)
        path = trainer.save()
        learn(trainer, 1)
    with Trainer(config, checkpoint=path) as trainer:
        learn(trainer, 3)
        resumed = result(trainer)
    assert straight.keys() == resumed.keys()
    for name, tensor in straight.items():
        assert torch.equal(tensor, resumed[name]), name


@pytest.mark.slow
def test_a_whole_run_learns_saves_and_can_be_gone_on_with(small: Small) -> None:
    with Trainer(small(train={**AHEAD, "total_timesteps": 300})) as trainer:
        metrics = trainer.train()
        path = max((trainer.folder / "checkpoints").iterdir())
    assert metrics["step"] >= 300
    parts = ("env", "copy", "forward", "update", "log", "other")
    assert sum(metrics[f"time/{part}"] for part in parts) == pytest.approx(1, abs=1e-3)
    with Trainer(small(train={**AHEAD, "total_timesteps": 400}), checkpoint=path) as trainer:
        assert trainer.train()["step"] >= 400


def test_an_error_in_the_thread_reaches_the_caller(small: Small) -> None:
    env = {"fault": 1, "fault_step": 12, "episode_length": 100}
    with Trainer(
        small(train=AHEAD, env=env, vec={"backend": "multiprocessing", "num_workers": 2})
    ) as trainer:
        assert trainer.collect()  # steps 0 to 8
        trainer.update()
        with pytest.raises(WorkerError):
            trainer.collect()


def test_a_stop_request_keeps_the_roll_out(small: Small) -> None:
    """The rollout that was under way is not lost, nor are the episodes that ended in it; they
    count when it does.
    """
    config = small(train=AHEAD, env={"episode_length": 5})
    with Trainer(config) as trainer:
        learn(trainer, 1)
        trainer.collect()
        trainer.update()
        before = trainer.collector.episodes.total
        assert trainer.collect()
        window, total = trainer.collector.episodes.state(), trainer.collector.episodes.total
        assert total > before > 0
    with Trainer(config) as trainer:
        learn(trainer, 1)
        trainer.collect()
        trainer.request_stop()
        trainer.update()
        assert not trainer.collect() and trainer.collector.episodes.total == before
        path = trainer.save()
    with Trainer(config, checkpoint=path) as trainer:
        ahead, episodes = trainer.collector.ahead, trainer.collector.episodes
        assert ahead is not None and ahead.ready and episodes.total == before
        assert trainer.collect() and episodes.total == total
        assert (episodes.state() == window).all()


def test_closing_while_a_roll_out_is_under_way(small: Small, no_leaks: None) -> None:
    """Its thread and the workers end with it."""
    trainer = Trainer(small(train=AHEAD, vec={"backend": "multiprocessing", "num_workers": 2}))
    trainer.collect()
    trainer.update()
    ahead = trainer.collector.ahead
    assert ahead is not None and not ahead.ready, "a rollout is under way"
    trainer.close()
    trainer.close()
    with pytest.raises(ClosedError):
        trainer.vec.recv()


class Noting:
    """A rollout that notes which stream is its thread's."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self.device, self.slots = torch.device("cuda"), {}
        self.streams: list[str] = []

    def collect(self, stop: Callable[[], bool]) -> bool:
        self.streams.append(self._cuda.current_stream().name)
        return True


def test_a_gpu_collects_beside_the_update(cuda: Cuda) -> None:
    """The rollout waits for what the learner had asked for when it began, and for nothing of the
    update.
    """
    rollout: Any = Noting(cuda)
    ahead = Ahead(rollout, {}, {})
    ahead.start()
    ahead.wait()
    ahead.close()
    assert rollout.streams == ["stream 1"]
    assert cuda.notes == [("stream 1", "waits", "default"), ("default", "waits", "stream 1")]
