# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Metrics of a run: one line per update for the log, the trackers and the dashboard; and notes.

The learner's time is divided into keys.TIME_PARTS, which are measured one after the other on one
clock; `other` is the remainder. It is not clipped at 0, so that a part that is counted twice shows
up. Rates and the time left refer to this process, totals to the run with all its resumes. Runs in
the learner.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from puffervec.system.output import printable
from puffervec.train.metrics import keys, trackers
from puffervec.train.metrics.dashboard import Dashboard, make_dashboard
from puffervec.train.metrics.log import RESUMED
from puffervec.train.metrics.usage import Usage
from puffervec.train.run.rundir import RunFiles
from puffervec.train.run.setup import Setup
from puffervec.train.run.state import Counters

ESTIMATE_AFTER_S = 20.0
RATE_WINDOW_S = 30.0  # The time left is estimated from the speed over this window.


@dataclasses.dataclass(frozen=True)
class Totals:
    """Sums since the start of the process (times, env turns) or of the run (steps).

    Attributes:
        agent_steps: valid transitions.
        env_steps: transitions of an env.
        turns: vector steps, each of all halves.
        seconds: seconds by name in keys.TIME_PARTS, without log and other.
    """

    agent_steps: int
    env_steps: int
    turns: int
    seconds: Mapping[str, float]


class Reporting:
    """The outputs for the metrics of a run.

    It is created after the workers, because trackers start threads and forking a process with
    threads is unsafe.
    """

    def __init__(
        self,
        setup: Setup,
        files: RunFiles,
        vec: Any,
        counters: Counters,
        about: str,
        dashboard: Dashboard | None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Open the trackers and the dashboard.

        Args:
            setup: the run.
            files: the run folder with its log.
            vec: the vec env.
            counters: counters of the run so far.
            about: describes the run in one line.
            dashboard: None makes one according to `config.log.dashboard`.
            clock: returns seconds.

        Raises:
            ConfigError: a tracker cannot be opened.
        """
        config, log = setup.run.config, setup.run.config.log
        self._config, self._log, metric = config, files.log, vec.env.training.metric
        opened = trackers.open_trackers(
            log, files.folder, counters.agent_steps, files.run_id, config.tables(), metric
        )
        self.dashboard = dashboard or make_dashboard(config, about, metric)
        self._trackers = trackers.Trackers(opened, log.print_interval_s, self.note)
        self._usage = Usage(
            [process.pid for process in getattr(vec, "processes", ())],
            setup.run.device,
            log.print_interval_s,
        )
        # On a CPU without bf16 training is slow: print an estimate of the duration early.
        slow = setup.run.device.type == "cpu" and not setup.bf16
        self._solved_after = vec.env.training.solved_after if slow else 0
        if files.goes_on:
            files.log.mark(
                RESUMED,
                step=counters.agent_steps,
                update=counters.updates,
                elapsed_s=counters.elapsed_s,
            )
        self._vec, self._clock = vec, clock
        self._log_s, self._losing_lines = 0.0, False
        self.restart(Totals(0, 0, 0, {}))

    def restart(self, totals: Totals) -> None:
        """Start measuring from these totals; earlier work does not count in the rates."""
        self._at_s, self.totals, self._log_before_s = self._clock(), totals, self._log_s
        self._points = collections.deque([(self._at_s, totals.agent_steps)])

    def since(self) -> float:
        """Return the seconds since the last report."""
        return self._clock() - self._at_s

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count the time of the block as `log`: a checkpoint or a report.

        `spans` and `restart` must not be called inside it.
        """
        begin = self._clock()
        try:
            yield
        finally:
            self._log_s += self._clock() - begin

    def spans(self, totals: Totals) -> dict[str, float]:
        """Return `span_s`, rates, time shares and overlap since the last report; reset them."""
        now, before = self._clock(), self.totals
        span = max(1e-9, now - self._at_s)
        seconds = {
            name: value - before.seconds.get(name, 0.0) for name, value in totals.seconds.items()
        }
        seconds["log"] = self._log_s - self._log_before_s
        seconds["other"] = span - math.fsum(seconds.values())
        self._at_s, self.totals, self._log_before_s = now, totals, self._log_s
        self._points.append((now, totals.agent_steps))
        while len(self._points) > 2 and self._points[1][0] < now - RATE_WINDOW_S:
            self._points.popleft()
        return {
            keys.SPAN_S: span,
            keys.AGENT_STEPS_PER_S: (totals.agent_steps - before.agent_steps) / span,
            keys.ENV_STEPS_PER_S: (totals.env_steps - before.env_steps) / span,
            **self._overlap(seconds, totals.turns - before.turns),
            **{key: seconds[name] / span for name, key in keys.TIME_PARTS.items()},
        }

    def _overlap(self, seconds: Mapping[str, float], turns: int) -> dict[str, float]:
        """Return the duration of a rollout divided by the longer of policy and simulation time.

        1 is a perfect overlap; policy and simulation one after the other give up to 2. The result
        is empty if the simulation time is unknown.
        """
        step_s = step_seconds(self._vec)
        if step_s is None or turns <= 0:
            return {}
        policy_s = seconds["copy"] + seconds["forward"]
        return {keys.OVERLAP: (seconds["env"] + policy_s) / max(policy_s, step_s * turns, 1e-9)}

    def speed(self) -> float:
        """Return the agent-steps per second of this process over the last half minute."""
        (first_s, first), (last_s, last) = self._points[0], self._points[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0

    def seconds_left(self, agent_steps: int, elapsed_s: float) -> float:
        """Return the seconds until the budget is used up at the current speed; inf if that is 0."""
        section, speed = self._config.train, self.speed()
        left = max(0, section.total_timesteps - agent_steps) / speed if speed > 0 else math.inf
        return (
            min(left, max(0.0, section.time_limit_s - elapsed_s))
            if section.time_limit_s > 0
            else left
        )

    def note(self, text: str) -> None:
        """Show a message permanently."""
        self.dashboard.note(printable(text))

    def report(
        self,
        counters: Counters,
        totals: Totals,
        values: Mapping[str, float],
        progress: Callable[[], float],
    ) -> dict[str, float]:
        """Write and show one line of metrics, and return it.

        Args:
            counters: the time since the last report is added to them.
            totals: the sums now.
            values: the metrics that do not come from the clocks.
            progress: returns the share of the budget that is used up.
        """
        spans = self.spans(totals)
        with self.counted():  # This time belongs to the next span.
            counters.elapsed_s += spans[keys.SPAN_S]
            metrics = {
                keys.STEP: counters.agent_steps,
                keys.UPDATE: counters.updates,
                keys.ELAPSED_S: counters.elapsed_s,
                **spans,
                keys.SECONDS_LEFT: self.seconds_left(counters.agent_steps, counters.elapsed_s),
                **values,
                **self._usage.sample(),
            }
            self._write(metrics)
            self.dashboard.show(metrics, progress())
        if self._solved_after and counters.elapsed_s > ESTIMATE_AFTER_S:
            self.note(estimate(self._config.target, self._solved_after, self.speed()))
            self._solved_after = 0
        return metrics

    def _write(self, metrics: Mapping[str, float]) -> None:
        """Log a line and pass it to the trackers.

        A log that cannot be written is reported once; it must not end a run that can still learn.
        """
        lost = not self._log.write(metrics)
        if lost and not self._losing_lines:
            self.note(
                f"cannot write metrics to {self._log.path}: {self._log.reason}; the run "
                "continues without them"
            )
        if not lost and self._losing_lines:
            self.note(f"metrics are written again; {self._log.dropped} lines were dropped")
        self._losing_lines = lost
        self._trackers.write(metrics)

    def flush(self) -> None:
        """Flush the trackers and report dropped lines."""
        self._trackers.flush()
        if self._log.dropped:
            self.note(
                f"{self._log.dropped} lines of metrics were dropped: {self._log.path} lacks them"
            )

    def close(self) -> None:
        """Restore the terminal and close the trackers; may be called twice."""
        self.dashboard.close()
        self._trackers.close()


def step_seconds(vec: Any) -> float | None:
    """Return the seconds that the workers of `vec` took for their last vector step.

    This is the sum over the halves of the slowest worker's time: a sample of one step. The result
    is None if there are no workers, or no second half to overlap with.
    """
    if vec.num_buffers < 2 or not vec.workers.several:
        return None
    return (
        sum(
            float((times[:, 1] - times[:, 0]).max())
            for times in map(vec.timing, range(vec.num_buffers))
        )
        * 1e-9
    )


def estimate(target: str, steps: int, agent_steps_per_s: float) -> str:
    """Return a line that estimates how long the preset takes on a CPU in float32."""
    minutes = steps / max(1.0, agent_steps_per_s) / 60
    return (
        "note: this run works in float32; bf16 needs a CPU with avx512_bf16 or amx_bf16. The "
        f"preset of {target} does well after {steps:,} agent-steps: an estimated {minutes:.0f} "
        f"min at the measured {agent_steps_per_s:,.0f} agent-steps/s"
    )
