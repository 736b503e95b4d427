# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""From counters and clocks to a line of metrics: rates, the split of the time, time left, use of the machine.

The learner's time falls into keys.TIME_PARTS, which are measured one after the other on one clock; `other` is what lies between
them. It is a difference and never cut off at 0, so a part that were counted twice would show. Rates and time left come from
what this process did, totals from the run, over all its resumes. Runs in the learner, once per update.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from puffervec.train.config.sections import TrainSection
from puffervec.train.metrics import keys
from puffervec.train.metrics.log import JsonLog
from puffervec.train.metrics.trackers import Trackers
from puffervec.train.metrics.usage import Usage

RATE_WINDOW_S = 30.0  # The time left follows the speed of the last half minute.


@dataclasses.dataclass(frozen=True)
class Totals:
    """Sums since the process was started (times, env turns) or the run (steps).

    seconds: by name of keys.TIME_PARTS, without log and other. turns: vector steps, each of all halves.
    """

    agent_steps: int
    env_steps: int
    turns: int
    seconds: Mapping[str, float]


class Reporter:
    """Makes the metrics of each update and hands them to the log and the trackers."""

    def __init__(
        self,
        log: JsonLog,
        trackers: Trackers,
        usage: Usage,
        step_seconds: Callable[[], float | None],
        note: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Args: step_seconds: of the function below; note: told where the log is lost."""
        self.log, self.trackers, self.usage = log, trackers, usage
        self._step_seconds, self._note, self._clock = step_seconds, note, clock
        self._log_s = 0.0
        self._losing_lines = False
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
        """Count the time of the block as `log`: a checkpoint, or a report. `spans` and `restart` must not be called in it."""
        begin = self._clock()
        try:
            yield
        finally:
            self._log_s += self._clock() - begin

    def spans(self, totals: Totals) -> dict[str, float]:
        """Return what was done since the last report: `span_s`, rates, shares of the time, the overlap; then begin anew."""
        now, before = self._clock(), self.totals
        span = max(1e-9, now - self._at_s)
        seconds = {name: value - before.seconds.get(name, 0.0) for name, value in totals.seconds.items()}
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
        """Time of a roll-out / the longer of: policy, simulation. 1 is perfect; policy and simulation in turn give up to 2."""
        step_s = self._step_seconds()
        if step_s is None or turns <= 0:
            return {}
        policy_s = seconds["copy"] + seconds["forward"]
        return {keys.OVERLAP: (seconds["env"] + policy_s) / max(policy_s, step_s * turns, 1e-9)}

    def speed(self) -> float:
        """Agent-steps per second of this process, over the last half minute."""
        (first_s, first), (last_s, last) = self._points[0], self._points[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0

    def seconds_left(self, section: TrainSection, agent_steps: int, elapsed_s: float) -> float:
        """Seconds until the budget is used up, at the speed of now; infinite where nothing moves."""
        speed = self.speed()
        left = max(0, section.total_timesteps - agent_steps) / speed if speed > 0 else math.inf
        return min(left, max(0.0, section.time_limit_s - elapsed_s)) if section.time_limit_s > 0 else left

    def write(self, metrics: Mapping[str, float]) -> None:
        """Log a line and hand it to the trackers. A lost log is said once: it must not end a run that can still learn."""
        lost = not self.log.write(metrics)
        if lost and not self._losing_lines:
            self._note(f"cannot write metrics to {self.log.path}: {self.log.reason}; the run goes on without them")
        if not lost and self._losing_lines:
            self._note(f"metrics are written again; {self.log.dropped} lines were dropped")
        self._losing_lines = lost
        self.trackers.write(metrics)


def step_seconds(vec: Any) -> Callable[[], float | None]:
    """Return what tells how long the workers of `vec` took for their last vector step: for each half the slowest of them.

    A sample of one step, and only where there are workers and at least two halves to overlap; else it tells None.
    """
    if vec.num_buffers < 2 or not vec.workers.several:
        return lambda: None
    timing, halves = vec.timing, range(vec.num_buffers)

    def last() -> float:
        return sum(float((times[:, 1] - times[:, 0]).max()) for times in map(timing, halves)) * 1e-9

    return last
