# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The trainer: `collect()` a rollout, `update()` the policies, log, save, repeat.

The command line is a thin layer over this Python interface.

    from puffervec.train import Trainer, TrainConfig

    with Trainer(TrainConfig.of("tag_grid", train={"total_timesteps": 1_000_000})) as trainer:
        trainer.train()

The env may be a C env, a Gymnasium id, "module:factory" or a callable (target.py). The parts, in
the order in which they start:

    setup.py        checks and choices before anything is started
    rundir.py       the run folder, locked
    learner.py      policies and their updates, random generators: state(), load_state()
    collector.py    the vec env and its rollouts: state(), load_state()
    state.py        checkpoints of these two
    reporting.py    metrics and notes

Runs in the learner.
"""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from puffervec.doors import door
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system.cores import usable_cores
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import (
    ThreadPool,
    deterministic_kernels,
    in_pieces,
    one_torch_thread,
)
from puffervec.train.device.ranks import Ranks, from_environment
from puffervec.train.metrics import keys
from puffervec.train.metrics.dashboard import Dashboard
from puffervec.train.policies.mapping import AgentMap
from puffervec.train.policies.registry import draws
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.collector import Collector
from puffervec.train.run.diverged import Diverged, diverged
from puffervec.train.run.learner import Generators, Learner, build_policies
from puffervec.train.run.reporting import Reporting, Totals
from puffervec.train.run.rundir import RunFiles
from puffervec.train.run.setup import Setup, set_up
from puffervec.train.run.state import Counters, Saver


class Trainer:
    """A run: vec env, policies, optimizers and files.

    Attributes:
        config: the config of the run with `auto` settings decided.
        chosen: the measurements for these decisions.
        ranks: the processes that train together.
        device: the device of this process's policies.
        folder: the run folder.
        counters: agent-steps, env-steps, updates and time, over all resumes.
        learner, collector, saver, reporting: the parts, see the top of this file.
        policies, slots: policies and slots by policy name.
        vec: the vec env.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        policies: Mapping[str, nn.Module] | None = None,
        checkpoint: Path | None = None,
        folder: Path | None = None,
        dashboard: Dashboard | None = None,
        ranks: Ranks | None = None,
        policy_map: AgentMap | None = None,
    ) -> None:
        """Set up the run and start the workers.

        Under torchrun all ranks must create a trainer and call the same methods in the same order;
        the folder and checkpoint of the first rank apply to all.

        Args:
            config: the settings.
            policies: policies by name, used instead of those that `config.policy` describes. The
                names are the ones in `policy.map`, otherwise those of the row groups, or `default`
                if there is only one group.
            checkpoint: folder to resume from; the run folder that it lies in
                (RUN/checkpoints/NAME) is used again.
            folder: the run folder, if the checkpoint does not lie in one; None creates one
                according to `config.log`.
            dashboard: shows the progress; None makes one according to `config.log.dashboard`.
            ranks: the processes that train together; None means those that torchrun has started,
                otherwise only this process.
            policy_map: in place of `policy.map`, a function from an agent (a parallel env: its
                name, a C env: its row) to the name of its policy.

        Raises:
            RankLost: another rank is gone.
            ConfigError, SceneError, CheckpointError: bad input; nothing was started.
            MissingExtraError: a tracker is not installed; nothing was started.
        """
        ranks = ranks or from_environment(config.train.rank_timeout_s)
        self._check(config, ranks)
        if config.eval.every_s:
            door("evaluations", "eval.every_s").check(config)
        setup, found = set_up(config, policies or {}, checkpoint, folder, ranks, policy_map)
        self.config, self.ranks, self.device, self.chosen = (
            setup.run.config,
            ranks,
            setup.run.device,
            setup.chosen,
        )
        self.counters = Counters()
        self.stop_requested = False
        self._opponents = setup.opponents
        self._evaluations: Any = None  # of checkpoints while the run trains
        self._open = contextlib.ExitStack()  # closes the parts in reverse order
        self.folder = setup.run_folder()
        try:
            if setup.run.config.train.deterministic:
                self._open.enter_context(deterministic_kernels(self.device))
            self.files = RunFiles(self.folder, setup)
            self._open.callback(self.files.close)
            self._start(setup, policies or {})
            self._begin(setup, found, dashboard)
        except BaseException as error:
            self.close()
            if (
                setup.folder is None
                and ranks.first
                and isinstance(error, (PuffervecError, KeyboardInterrupt))
            ):
                # It contains nothing but the config of a run that never began.
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def _check(self, config: TrainConfig, ranks: Ranks) -> None:
        """Raise ConfigError if these settings need another trainer."""
        if config.ray.address:
            raise ConfigError(
                f"ray.address is {config.ray.address!r}: use puffervec.wings.ray.RayTrainer, or "
                "leave it out"
            )

    def _start(self, setup: Setup, given: Mapping[str, nn.Module]) -> None:
        """Start the workers and build the parts whose state is saved in checkpoints."""
        self.vec = self._make_vec(setup)
        self._open.callback(self.vec.close)
        self.policies = build_policies(setup, given)
        generators = Generators(setup.own_seed, self.device)
        threads = (
            (setup.run.config.train.threads or usable_cores()) if in_pieces(self.device) else 1
        )
        # With several threads the order of draws from the one generator, and of a team's messages,
        # would not be deterministic.
        alone = setup.team.size > 1 or any(map(draws, self.policies.values()))
        self.pool = ThreadPool(1 if alone else threads)
        self._open.callback(self.pool.close)
        self.learner = Learner(setup, self.policies, generators.shuffle, self.pool)
        self.collector = self._make_collector(setup, generators)
        self._open.callback(self.collector.close)
        self.slots = self.collector.slots
        self.saver = Saver(
            setup, self.files, self.learner, self.collector, generators, self.pool.count
        )

    def _make_vec(self, setup: Setup) -> Any:
        return setup.make_vec()

    def _make_collector(self, setup: Setup, generators: Generators) -> Any:
        return Collector(setup, self.vec, self.learner, generators.actions, self.pool)

    def _begin(
        self, setup: Setup, found: ckpt.Checkpoint | None, dashboard: Dashboard | None
    ) -> None:
        """Start new episodes or resume from a checkpoint; then start reporting."""
        notes: list[str] = []
        if found is not None:
            self.counters, notes = self.saver.restore(found)
        if not self.collector.full:  # The seed differs from that of the run's first episodes.
            self.begin(setup.env_seed + self.counters.agent_steps)
        self.ranks.broadcast(
            [part for policy in self.policies.values() for part in policy.state_dict().values()]
        )
        self.reporting = Reporting(
            setup, self.files, self.vec, self.counters, self.describe(), dashboard
        )
        self._open.callback(self.reporting.close)
        self.reporting.restart(self._totals())
        for note in notes:
            self.reporting.note(note)
        if setup.run.config.eval.every_s and self.ranks.first:
            evaluations = door("evaluations", "eval.every_s").evaluations
            self._evaluations = evaluations(setup.run.config, self.folder, self.reporting.note)
            self._open.callback(self._evaluations.close)

    # ---- collect, update, save -------------------------------------------------------------------

    def begin(self, seed: int) -> None:
        """Start new episodes in all envs; the next `collect` begins with them."""
        self.collector.begin(seed)

    def collect(self) -> bool:
        """Simulate one rollout with the current policies.

        Returns:
            False if a stop was requested before the end, on any rank.
        """
        with one_torch_thread():
            whole: bool = self.collector.collect(lambda: self.stop_requested)
            return whole

    def update(self) -> dict[str, float]:
        """Update the policies from the last collected rollout and return the losses.

        Returns:
            Losses named `losses/<name>` (several policies: `losses/<policy>/<name>`).

        Raises:
            Diverged: a loss is not finite.
        """
        first = self.counters.updates == 0
        with one_torch_thread():
            # Later rollouts are observed after the update: observing changes the statistics by
            # which the policy scales observations, and the log-probabilities of the rollout would
            # no longer match.
            if first:
                self.learner.observe()
                for line in self.learner.outside_bounds():
                    self.reporting.note(line)
            self.collector.go_ahead()
            learned = self.learner.update(
                self.counters.agent_steps, self._used(), lambda: self.stop_requested
            )
            if not first:
                self.learner.observe()
        if bad := [name for name, value in learned.losses.items() if not math.isfinite(value)]:
            raise self._diverged(bad, learned.losses)
        self.counters.agent_steps += learned.valid
        self.counters.env_steps += (
            self.config.learned_envs * self.config.train.horizon * self.ranks.size
        )
        self.counters.updates += 1
        if not learned.finished:
            self.reporting.note(
                "stopped inside an update: a run resumed from here is not byte-identical to one "
                "that was never stopped"
            )
        return learned.losses

    def report(self, losses: Mapping[str, float]) -> dict[str, float]:
        """Write a line of metrics to the log and the trackers, show it, and return it.

        Args:
            losses: losses of the last update.
        """
        values = {**self._rates(), **self.collector.means(), **losses}
        if self._evaluations is not None:
            values |= self._evaluations.poll()
        return self.reporting.report(self.counters, self._totals(), values, self.progress)

    def save(self) -> Path:
        """Write a checkpoint and return its folder; all ranks must call this, the first one writes.

        Between a complete update and the next rollout, resuming is exact: env states and the last
        step are saved too. Inside a rollout they are left out. An update that was cut short counts,
        and the rest of it is lost.

        Raises:
            Diverged: a number of a policy or optimizer is not finite; earlier checkpoints stay.
            SaveError: the disk refuses (checkpoint.py); earlier checkpoints stay.
        """
        with self.reporting.counted():
            if bad := self.learner.not_finite():
                raise self._diverged(bad[:3], {})
            self.collector.wait()
            return self.saver.save(self.counters, self._elapsed(), self.reporting.note)

    def train(self) -> dict[str, float]:
        """Run until the budget is used up or a stop is requested; save and return the last metrics.

        The last good checkpoint stays, whatever is raised.

        Raises:
            Diverged: a number of the training is not finite.
            WorkerError: an env fails; likewise the related errors of workers.
            SaveError: the disk refuses the last checkpoint (checkpoint.py).
        """
        metrics: dict[str, float] = {}
        # Without work since the last report, the time since then was not training time.
        if self._totals() == self.reporting.totals:
            self.reporting.restart(self._totals())
        while not self.ranks.agree(self._ends())[0]:
            if not self.collect():
                break
            metrics = self.report(self.update())
            evaluate = self._evaluations is not None and self._evaluations.due()
            due = self.saver.due() or evaluate
            if self.ranks.broadcast_object(due and not self.stop_requested):
                checkpoint = self._try_save()
                if evaluate and checkpoint is not None:
                    self._evaluations.start(checkpoint, self.counters.agent_steps)
        if self.saver.updates != self.counters.updates:
            self.save()
        self.reporting.flush()
        return metrics

    def _ends(self) -> bool:
        """Return whether a stop was requested, the budget is used up or no evaluation improves."""
        exhausted = self._evaluations is not None and self._evaluations.exhausted
        return self.stop_requested or exhausted or self.progress() >= 1.0

    def _try_save(self) -> Path | None:
        """Save, or note the failure: a full disk must not end a run that can still learn."""
        try:
            return self.save()
        except (OSError, ConfigError) as error:
            self.saver.postpone()
            interval_s = self.config.log.checkpoint_interval_s
            self.reporting.note(f"{error}; the run continues and tries again in {interval_s:g} s")
            return None

    def _diverged(self, bad: list[str], losses: Mapping[str, float]) -> Diverged:
        path = self.folder / (
            "diverged.json" if self.ranks.first else f"diverged-rank{self.ranks.rank}.json"
        )
        return diverged(path, bad, self.learner.storages, vars(self.counters), losses)

    # ---- progress --------------------------------------------------------------------------------

    def progress(self) -> float:
        """Return the share of the budget that is used up, 0 to 1."""
        limit = self.config.train.time_limit_s
        return max(self._steps_used(), min(1.0, self._elapsed() / limit) if limit > 0 else 0.0)

    def _steps_used(self) -> float:
        return min(1.0, self.counters.agent_steps / self.config.train.total_timesteps)

    def finished(self) -> bool:
        """Return True once the budget is used up, the same on all ranks; all must call it."""
        return self.ranks.agree(self.progress() >= 1.0)[0]

    def _used(self) -> float:
        """Return the share of the budget that learning rates depend on."""
        return self._steps_used() if self.config.train.deterministic else self.progress()

    def learning_rate(self, policy: str | None = None) -> float:
        """Return the learning rate of the next update.

        Args:
            policy: name of the policy; None takes the first one that learns.
        """
        rates = self.learner.rates(self.counters.agent_steps, self._used())
        return rates[next(iter(rates)) if policy is None else policy][0]

    def _rates(self) -> dict[str, float]:
        """Return the metrics of scheduled settings, by policy if they differ."""
        rates = self.learner.rates(self.counters.agent_steps, self._used())
        found: dict[str, float] = {}
        sections = [updater.section for updater in self.learner.updaters.values()]
        shown = {"lr": keys.LEARNING_RATE, "entropy_coef": keys.ENTROPY_COEF}
        if any(section.kl_to for section in sections):
            shown["kl_weight"] = keys.KL_WEIGHT
        if any(section.reward_limit for section in sections):
            shown["reward_limit"] = keys.REWARD_LIMIT
        for field, key in shown.items():
            values = {f"{key}/{name}": getattr(own, field) for name, own in rates.items()}
            found |= values if len(set(values.values())) > 1 else {key: next(iter(values.values()))}
        return found

    def _elapsed(self) -> float:
        return self.counters.elapsed_s + self.reporting.since()

    def _totals(self) -> Totals:
        times = self.collector.times
        seconds = {
            "env": times.env,
            "copy": times.copy,
            "forward": times.forward,
            "update": self.learner.seconds,
        }
        return Totals(
            self.counters.agent_steps, self.counters.env_steps, self.collector.turns, seconds
        )

    def request_stop(self) -> None:
        """Make `train` end at the next vector step or gradient step, with a checkpoint.

        Safe in a signal handler.
        """
        self.stop_requested = True

    def describe(self) -> str:
        """Return a one-line description of the run.

        It lists env, rows, workers, device, precision, threads, parameters and opponents.
        """
        parameters = sum(
            p.numel() for policy in self.policies.values() for p in policy.parameters()
        )
        return (
            f"{self.config.target}: {self._played_by()}, {self.device} "
            f"{self.config.train.precision} with {self.pool.count} threads, {parameters:,} "
            "parameters"
            + (f", on each of {self.ranks.size} ranks" if self.ranks.size > 1 else "")
            + "".join(
                f", {name} played by {len(found.weights)} of other runs"
                for name, found in self._opponents.items()
            )
        )

    def _played_by(self) -> str:
        vec = self.vec
        return (
            f"{vec.num_envs} envs, {vec.num_agents} rows, {type(vec).__name__.lower()} with "
            f"{vec.num_workers} workers and {vec.num_buffers} buffers"
            + (f" split by {vec.split}" if vec.num_buffers > 1 else "")
        )

    def close(self) -> None:
        """Stop the workers and close the files; may be called twice."""
        self._open.close()

    def __enter__(self) -> Trainer:
        """Return this trainer."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the trainer."""
        self.close()
