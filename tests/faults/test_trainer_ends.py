# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Ends of a trainer that nobody planned (puffervec/train/run/trainer.py): numbers that are not
finite, exceptions, no `close`, Ctrl-C in the middle of the start. Good checkpoints stay, nothing
else is left.
"""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from puffervec.envs.probe import FAULTS
from puffervec.errors import UnclosedWarning
from puffervec.train import TrainConfig, Trainer
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.diverged import Diverged
from tests.faults.trainers import Notes
from tests.fixtures.training import small, torch_state

__all__ = ["small", "torch_state"]  # Fixtures.
pytestmark = pytest.mark.usefixtures("no_leaks")
Small = Callable[..., TrainConfig]
WORKERS = {"backend": "multiprocessing", "num_workers": 2}


@pytest.mark.slow
def test_nan_from_an_env_stops_the_run_and_keeps_what_is_good(small: Small) -> None:
    """Env 1 shows NaN in the 21st step of an episode, in the third rollout: two updates are saved,
    and stay.
    """
    fault = {"fault": FAULTS.index("nan"), "fault_env": 1, "fault_step": 20, "episode_length": 40}
    config = small(
        env=fault,
        train={"total_timesteps": 10**9},
        log={"checkpoint_interval_s": 0, "keep_checkpoints": 1},
    )
    with Trainer(config) as trainer:
        with pytest.raises(
            Diverged,
            match=r"last checkpoint is kept.*the env returned a non-finite \S+obs, "
            r"first in row \d of step \d",
        ):
            trainer.train()
        with pytest.raises(
            Diverged, match="output.heads.0.weight.*is not a finite number"
        ):  # The update has spoiled them.
            trainer.save()
        found = ckpt.newest(trainer.folder / "checkpoints")
        assert found is not None
        kept = ckpt.read(found)
        assert kept.manifest["counters"]["updates"] == 2
        assert all(bool(weights.isfinite().all()) for weights in kept.tensors["default"].values())
        dump = json.loads((trainer.folder / "diverged.json").read_text())
        assert 0.9 < dump["rollout"]["default.obs"]["finite"] < 1.0
    with Trainer(config, checkpoint=found) as trainer:
        assert trainer.counters.updates == 2


def test_nan_in_the_last_step_is_not_saved_with_the_envs(small: Small) -> None:
    """Stopped between a rollout with NaN and its update: going on must not begin with that NaN."""
    with Trainer(small()) as trainer:
        trainer.collect()
        trainer.update()
        assert "envs" in trainer.saver.state()
        trainer.slots["default"].storage.rewards[-1, 0] = float("nan")
        assert "envs" not in trainer.saver.state()


@pytest.mark.slow
@pytest.mark.parametrize("vec", [{"backend": "serial"}, WORKERS], ids=["serial", "workers"])
def test_without_close_nothing_is_left(small: Small, vec: dict[str, Any]) -> None:
    trainer = Trainer(small(vec=vec, train={"threads": 2}))
    trainer.collect()
    trainer.update()
    trainer.save()
    with (
        pytest.warns(UnclosedWarning, match=r"call close\(\)")
        if vec is WORKERS
        else contextlib.nullcontext()
    ):
        del trainer
        gc.collect()


@pytest.mark.slow
def test_an_exception_in_the_block_is_the_users_own(small: Small) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        Trainer(small(vec=WORKERS, train={"threads": 2})) as trainer,
    ):
        trainer.collect()
        raise ZeroDivisionError
    with Trainer(
        small(log={"name": "again"}), folder=trainer.folder
    ) as again:  # The folder is free.
        assert again.folder == trainer.folder


@pytest.mark.parametrize(
    "where",
    [
        "setup.make_vec",
        "trainer.build_policies",
        "collector.Rollout",
        "reporting.make_dashboard",
        "rundir.JsonLog",
    ],
)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_a_start_that_is_broken_off(
    small: Small,
    where: str,
    kind: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise kind

    monkeypatch.setattr(f"puffervec.train.run.{where}", broken)
    with pytest.raises(kind):
        Trainer(small())
    left = list((tmp_path / "runs").glob("*/*")) if kind is KeyboardInterrupt else []
    assert left == []


def test_lost_numerics_are_said(small: Small) -> None:
    """A checkpoint knows on what its last bits depend; the number of threads is not among it."""
    with Trainer(small()) as trainer:
        path = trainer.save()
        numerics = ckpt.read(path).manifest["numerics"]
        assert (
            numerics["threads"] == 1
            and numerics["torch"] == torch.__version__
            and not numerics["bf16"]
        )
    manifest = json.loads((path / "manifest.json").read_text())
    for changes, expected in (
        ({"threads": 7}, []),
        ({"torch": "1.0", "cpu": "Z80"}, ["torch 1.0 -> ", "cpu Z80 -> "]),
    ):
        manifest["numerics"] = numerics | changes
        (path / "manifest.json").write_text(json.dumps(manifest))
        notes = Notes()
        with Trainer(small(), checkpoint=path, dashboard=notes):
            pass
        said = [note for note in notes.notes if "last bits" in note]
        assert len(said) == bool(expected) and all(words in said[0] for words in expected)
