# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch import nn

import puffervec
from puffervec.errors import CheckpointError, ConfigError, PuffervecError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config.sections import SEEDS
from puffervec.train.metrics.log import read_metrics
from puffervec.train.policies.mlp import MLPPolicy
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run import reporting, rundir
from puffervec.train.run.diverged import Diverged
from puffervec.train.run.setup import make_vec
from tests.helpers import thinned
from tests.train import envs
from tests.train.fakes import Notes

Small = Callable[..., TrainConfig]
ENV = {"num_agents": 3, "episode_length": 5, "end_kind": 2, "leave": 1}


def test_counts_valid_transitions_only(small: Small) -> None:
    """3 agents, 5 steps, agents 1 and 2 leave after 1 and 2 steps: 8 transitions in 6 rows of time
    (one is the reset row).
    """
    with Trainer(small(env=ENV, train={"horizon": 12})) as trainer:
        trainer.collect()
        trainer.update()
        assert trainer.counters.agent_steps == 4 * 2 * (5 + 1 + 2)
        assert trainer.counters.env_steps == 4 * 12


@pytest.mark.slow
def test_metrics_file(small: Small) -> None:
    config = small(env=ENV, train={"total_timesteps": 200})
    with Trainer(config) as trainer:
        last = trainer.train()
        path = trainer.folder / "metrics.jsonl"
    head = json.loads(path.read_text().splitlines()[0])
    assert (
        head["schema_version"] == 1
        and head["env"] == "probe"
        and head["config"]["train"]["horizon"] == 8
    )
    lines = list(read_metrics(path))
    assert len(lines) >= 3 and lines[-1] == last
    for key in (
        *(
            "step",
            "update",
            "elapsed_s",
            "charts/agent_steps_per_s",
            "charts/env_steps_per_s",
            "charts/learning_rate",
        ),
        *(
            "charts/entropy_coef",
            "episode/return",
            "episode/length",
            "losses/policy",
            "losses/value",
            "losses/entropy",
        ),
        *(
            "losses/approx_kl",
            "losses/clip_fraction",
            "losses/grad_norm",
            "losses/explained_variance",
            "env/truncated",
        ),
    ):
        assert key in lines[-1], key
    assert [line["step"] for line in lines] == sorted(line["step"] for line in lines)
    # Episodes of 5 steps; returns: sum over agents and steps of t + a/4 + action/16, plus leaving.
    assert lines[-1]["episode/length"] == 5


def state(trainer: Trainer) -> dict[str, torch.Tensor]:
    tensors = {
        f"w.{n}.{k}": v.clone()
        for n, p in trainer.policies.items()
        for k, v in p.state_dict().items()
    }
    for name, slot in trainer.slots.items():
        tensors |= {f"s.{name}.{k}": v.clone() for k, v in slot.storage.tensors().items()}
    return tensors


def test_checkpoint_of_another_env_is_refused(small: Small) -> None:
    with Trainer(small()) as trainer:
        path = trainer.save()
    with pytest.raises(CheckpointError, match="other observations"):
        Trainer(small(env={"obs_size": 16}), checkpoint=path)
    with pytest.raises(CheckpointError, match="probe"):
        Trainer(small("tag_grid"), checkpoint=path)


class Exploding(nn.Module):
    """Its value becomes NaN at a given update."""

    def __init__(self) -> None:
        super().__init__()
        self.logits, self.level, self.bad = (
            nn.Parameter(torch.zeros(5)),
            nn.Parameter(torch.zeros(())),
            False,
        )

    def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
        return ()

    def forward(self, obs: torch.Tensor, state: Any, reset: Any, mask: Any) -> Any:
        level = self.level * (float("nan") if self.bad else 1.0)
        return (self.logits.expand(*obs.shape[:-1], 5),), level.expand(obs.shape[:-1]), ()


def test_nan_stops_and_keeps_the_last_checkpoint(small: Small) -> None:
    policy = Exploding()
    config = small(train={"total_timesteps": 10_000}, log={"checkpoint_interval_s": 0})
    with Trainer(config, policies={"default": policy}) as trainer:
        trainer.collect()
        trainer.update()
        good = trainer.save()
        policy.bad = True
        with pytest.raises(Diverged, match="losses/value.*last checkpoint"):
            trainer.train()
        assert ckpt.newest(trainer.folder / "checkpoints") == good
        assert bool(torch.isfinite(ckpt.read(good).tensors["default"]["logits"]).all())
        dump = json.loads((trainer.folder / "diverged.json").read_text())
    assert dump["rollout"]["default.values"]["finite"] < 1


@pytest.mark.slow
def test_one_infinite_observation_does_not_end_the_run_nor_spoil_a_checkpoint(small: Small) -> None:
    """The network sees it cut to a bound; taken into the statistics, it would make NaN of every
    observation after it.
    """
    config = small(
        envs.Spike, env={"at": 30}, train={"total_timesteps": 200}, log={"checkpoint_interval_s": 0}
    )
    with Trainer(config) as trainer:
        assert trainer.train()["step"] >= 200
        path = trainer.save()
    with Trainer(config.merged({"train": {"total_timesteps": 400}}), checkpoint=path) as trainer:
        assert trainer.train()["step"] >= 400


@pytest.mark.parametrize("where", ["buffer", "optimizer"])
def test_no_checkpoint_holds_numbers_that_are_not_finite(small: Small, where: str) -> None:
    """Also where no loss shows them yet: a checkpoint saved then could not go on, and would replace
    the good one.
    """
    with Trainer(small(envs.Aim, log={"keep_checkpoints": 1})) as trainer:
        policy = trainer.policies["default"]
        trainer.collect()
        trainer.update()
        good = trainer.save()
        kept = (
            policy.state_dict()
            if where == "buffer"
            else trainer.learner.updaters["default"].optimizer.state()[0]
        )
        kept["encoder.mean" if where == "buffer" else "exp_avg_sq"].fill_(float("nan"))
        with pytest.raises(
            Diverged,
            match=r"default\.encoder\.mean"
            if where == "buffer"
            else r"optimizer\.default/0/exp_avg_sq",
        ):
            trainer.save()
        assert ckpt.newest(trainer.folder / "checkpoints") == good


def test_a_constant_infinity_of_a_policy_is_no_divergence(small: Small) -> None:
    policy = Exploding()
    policy.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    with Trainer(small(), policies={"default": policy}) as trainer:
        assert torch.equal(ckpt.read(trainer.save()).tensors["default"]["mask"], policy.mask)


@pytest.mark.slow
@pytest.mark.parametrize("memory", thinned(2, ["mingru", "lstm"]))
def test_nan_in_a_memory_is_found_too(small: Small, memory: str) -> None:
    """With what was remembered in the dump, and before a checkpoint could take it along."""
    with Trainer(small(policy={"memory": memory}, log={"checkpoint_interval_s": 0})) as trainer:
        trainer.collect()
        trainer.update()
        good = trainer.save()
        for turn in trainer.collector.rollout.turns:
            turn.states["default"][0][1] = float("nan")
        with pytest.raises(
            Diverged, match="not a finite number.*last checkpoint.*try a smaller train.lr"
        ):
            trainer.train()
        assert ckpt.newest(trainer.folder / "checkpoints") == good
        dump = json.loads((trainer.folder / "diverged.json").read_text())["rollout"]
    assert 0 < dump["default.values"]["finite"] < 1 and dump["default.obs"]["finite"] == 1
    assert "default.state.0" in dump
    with Trainer(small(policy={"memory": memory}), checkpoint=good) as trainer:
        assert trainer.train()["step"] >= 100


@pytest.mark.slow
def test_budget_by_steps_and_by_time(small: Small) -> None:
    with Trainer(small(train={"total_timesteps": 90, "lr": 1.0})) as trainer:
        assert trainer.learning_rate() == 1.0
        metrics = trainer.train()
        assert metrics["step"] >= 90 and trainer.finished() and trainer.progress() == 1.0
        assert trainer.learning_rate() == pytest.approx(0.1)
        assert metrics["step"] < 90 + 2 * 4 * 8
    with Trainer(small(train={"total_timesteps": 10**12, "time_limit_s": 0.2})) as trainer:
        trainer.train()
        assert (
            trainer.counters.elapsed_s >= 0.19
        )  # It ends at the last report, a moment before the limit is looked at.
    with Trainer(small(train={"anneal_lr": False, "lr": 1.0})) as trainer:
        trainer.counters.agent_steps = 10**9
        assert trainer.learning_rate() == 1.0


@pytest.mark.slow
def test_a_stop_request_saves(small: Small) -> None:
    with Trainer(small(train={"total_timesteps": 10**12})) as trainer:
        shown: list[float] = []

        class Stopper:
            def show(self, metrics: Any, progress: float) -> None:
                shown.append(metrics["step"])
                if len(shown) == 3:
                    trainer.request_stop()

            def note(self, text: str) -> None:
                pass

            def close(self) -> None:
                pass

        trainer.reporting.dashboard = Stopper()
        trainer.train()
        assert len(shown) == 3
        found = ckpt.newest(trainer.folder / "checkpoints")
        assert (
            found is not None and ckpt.read(found).manifest["counters"]["agent_steps"] == shown[-1]
        )


def test_a_full_disk_does_not_end_the_run(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    notes, real, calls = Notes(), ckpt.write, []

    def write(*args: Any) -> Path:
        calls.append(1)
        if len(calls) == 2:
            raise ckpt.SaveError("cannot save a checkpoint: disk full")
        return real(*args)

    monkeypatch.setattr(ckpt, "write", write)
    with Trainer(small(log={"checkpoint_interval_s": 0}), dashboard=notes) as trainer:
        trainer.train()
        assert len(calls) > 3
        assert notes.notes == [
            "cannot save a checkpoint: disk full; the run continues and tries again in 0 s"
        ]
        before = len(calls)
        trainer.train()
        assert len(calls) == before  # What is saved already is not saved again.
        trainer.collect()
        trainer.update()
        monkeypatch.setattr(
            ckpt, "write", lambda *_: (_ for _ in ()).throw(ckpt.SaveError("disk full"))
        )
        with pytest.raises(PuffervecError, match="disk full"):
            trainer.train()


@pytest.mark.slow
def test_float32_runs_get_an_estimate(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        vars(puffervec.envs.get("probe")), "training", puffervec.Training(solved_after=6_000_000)
    )
    monkeypatch.setattr(reporting, "ESTIMATE_AFTER_S", 0.0)
    for precision, expected in (("fp32", 1), ("bf16", 0)):
        notes = Notes()
        with Trainer(small(train={"precision": precision}), dashboard=notes) as trainer:
            trainer.train()
        assert len(notes.notes) == expected
    assert "estimated 10 min" in reporting.estimate("drive", 6_000_000, 10_000)


def test_bad_input_leaves_no_folder_and_no_worker(small: Small, tmp_path: Path) -> None:
    for tables in (
        {"train": {"minibatch_size": 7}},
        {"train": {"device": "cuda:99"}},
        {"train": {"device": "tpu"}},
        {"env": {"num_agents": 0}},
        {"vec": {"backend": "multiprocessing", "num_workers": 3}},
    ):
        with pytest.raises(ConfigError):
            Trainer(small(**tables))
        assert not list((tmp_path / "runs").glob("*/checkpoints")) and not list(
            (tmp_path / "runs").glob("*")
        )


@pytest.mark.slow
def test_same_seed_same_run(small: Small) -> None:
    """Also for another number of threads and workers."""
    runs = []
    for vec, threads in (
        ({"backend": "serial"}, 1),
        ({"backend": "threading", "num_workers": 2}, 3),
    ):
        with Trainer(small(env=ENV, vec=vec, train={"threads": threads})) as trainer:
            trainer.train()
            runs.append(state(trainer))
    for name, tensor in runs[0].items():
        np.testing.assert_array_equal(tensor.numpy(), runs[1][name].numpy(), err_msg=name)


class Drawing(MLPPolicy):
    """Has a layer that draws."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.trunk.append(nn.Dropout(0.2))


@pytest.mark.slow
def test_deterministic_runs_do_not_look_at_the_clock(small: Small) -> None:
    found = []
    for elapsed_s in (0.0, 50.0):
        section = {
            "deterministic": True,
            "time_limit_s": 100.0,
            "total_timesteps": 100_000,
            "precision": "auto",
        }
        with Trainer(small(train=section)) as trainer:
            trainer.counters.elapsed_s = elapsed_s
            for _ in range(2):
                assert trainer.collect()
                trainer.update()
            assert (
                trainer.progress() >= elapsed_s / 100
                and trainer.learning_rate() < trainer.config.train.lr
            )
            found.append(state(trainer))
    assert all(torch.equal(part, found[1][name]) for name, part in found[0].items())


@pytest.mark.slow
def test_layers_that_draw_follow_the_seed_whatever_was_drawn_before_and_the_threads(
    small: Small,
) -> None:
    runs = []
    for before, threads in ((1, 1), (2, 4)):
        torch.manual_seed(before)
        train = {"threads": threads, "microbatch_size": 4, "seed": 5}
        with Trainer(
            small(train=train, policy={"kind": f"{__name__}:Drawing"}, vec={"num_envs": 64})
        ) as trainer:
            assert trainer.pool.count == 1
            trainer.train()
            runs.append(state(trainer))
    for name, tensor in runs[0].items():
        np.testing.assert_array_equal(tensor.numpy(), runs[1][name].numpy(), err_msg=name)


def test_an_update_that_was_cut_short_says_so(small: Small) -> None:
    with Trainer(small(), dashboard=(notes := Notes())) as trainer:
        trainer.collect()
        trainer.update()
        assert not notes.notes
        trainer.collect()
        trainer.request_stop()
        trainer.update()
        assert len(notes.notes) == 1 and "stopped inside an update" in notes.notes[0]


@pytest.mark.slow
def test_the_largest_seed_leaves_room(small: Small) -> None:
    """For what envs, ranks and resumed runs add to it, in an env in C and in one in Python."""
    for env in ("probe", envs.Aim):
        config = small(env, train={"seed": SEEDS - 1})
        with Trainer(config) as trainer:
            assert trainer.train()["step"] >= 100
            path = trainer.save()
        with Trainer(
            config.merged({"train": {"total_timesteps": 200}}), checkpoint=path
        ) as trainer:
            assert trainer.train()["step"] >= 200


def test_close_twice(small: Small) -> None:
    """After the first the workers have ended and the run folder is free; the second does nothing to
    who has it then.
    """
    trainer = Trainer(small(vec={"backend": "multiprocessing", "num_workers": 2}))
    workers = [psutil.Process(process.pid) for process in trainer.vec.processes]
    assert len(workers) == 2 and all(worker.is_running() for worker in workers)
    trainer.close()
    assert not any(
        worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE for worker in workers
    )
    lock = rundir.RunLock(trainer.folder)
    trainer.close()
    with pytest.raises(ConfigError, match="another trainer"):
        rundir.RunLock(trainer.folder)
    lock.close()


def test_workers_are_waited_for_as_long_as_the_run_says(small: Small) -> None:
    with make_vec(small(vec={"timeout_s": 7.5})) as vec:
        assert vec.settings.timeout_s == 7.5
