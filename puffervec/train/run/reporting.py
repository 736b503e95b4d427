# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""From counters and clocks to a line of metrics per update: to the log, the trackers and the
dashboard; and notes.

The learner's time falls into keys.TIME_PARTS, which are measured one after the other on one clock;
`other` is what lies between them. It is a difference and never cut off at 0, so a part that were
counted twice would show. Rates and time left come from what this process did, totals from the run,
over all its resumes. Runs in the learner.
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
RATE_WINDOW_S = 30.0  # The time left follows the speed of the last half minute.


@dataclasses.dataclass(frozen=True)
class Totals:
    """Sums since the process was started (times, env turns) or the run (steps).

    seconds: by name of keys.TIME_PARTS, without log and other. turns: vector steps, each of all
        halves.
    """

    agent_steps: int
    env_steps: int
    turns: int
    seconds: Mapping[str, float]


class Reporting:
    """Where the metrics of a run go. Made last: a process with the threads of trackers is no good
    one to fork.
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
        """Args: about: the run in one line; dashboard: None: as `config.log.dashboard` says.
        Raises: ConfigError.
        """
        config, log = setup.config, setup.config.log
        self._config, self._log, metric = config, files.log, vec.env.training.metric
        opened = trackers.open_trackers(
            log, files.folder, counters.agent_steps, files.run_id, config.tables(), metric
        )
        self.dashboard = dashboard or make_dashboard(config, about, metric)
        self._trackers = trackers.Trackers(opened, log.print_interval_s, self.note)
        self._usage = Usage(
            [process.pid for process in getattr(vec, "processes", ())],
            setup.device,
            log.print_interval_s,
        )
        # Where bf16 would have been used and cannot be, say early how long it will take.
        slow = setup.device.type == "cpu" and not setup.bf16
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
        """Begin anew with these totals: what was before is in no rate."""
        self._at_s, self.totals, self._log_before_s = self._clock(), totals, self._log_s
        self._points = collections.deque([(self._at_s, totals.agent_steps)])

    def since(self) -> float:
        """Seconds since the last report."""
        return self._clock() - self._at_s

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count the time of the block as `log`: a checkpoint, or a report. `spans` and `restart`
        must not be called in it.
        """
        begin = self._clock()
        try:
            yield
        finally:
            self._log_s += self._clock() - begin

    def spans(self, totals: Totals) -> dict[str, float]:
        """Return what was done since the last report: `span_s`, rates, shares of the time, the
        overlap; then begin anew.
        """
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
        """Time of a roll-out / the longer of: policy, simulation. 1 is perfect; policy and
        simulation in turn give up to 2.
        """
        step_s = step_seconds(self._vec)
        if step_s is None or turns <= 0:
            return {}
        policy_s = seconds["copy"] + seconds["forward"]
        return {keys.OVERLAP: (seconds["env"] + policy_s) / max(policy_s, step_s * turns, 1e-9)}

    def speed(self) -> float:
        """Agent-steps per second of this process, over the last half minute."""
        (first_s, first), (last_s, last) = self._points[0], self._points[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0

    def seconds_left(self, agent_steps: int, elapsed_s: float) -> float:
        """Seconds until the budget is used up, at the speed of now; infinite where nothing moves."""
        section, speed = self._config.train, self.speed()
        left = max(0, section.total_timesteps - agent_steps) / speed if speed > 0 else math.inf
        return (
            min(left, max(0.0, section.time_limit_s - elapsed_s))
            if section.time_limit_s > 0
            else left
        )

    def note(self, text: str) -> None:
        """Show a message that stays."""
        self.dashboard.note(printable(text))

    def report(
        self,
        counters: Counters,
        totals: Totals,
        values: Mapping[str, float],
        progress: Callable[[], float],
    ) -> dict[str, float]:
        """Write and show one line of metrics; return it. The time since the last one goes into
        `counters`.

        Args: values: the metrics that others than the clocks give; progress: share of the budget
            that is used up.
        """
        spans = self.spans(totals)
        with self.counted():  # Of the next span.
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
        """Log a line and hand it to the trackers. A lost log is said once: it must not end a run
        that can still learn.
        """
        lost = not self._log.write(metrics)
        if lost and not self._losing_lines:
            self.note(
                f"cannot write metrics to {self._log.path}: {self._log.reason}; the run goes on "
                "without them"
            )
        if not lost and self._losing_lines:
            self.note(f"metrics are written again; {self._log.dropped} lines were dropped")
        self._losing_lines = lost
        self._trackers.write(metrics)

    def flush(self) -> None:
        """Hand over what is held back, and say what was lost."""
        self._trackers.flush()
        if self._log.dropped:
            self.note(
                f"{self._log.dropped} lines of metrics were dropped: {self._log.path} lacks them"
            )

    def close(self) -> None:
        """Leave the terminal as it was and close the trackers; may be called twice."""
        self.dashboard.close()
        self._trackers.close()


def step_seconds(vec: Any) -> float | None:
    """Return how long the workers of `vec` took for their last vector step: for each half the
        slowest of them.

    A sample of one step, and only where there are workers and at least two halves to overlap; else
    None.
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
    """Return a line on how long the preset will take where the CPU works in float32."""
    minutes = steps / max(1.0, agent_steps_per_s) / 60
    return (
        "note: this run works in float32; bf16 needs a CPU with avx512_bf16 or amx_bf16. The "
        f"preset of {target} does well after {steps:,} agent-steps: an estimated {minutes:.0f} "
        f"min at the measured {agent_steps_per_s:,.0f} agent-steps/s"
    )
