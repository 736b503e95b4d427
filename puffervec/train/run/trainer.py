# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The trainer: `collect()` a roll-out, `update()` the policies, log, save, repeat. Python first;
the command line is a thin caller.

    from puffervec.train import Trainer, TrainConfig

    with Trainer(TrainConfig.of("tag_grid", train={"total_timesteps": 1_000_000})) as trainer:
        trainer.train()

The env may be a C env, a Gymnasium id, "module:factory" or a callable (target.py). The parts, in
the order in which they start:

    setup.py        what is settled before anything is started
    rundir.py       the run folder, locked
    learner.py      policies and their updates, random generators        )  what a checkpoint keeps: state(), load_state()
    collector.py    the workers, and roll-outs of them                   )
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

from puffervec.errors import ConfigError, PuffervecError
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import (
    ThreadPool,
    deterministic_kernels,
    in_pieces,
    one_torch_thread,
    usable_cores,
)
from puffervec.train.device.ranks import Ranks, of_environment
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
        config: of the run, with what was `auto` decided; chosen: what was measured for that.
        ranks, device, folder: the processes that train together, where this one's policies are, the
        run folder.
        counters: agent-steps and so on, over all resumes.
        learner, collector, saver, reporting: the parts.
        policies, slots: by policy name; vec: the vec env.
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
        """Set everything up; starts the workers. Under torchrun all ranks must make one, and call
        the same methods in the same order; the first rank's folder and checkpoint hold for all.

        Args:
            policies: by policy name, in place of those that `config.policy` describes; the names
                are those of `policy.map`, else of the row groups, or `default` where there is one
                group.
            checkpoint: folder to go on from; the run folder that it lies in (RUN/checkpoints/NAME)
            is used again.
            folder: run folder, where there is no such; None makes one as `config.log` says.
            dashboard: where progress is shown; None: as `config.log.dashboard` says.
            ranks: the processes that train together; None: those that torchrun has started, else
            this one alone.
            policy_map: in place of `policy.map`: it is given an agent (a parallel env: the name, a
                C env: the row) and returns the name of the agent's policy.
        Raises:
            RankLost: another rank is gone.
            ConfigError, SceneError, CheckpointError: bad input; nothing was started.
            MissingExtraError: a tracker that is not installed; nothing was started.
        """
        ranks = ranks or of_environment(config.train.rank_timeout_s)
        self._check(config, ranks)
        setup, found = set_up(config, policies or {}, checkpoint, folder, ranks, policy_map)
        self.config, self.ranks, self.device, self.chosen = (
            setup.config,
            ranks,
            setup.device,
            setup.chosen,
        )
        self.counters = Counters()
        self.stop_requested = False
        self._opponents = setup.opponents
        self._open = contextlib.ExitStack()  # Closes the last part first.
        self.folder = setup.run_folder()
        try:
            if setup.config.train.deterministic:
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
                shutil.rmtree(
                    self.folder, ignore_errors=True
                )  # Nothing but the config of a run that never began is in it.
            raise

    def _check(self, config: TrainConfig, ranks: Ranks) -> None:
        """Raise where this is no trainer for these settings, before anything is made."""
        if config.ray.address:
            raise ConfigError(
                f"ray.address is {config.ray.address!r}: make a puffervec.wings.ray.RayTrainer, "
                "or leave it out"
            )

    def _start(self, setup: Setup, given: Mapping[str, nn.Module]) -> None:
        """Start the workers and assemble the parts that a checkpoint keeps."""
        self.vec = self._make_vec(setup)
        self._open.callback(self.vec.close)
        self.policies = build_policies(setup, given)
        generators = Generators(setup.own_seed, self.device)
        threads = (setup.config.train.threads or usable_cores()) if in_pieces(self.device) else 1
        # Threads would draw from the one generator, and send a team's messages, in the order in
        # which they come.
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
        """Start new episodes, or go on from a checkpoint; then begin to report."""
        notes: list[str] = []
        if found is not None:
            self.counters, notes = self.saver.restore(found)
        if not self.collector.full:  # Other episodes than those of the start.
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

    # ------------------------------------------------------------------------------------------------ the three acts

    def begin(self, seed: int) -> None:
        """Start new episodes in all envs; the next `collect` begins with them."""
        self.collector.begin(seed)

    def collect(self) -> bool:
        """Simulate one roll-out with the current policies. Returns False where a stop was requested
        on the way, on any rank.
        """
        with one_torch_thread():
            whole: bool = self.collector.collect(lambda: self.stop_requested)
            return whole

    def update(self) -> dict[str, float]:
        """Improve the policies with the roll-out collected last; return losses, named
        `losses/<name>` (several policies: `losses/<policy>/<name>`).

        Raises: Diverged where a loss is not finite.
        """
        first = self.counters.updates == 0
        with one_torch_thread():
            # Later ones are observed after the update, so that the log-probabilities of a roll-out
            # stay true.
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
                "stopped inside an update: a run that goes on from here is not byte for byte one "
                "never stopped"
            )
        return learned.losses

    def report(self, losses: Mapping[str, float]) -> dict[str, float]:
        """Write a line of metrics to the log and the trackers, show it, and return it. losses: of
        the last update.
        """
        values = {**self._rates(), **self.collector.means(), **losses}
        return self.reporting.report(self.counters, self._totals(), values, self.progress)

    def save(self) -> Path:
        """Write a checkpoint and return its folder. All ranks must call it; the first one writes,
        for all.

        Between a whole update and the next roll-out that makes resuming exact: env states and the
        last step are saved too. Inside a roll-out they are left out; an update that was cut short
        counts, and what it had not learned is lost.
        Raises: Diverged where a number of a policy or optimizer is not finite; checkpoint.SaveError
            where the disk refuses. Nothing is lost by either.
        """
        with self.reporting.counted():
            if bad := self.learner.not_finite():
                raise self._diverged(bad[:3], {})
            self.collector.wait()
            return self.saver.save(self.counters, self._elapsed(), self.reporting.note)

    def train(self) -> dict[str, float]:
        """Run until the budget is used up or a stop is requested; save and return the last metrics.

        Raises: Diverged; WorkerError and its kin where an env fails; checkpoint.SaveError where the
            disk refuses the last checkpoint. The last good one stays in all cases.
        """
        metrics: dict[str, float] = {}
        if (
            self._totals() == self.reporting.totals
        ):  # Nothing was done since: what went by was not training.
            self.reporting.restart(self._totals())
        while not self.ranks.agree(self.stop_requested or self.progress() >= 1.0)[0]:
            if not self.collect():
                break
            metrics = self.report(self.update())
            if self.ranks.broadcast_object(self.saver.due() and not self.stop_requested):
                self._try_save()
        if self.saver.updates != self.counters.updates:
            self.save()
        self.reporting.flush()
        return metrics

    def _try_save(self) -> None:
        """Save, or say that it did not work: a full disk must not end a run that can still learn."""
        try:
            self.save()
        except (OSError, ConfigError) as error:
            self.saver.postpone()
            interval_s = self.config.log.checkpoint_interval_s
            self.reporting.note(f"{error}; the run goes on and tries again in {interval_s:g} s")

    def _diverged(self, bad: list[str], losses: Mapping[str, float]) -> Diverged:
        path = self.folder / (
            "diverged.json" if self.ranks.first else f"diverged-rank{self.ranks.rank}.json"
        )
        return diverged(path, bad, self.learner.storages, vars(self.counters), losses)

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

    def _used(self) -> float:
        """Share of the budget that step sizes follow."""
        return self._steps_used() if self.config.train.deterministic else self.progress()

    def learning_rate(self, policy: str | None = None) -> float:
        """The step size of the next update. policy: whose; None: the first one's that learns."""
        rates = self.learner.rates(self.counters.agent_steps, self._used())
        return rates[next(iter(rates)) if policy is None else policy][0]

    def _rates(self) -> dict[str, float]:
        """The metrics of step size and entropy: by policy where they differ."""
        rates = self.learner.rates(self.counters.agent_steps, self._used())
        found: dict[str, float] = {}
        for index, key in enumerate((keys.LEARNING_RATE, keys.ENTROPY_COEF)):
            values = {f"{key}/{name}": pair[index] for name, pair in rates.items()}
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
        """Let `train` end at the next vector step or gradient step, with a checkpoint. Safe in a
        signal handler.
        """
        self.stop_requested = True

    def describe(self) -> str:
        """Return the run in one line: env, rows, workers, device, precision, threads, parameters,
        opponents.
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
        )

    def close(self) -> None:
        """Stop the workers and close the files; may be called twice."""
        self._open.close()

    def __enter__(self) -> Trainer:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()
