# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The trainer: `collect()` a roll-out, `update()` the policies, log, save, repeat. Python first; the command line is a thin
caller.

    from puffervec.train import Trainer, TrainConfig

    with Trainer(TrainConfig.of("tag_grid", train={"total_timesteps": 1_000_000})) as trainer:
        trainer.train()

The env may be a C env, a Gymnasium id, "module:factory" or a callable (target.py).

Runs in the learner. Order of start: config and scenes are checked, what is auto is decided (startup.py, for which workers may
run for a second), the run folder is locked, then workers start, then the device is used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import nn

import puffervec
from puffervec.core.spec import EnvSpec
from puffervec.errors import CheckpointError, ConfigError, PuffervecError
from puffervec.host.folder import said
from puffervec.host.output import printable
from puffervec.train.collect.ahead import Ahead, actor_of
from puffervec.train.collect.episodes import InfoMeans, ReturnScale
from puffervec.train.collect.rollout import Rollout
from puffervec.train.collect.stats import EpisodeWindow
from puffervec.train.collect.storage import Slot, Storage, refuse_large
from puffervec.train.config import target
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import (
    ThreadTeam,
    choose_device,
    deterministic_kernels,
    make_current,
    one_torch_thread,
    usable_cores,
    use_bf16,
)
from puffervec.train.device.ranks import Ranks, match, of_environment
from puffervec.train.learn.compiled import compiled_where_it_pays
from puffervec.train.learn.updater import Loss, Updater, ppo_loss
from puffervec.train.metrics import trackers
from puffervec.train.metrics.dashboard import Dashboard, make_dashboard
from puffervec.train.metrics.log import METRICS_FILE, RESUMED, JsonLog
from puffervec.train.metrics.progress import Reporter, Totals, step_seconds
from puffervec.train.metrics.usage import Usage
from puffervec.train.policies.distributions import refuse_joint
from puffervec.train.policies.encoder import RowEncoder
from puffervec.train.policies.registry import build_policy, draws, policy_groups
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run import find, provenance, rundir, startup, state
from puffervec.train.run.diverged import Diverged, diverged
from puffervec.train.run.trial import refuse_large_policies, try_policies
from puffervec.vec.vector_env import VectorEnv

ESTIMATE_AFTER_S = 20.0
RANK_SEEDS = 1_000_003  # Between the seeds with which ranks draw actions and shuffle.


@dataclasses.dataclass
class Counters:
    """What a resumed run goes on from."""

    agent_steps: int = 0  # valid transitions
    env_steps: int = 0  # transitions of an env, filler included
    updates: int = 0
    elapsed_s: float = 0.0


class Trainer:
    """A run: vec env, policies, optimizers and files."""

    def __init__(
        self,
        config: TrainConfig,
        *,
        policies: Mapping[str, nn.Module] | None = None,
        checkpoint: Path | None = None,
        folder: Path | None = None,
        dashboard: Dashboard | None = None,
        loss: Loss = ppo_loss,
        ranks: Ranks | None = None,
    ) -> None:
        """Set everything up; starts the workers. Under torchrun all ranks must make one, and call the same methods in the same
        order; the first rank's folder and checkpoint hold for all.

        Args:
            policies: by policy name, in place of those that `config.policy` describes; the names are those of the row groups,
                or `default` where there is one group.
            checkpoint: folder to go on from; the run folder that it lies in (RUN/checkpoints/NAME) is used again.
            folder: run folder, where there is no such; None makes one as `config.log` says.
            dashboard: where progress is shown; None: as `config.log.dashboard` says.
            loss: what the updates descend, in place of PPO's.
            ranks: the processes that train together; None: those that torchrun has started, else this one alone.
        Raises:
            RankLost: another rank is gone.
            ConfigError, SceneError, CheckpointError: bad input; nothing was started.
            MissingExtraError: a tracker that is not installed; nothing was started.
        """
        config.check()
        trackers.require(config.log)
        self.ranks = ranks = ranks or of_environment(config.train.rank_timeout_s)
        if not ranks.first:  # Only the first one logs.
            config = config.merged({"log": {"dashboard": "off", "tensorboard": False, "wandb": "off"}})
        self.config = config
        self.env_seed = config.train.seed + ranks.rank * config.vec.num_envs  # Env i has env_seed + i: no two are alike.
        self.device = choose_device(ranks.device(config.train.device))
        make_current(self.device)
        self.counters = Counters()
        self.stop_requested = False
        spec = target.env_spec(config)
        self.minibatches = config.check_batch(spec.agents * config.vec.num_envs)
        self.spec_hash = target.spec_hash(spec)
        self._check(spec, policies or {})
        ranks.use(self.device)
        checkpoint, folder = (
            path and Path(path) for path in ranks.share([path and str(path) for path in (checkpoint, folder)])
        )
        restored = None if checkpoint is None else self._read_checkpoint(checkpoint, spec)
        manifest = None if restored is None else restored.manifest
        self.chosen = startup.choose(self.config, spec, self.device, make_vec, policies, manifest, measure=ranks.size == 1)
        self.config = config = self.chosen.config
        self.bf16 = config.train.precision == "bf16"
        self.modes = contextlib.ExitStack()  # Of torch, until the run is closed.
        self.lock: rundir.RunLock | None = None
        self.log: JsonLog | None = None
        self.vec: Any = None
        self.team: Any = None
        self.ahead: Ahead | None = None
        self.dashboard: Dashboard | None = None
        self.trackers: trackers.Trackers | None = None
        self._resumed_from = checkpoint
        given = folder if checkpoint is None else find.run_folder_of(checkpoint) or folder
        made = given or (rundir.new_run_folder(config.log, config.target, config.train.seed) if ranks.first else None)
        self.folder = Path(ranks.share(str(made)))
        try:
            if config.train.deterministic:
                self.modes.enter_context(deterministic_kernels(self.device))
            self._open_files()
            self._start(policies, dashboard, loss)
            if restored is None:
                self.begin(self.env_seed)
            else:
                self._restore(restored)
            ranks.take_from_first([tensor for policy in self.policies.values() for tensor in policy.state_dict().values()])
            self._start_reporting()
        except BaseException as error:
            self.close()
            if given is None and ranks.first and isinstance(error, (PuffervecError, KeyboardInterrupt)):
                shutil.rmtree(self.folder, ignore_errors=True)  # Nothing but the config of a run that never began is in it.
            raise

    def _check(self, spec: EnvSpec, policies: Mapping[str, nn.Module]) -> None:
        """Refuse what the env, this machine or a given policy cannot do, and ranks that were started with other settings."""
        config, bf16 = self.config, use_bf16(self.config.train.precision, self.device)
        joint, copies = config.policy.joint, 2 if config.train.asynchronous else 1
        if joint:
            refuse_joint(spec.groups)
        horizon, envs = config.train.horizon, config.vec.num_envs
        refuse_large(spec, envs, horizon, self.device, torch.bfloat16 if bf16 else None, joint=joint, copies=copies)
        groups = policy_groups(spec)
        state.check_names(groups)
        refuse_large_policies(groups, config.policy, policies, self.device)
        try_policies(groups, config.policy, policies)
        settings = {name: table for name, table in config.tables().items() if name != "log"}
        match(self.ranks, "settings", json.dumps([config.target, self.spec_hash, bf16, settings]))

    def _open_files(self) -> None:
        metrics, first = self.folder / METRICS_FILE, self.ranks.first
        try:
            if first:
                self._lock_folder()
            self._goes_on = self._resumed_from is not None or (first and metrics.is_file())
            self.log = JsonLog(metrics, {"env": self.config.target, "config": self.config.tables()}, kept=first)
        except OSError as error:
            raise ConfigError(f"cannot write to the run folder {self.folder}: {said(error)}") from error

    def _lock_folder(self) -> None:
        """Make the run folder if it is missing, lock it and leave the config there. Raises: OSError, ConfigError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = rundir.RunLock(self.folder)
        rundir.write_config(self.folder, self.config)
        self.run_id = provenance.record_start(
            self.folder,
            {
                "env": self.config.target,
                "device": provenance.device_name(self.device),
                "seeds": {"train": self.config.train.seed},
                "resumed_from": None if self._resumed_from is None else self._resumed_from.name,
                "measured": self.chosen.measured,
                "ranks": self.ranks.size,
                "job": list(self.ranks.job),
            },
        )

    def _start(self, policies: Mapping[str, nn.Module] | None, dashboard: Dashboard | None, loss: Loss) -> None:
        """Start the workers, build policies, storages and optimizers."""
        config, section = self.config, self.config.train
        vec = self.vec = make_vec(config, self.env_seed)
        own_seed = section.seed + RANK_SEEDS * self.ranks.rank
        self.action_generator = torch.Generator(self.device).manual_seed(own_seed)
        self.shuffle_generator = torch.Generator().manual_seed(own_seed)
        self.policies: dict[str, nn.Module] = {}
        self.slots: dict[str, Slot] = {}
        self.updaters: dict[str, Updater] = {}
        groups = policy_groups(vec.spec)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(section.seed)
            for name, group in groups.items():
                given = (policies or {}).get(name)
                self.policies[name] = (build_policy(group, config.policy) if given is None else given).to(self.device)
        torch.manual_seed(own_seed)  # What layers draw from, as dropout does.
        threads = (section.threads or usable_cores()) if self.device.type == "cpu" else 1
        # Threads would draw from the one generator in the order in which they come.
        team = self.team = ThreadTeam(1 if any(map(draws, self.policies.values())) else threads)
        for name, group in groups.items():
            policy = self.policies[name]
            rows = group.agents * config.vec.num_envs
            obs_dtype = torch.bfloat16 if self.bf16 else None
            new = functools.partial(Storage, group, section.horizon, rows, self.device, obs_dtype, config.policy.joint)
            storage = new()
            if section.asynchronous:
                self.slots[name] = Slot(name, actor_of(policy), group, new())
            else:
                self.slots[name] = Slot(name, policy, group, storage)
            shuffle = self.shuffle_generator
            fitting = compiled_where_it_pays(loss, config, self.device, policy)
            self.updaters[name] = Updater(
                policy, storage, section, self.minibatches, self.bf16, shuffle, team, fitting, self.ranks
            )
        self.rollout = Rollout(vec, self.slots, self.device, self.bf16, self.action_generator, team)
        if section.asynchronous:
            learned = {name: updater.storage for name, updater in self.updaters.items()}
            self.ahead = Ahead(self.rollout, self.policies, learned)
        self.return_scales: dict[str, ReturnScale] = {}  # By policy: what one kind of agents earns says nothing of another's.
        if section.scale_rewards:
            self.return_scales = {
                name: ReturnScale(updater.storage.rows, section.gamma) for name, updater in self.updaters.items()
            }
        self.info_means: InfoMeans | None = None
        if config.python:
            self.episodes = EpisodeWindow(())
            self.info_means = InfoMeans(getattr(vec.driver_env, "possible_agents", ()))
        else:
            self.episodes = EpisodeWindow(vec.spec.record_names, vec.env.training.rates)
        self._constants = frozenset(state.not_finite(self))  # A policy's own infinities, as in a mask of attention.
        self.dashboard = dashboard or make_dashboard(config, self.describe())
        self._update_s, self._turns = 0.0, 0
        self._solved_after = vec.env.training.solved_after
        # Where bf16 would have been used and cannot be, say early how long it will take.
        self._estimate_due = self.device.type == "cpu" and not self.bf16 and self._solved_after > 0
        self._last_save_s = time.monotonic()
        self._saved_updates = -1  # Updates that the checkpoint saved last has.

    def _start_reporting(self) -> None:
        """Make what the metrics go to; trackers come last, since a process with their threads is no good one to fork."""
        log, step = self.config.log, self.counters.agent_steps
        assert self.log is not None
        run_id = self.run_id if self.ranks.first else ""
        opened = trackers.open_trackers(log, self.folder, step, run_id, self.config.tables())
        self.trackers = trackers.Trackers(opened, log.print_interval_s, self._note)
        workers = [process.pid for process in getattr(self.vec, "processes", ())]
        usage = Usage(workers, self.device, log.print_interval_s)
        self.reporter = Reporter(self.log, self.trackers, usage, step_seconds(self.vec), self._note)
        self.reporter.restart(self._totals())
        if self._goes_on:
            self.log.mark(RESUMED, step=step, update=self.counters.updates, elapsed_s=self.counters.elapsed_s)

    # ------------------------------------------------------------------------------------------------ the three acts

    def begin(self, seed: int) -> None:
        """Start new episodes in all envs; the next `collect` begins with them."""
        self.rollout.begin(seed)
        for scale in self.return_scales.values():
            scale.forget()

    def collect(self) -> bool:
        """Simulate one roll-out with the current policies. Returns False where a stop was requested on the way, on any rank."""
        with one_torch_thread():
            whole = (self.ahead or self.rollout).collect(lambda: self.stop_requested)
        whole = not self.ranks.agree(not whole)[0]
        if whole or self.ahead is None:  # Else they belong to the roll-out that is kept for a checkpoint.
            self._count_episodes()
        self._turns += self.config.train.horizon if whole else 0
        if whole:
            self._scale_rewards()
        return whole

    def _count_episodes(self) -> None:
        ended = b"".join(self.ranks.gather(self.episodes.rows(self.rollout.episodes).tobytes()))
        self.episodes.add_rows(np.frombuffer(ended).reshape(-1, self.episodes.columns))
        self.rollout.episodes.clear()
        if self.info_means is not None:
            for data in self.ranks.gather(json.dumps(self.info_means.sums(self.rollout.numeric)).encode()):
                self.info_means.add_sums(json.loads(data))
            self.rollout.numeric.clear()

    def _scale_rewards(self) -> None:
        """Scale the rewards of the roll-out collected last, in the storages; nothing else reads them after the records."""
        for name, scale in self.return_scales.items():
            storage = self.updaters[name].storage
            rewards = storage.rewards[1:]
            scale.observe(rewards.cpu().numpy(), storage.valid().cpu().numpy(), self.ranks)
            rewards.mul_(scale.factor)

    def _observe(self) -> None:
        """Let policies that adapt to what they see take in the roll-out collected last."""
        for name, policy in self.policies.items():
            encoder = getattr(policy, "encoder", None)
            if isinstance(encoder, RowEncoder):
                storage, obs = self.updaters[name].storage, self.updaters[name].storage.obs
                later = {key: part[1:] for key, part in obs.items()} if isinstance(obs, dict) else obs[1:]
                encoder.observe(later, storage.masks[1:] != 0, self.ranks)

    def update(self) -> dict[str, float]:
        """Improve the policies with the roll-out collected last; return losses, named `losses/<name>` (several policies:
        `losses/<policy>/<name>`).

        Raises: Diverged where a loss is not finite.
        """
        begin = time.perf_counter()
        losses: dict[str, float] = {}
        valid, whole = 0, True
        first = self.counters.updates == 0
        lr = self.ranks.share(self.learning_rate())
        with one_torch_thread():
            if first:  # Later ones are observed after the update, so that the log-probabilities of a roll-out stay true.
                self._observe()
            if self.ahead is not None:
                self.ahead.start()
            for name, updater in self.updaters.items():
                result = updater.update(lr, lambda: self.stop_requested)
                prefix = "losses/" if len(self.updaters) == 1 else f"losses/{name}/"
                losses |= {prefix + key: value for key, value in result.losses.items()}
                valid, whole = valid + result.valid, whole and result.finished
            if not first:
                self._observe()
        bad = [key for key, value in losses.items() if not math.isfinite(value)]
        if bad:
            raise self._diverged(bad, losses)
        self.counters.agent_steps += valid
        self.counters.env_steps += self.config.vec.num_envs * self.config.train.horizon * self.ranks.size
        self.counters.updates += 1
        self._update_s += time.perf_counter() - begin
        if not whole:
            self._note("stopped inside an update: a run that goes on from here is not byte for byte one never stopped")
        return losses

    def train(self) -> dict[str, float]:
        """Run until the budget is used up or a stop is requested; save and return the last metrics.

        Raises: Diverged; WorkerError and its kin where an env fails; checkpoint.SaveError where the disk refuses the last
            checkpoint. The last good one stays in all cases.
        """
        metrics: dict[str, float] = {}
        if self._totals() == self.reporter.totals:  # Nothing was done since: what went by was not training.
            self.reporter.restart(self._totals())
        while not self.ranks.agree(self.stop_requested or self.progress() >= 1.0)[0]:
            if not self.collect():
                break
            losses = self.update()
            metrics = self._report(losses)
            due = time.monotonic() - self._last_save_s >= self.config.log.checkpoint_interval_s and not self.stop_requested
            if self.ranks.share(due):
                self._try_save()
        if self._saved_updates != self.counters.updates:
            self.save()
        assert self.log is not None and self.trackers is not None
        self.trackers.flush()
        if self.log.dropped:
            self._note(f"{self.log.dropped} lines of metrics were dropped: {self.log.path} lacks them")
        return metrics

    def _try_save(self) -> None:
        """Save, or say that it did not work: a full disk must not end a run that can still learn."""
        try:
            self.save()
        except (OSError, ConfigError) as error:
            self._last_save_s = time.monotonic()
            self._note(f"{error}; the run goes on and tries again in {self.config.log.checkpoint_interval_s:g} s")

    def _note(self, text: str) -> None:
        assert self.dashboard is not None
        self.dashboard.note(printable(text))

    # ------------------------------------------------------------------------------------------------ progress

    def progress(self) -> float:
        """Share of the budget that is used up, 0 to 1."""
        limit = self.config.train.time_limit_s
        return max(self._steps_used(), min(1.0, self._elapsed() / limit) if limit > 0 else 0.0)

    def _steps_used(self) -> float:
        return min(1.0, self.counters.agent_steps / self.config.train.total_timesteps)

    def finished(self) -> bool:
        """True once the budget is used up, for all ranks at once: all must ask."""
        return self.ranks.agree(self.progress() >= 1.0)[0]

    def learning_rate(self) -> float:
        """The step size of the next update."""
        section = self.config.train
        used = self._steps_used() if section.deterministic else self.progress()
        return section.lr * (1.0 - 0.9 * used) if section.anneal_lr else section.lr

    def _elapsed(self) -> float:
        return self.counters.elapsed_s + self.reporter.since()

    def _totals(self) -> Totals:
        times = self.rollout.times if self.ahead is None else self.ahead.times
        seconds = {"env": times.env, "copy": times.copy, "forward": times.forward, "update": self._update_s}
        return Totals(self.counters.agent_steps, self.counters.env_steps, self._turns, seconds)

    def request_stop(self) -> None:
        """Let `train` end at the next vector step or gradient step, with a checkpoint. Safe in a signal handler."""
        self.stop_requested = True

    def describe(self) -> str:
        """Return the run in one line: env, rows, workers, device, precision, threads, parameters."""
        parameters = sum(p.numel() for policy in self.policies.values() for p in policy.parameters())
        vec, precision = self.vec, "bf16" if self.bf16 else "fp32"
        return (
            f"{self.config.target}: {vec.num_envs} envs, {vec.num_agents} rows, {type(vec).__name__.lower()} with"
            f" {vec.num_workers} workers and {vec.num_buffers} buffers, {self.device} {precision}"
            f" with {self.team.count} threads, {parameters:,} parameters"
            + (f", on each of {self.ranks.size} ranks" if self.ranks.size > 1 else "")
        )

    def _report(self, losses: dict[str, float]) -> dict[str, float]:
        """Write one line of metrics and show it."""
        assert self.dashboard is not None
        spans = self.reporter.spans(self._totals())
        with self.reporter.counted():  # Of the next span.
            self.counters.elapsed_s += spans["span_s"]
            counters = self.counters
            metrics = {
                "step": counters.agent_steps,
                "update": counters.updates,
                "elapsed_s": counters.elapsed_s,
                **spans,
                "charts/seconds_left": self.reporter.seconds_left(self.config.train, counters.agent_steps, counters.elapsed_s),
                "charts/learning_rate": self.learning_rate(),
                **self.episodes.means(),
                **({} if self.info_means is None else self.info_means.means()),
                **losses,
                **self.reporter.usage.sample(),
            }
            self.reporter.write(metrics)
            self.dashboard.show(metrics, self.progress())
        if self._estimate_due and counters.elapsed_s > ESTIMATE_AFTER_S:
            self._estimate_due = False
            self._note(estimate(self.config.target, self._solved_after, self.reporter.speed()))
        return metrics

    def _diverged(self, bad: list[str], losses: dict[str, float]) -> Diverged:
        path = self.folder / ("diverged.json" if self.ranks.first else f"diverged-rank{self.ranks.rank}.json")
        storages = {name: updater.storage for name, updater in self.updaters.items()}
        return diverged(path, bad, storages, vars(self.counters), losses)

    # ------------------------------------------------------------------------------------------------ files

    def save(self) -> Path:
        """Write a checkpoint and return its folder. All ranks must call it; the first one writes, for all.

        Between a whole update and the next roll-out that makes resuming exact: env states and the last step are saved too.
        Inside a roll-out they are left out; an update that was cut short counts, and what it had not learned is lost.
        Raises: Diverged where a number of a policy or optimizer is not finite; checkpoint.SaveError where the disk refuses.
            Nothing is lost by either.
        """
        with self.reporter.counted():
            return self._save()

    def _save(self) -> Path:
        if bad := [name for name in state.not_finite(self) if name not in self._constants]:
            raise self._diverged(bad[:3], {})
        if self.ahead is not None:
            self.ahead.wait()
        tensors = state.tensors_of(self)
        path, failure = self._write(tensors) if self.ranks.first else (None, None)
        path, failure = self.ranks.share([path and str(path), failure and str(failure)])
        if failure is not None:
            raise ckpt.SaveError(failure)
        self._last_save_s, self._saved_updates = time.monotonic(), self.counters.updates
        return Path(path)

    def _write(self, tensors: dict[str, state.Tensors]) -> tuple[Path | None, Exception | None]:
        """Write a checkpoint; return its folder, or why that did not work."""
        counters = dataclasses.replace(self.counters, elapsed_s=self._elapsed())
        manifest = {
            "env": self.config.target,
            "spec_hash": self.spec_hash,
            "config": {"target": self.config.target, **self.config.tables()},
            "counters": vars(counters),
            "policies": {n: {"class": type(p).__name__, "group": self.slots[n].group.name} for n, p in self.policies.items()},
            "versions": {"puffervec": puffervec.__version__, "torch": torch.__version__},
            "numerics": state.numerics(self),
        }
        try:
            self._refind_folder()
            folder = self.folder / rundir.CHECKPOINTS
            return ckpt.write(folder, ckpt.Checkpoint(manifest, tensors), self.config.log.keep_checkpoints), None
        except (OSError, ConfigError) as error:
            return None, error

    def _refind_folder(self) -> None:
        """Where the run folder was deleted under the run, make and lock it again: what was learned must not be lost with it."""
        assert self.lock is not None
        if self.lock.lost:
            self.lock.close()
            try:
                self._lock_folder()
            except OSError as error:
                raise ckpt.SaveError(f"cannot save: the run folder {self.folder} is gone: {said(error)}") from error
            self._note(f"the run folder {self.folder} was deleted: it was made again, without what was in it")

    def _read_checkpoint(self, path: Path, spec: EnvSpec) -> ckpt.Checkpoint:
        """Return a checkpoint of this env, and let the config describe its policies."""
        found = ckpt.read(path, state.stems_for(self.ranks.rank, ckpt.read_manifest(path)))
        if found.manifest["env"] != self.config.target:
            raise CheckpointError(f"{path} is of env {found.manifest['env']!r}, not {self.config.target!r}")
        if found.manifest["spec_hash"] != self.spec_hash:
            raise CheckpointError(f"{path} was made with other observations or actions than these env settings give")
        self.config = state.as_trained(self.config, spec.groups, found.manifest, found.tensors)
        return found

    def _restore(self, found: ckpt.Checkpoint) -> None:
        known = {field.name for field in dataclasses.fields(Counters)}
        self.counters = Counters(**{k: v for k, v in found.manifest["counters"].items() if k in known})
        for text in state.restore(self, found):
            self._note(text)
        self._saved_updates = self.counters.updates
        if state.stem_of("envs", self.ranks.rank) not in found.tensors:
            why = "the run was stopped inside a roll-out" if self.vec.spec.save_bytes else "this env cannot save them"
            self._note(f"goes on with new episodes: env states were not saved ({why})")
        if changed := state.differences(self, found.manifest.get("numerics")):
            self._note(f"goes on, but the last bits of numbers may differ from a run that was never stopped: {changed}")

    def close(self) -> None:
        """Stop the workers and close the files; may be called twice."""
        for resource in (self.dashboard, self.ahead, self.vec, self.team, self.trackers, self.log, self.lock, self.modes):
            if resource is not None:
                resource.close()

    def __enter__(self) -> Trainer:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()


def estimate(target: str, steps: int, agent_steps_per_s: float) -> str:
    """Return a line on how long the preset will take where the CPU works in float32."""
    minutes = steps / max(1.0, agent_steps_per_s) / 60
    return (
        "note: this run works in float32; bf16 needs a CPU with avx512_bf16 or amx_bf16. At the measured"
        f" {agent_steps_per_s:,.0f} agent-steps/s {target} needs an estimated {minutes:.0f} min to score 0.70 on held-out"
        " scenes"
    )


def make_vec(config: TrainConfig, seed: int | None = None) -> VectorEnv:
    """Start the workers of a run; env i gets seed + i. seed: None: that of the config."""
    v = config.vec.resolved(config.python)
    batches = {"batch_size": v.batch_size} if v.batch_size else {"num_buffers": v.num_buffers, "split": v.split}
    return puffervec.make(
        config.creator or config.target,
        env_kwargs=config.env,
        backend=v.backend,
        num_envs=v.num_envs,
        num_workers=v.num_workers,
        seed=config.train.seed if seed is None else seed,
        autoreset_mode="next_step",
        **batches,
    )
