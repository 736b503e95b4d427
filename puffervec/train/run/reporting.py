# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A line of metrics per update, and notes: to the log, the trackers and the dashboard. Runs in the learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from puffervec.host.output import printable
from puffervec.train.metrics import keys, trackers
from puffervec.train.metrics.dashboard import Dashboard, make_dashboard
from puffervec.train.metrics.log import RESUMED
from puffervec.train.metrics.progress import Reporter, Totals, step_seconds
from puffervec.train.metrics.usage import Usage
from puffervec.train.run.rundir import RunFiles
from puffervec.train.run.setup import Setup
from puffervec.train.run.state import Counters

ESTIMATE_AFTER_S = 20.0


class Reporting:
    """Where the metrics of a run go. Made last: a process with the threads of trackers is no good one to fork."""

    def __init__(
        self, setup: Setup, files: RunFiles, vec: Any, counters: Counters, about: str, dashboard: Dashboard | None
    ) -> None:
        """Args: about: the run in one line; dashboard: None: as `config.log.dashboard` says. Raises: ConfigError."""
        config, log = setup.config, setup.config.log
        self._config, self._log, metric = config, files.log, vec.env.training.metric
        opened = trackers.open_trackers(log, files.folder, counters.agent_steps, files.run_id, config.tables(), metric)
        self.dashboard = dashboard or make_dashboard(config, about, metric)
        self._trackers = trackers.Trackers(opened, log.print_interval_s, self.note)
        usage = Usage([process.pid for process in getattr(vec, "processes", ())], setup.device, log.print_interval_s)
        self.reporter = Reporter(files.log, self._trackers, usage, step_seconds(vec), self.note)
        # Where bf16 would have been used and cannot be, say early how long it will take.
        slow = setup.device.type == "cpu" and not setup.bf16
        self._solved_after = vec.env.training.solved_after if slow else 0
        if files.goes_on:
            files.log.mark(RESUMED, step=counters.agent_steps, update=counters.updates, elapsed_s=counters.elapsed_s)

    def note(self, text: str) -> None:
        """Show a message that stays."""
        self.dashboard.note(printable(text))

    def report(
        self, counters: Counters, totals: Totals, values: Mapping[str, float], progress: Callable[[], float]
    ) -> dict[str, float]:
        """Write and show one line of metrics; return it. The time since the last one goes into `counters`.

        Args: values: the metrics that others than the clocks give; progress: share of the budget that is used up.
        """
        reporter = self.reporter
        spans = reporter.spans(totals)
        with reporter.counted():  # Of the next span.
            counters.elapsed_s += spans[keys.SPAN_S]
            metrics = {
                keys.STEP: counters.agent_steps,
                keys.UPDATE: counters.updates,
                keys.ELAPSED_S: counters.elapsed_s,
                **spans,
                keys.SECONDS_LEFT: reporter.seconds_left(self._config.train, counters.agent_steps, counters.elapsed_s),
                **values,
                **reporter.usage.sample(),
            }
            reporter.write(metrics)
            self.dashboard.show(metrics, progress())
        if self._solved_after and counters.elapsed_s > ESTIMATE_AFTER_S:
            self.note(estimate(self._config.target, self._solved_after, reporter.speed()))
            self._solved_after = 0
        return metrics

    def flush(self) -> None:
        """Hand over what is held back, and say what was lost."""
        self._trackers.flush()
        if self._log.dropped:
            self.note(f"{self._log.dropped} lines of metrics were dropped: {self._log.path} lacks them")

    def close(self) -> None:
        """Leave the terminal as it was and close the trackers; may be called twice."""
        self.dashboard.close()
        self._trackers.close()


def estimate(target: str, steps: int, agent_steps_per_s: float) -> str:
    """Return a line on how long the preset will take where the CPU works in float32."""
    minutes = steps / max(1.0, agent_steps_per_s) / 60
    return (
        "note: this run works in float32; bf16 needs a CPU with avx512_bf16 or amx_bf16. The preset of"
        f" {target} does well after {steps:,} agent-steps: an estimated {minutes:.0f} min at the measured"
        f" {agent_steps_per_s:,.0f} agent-steps/s"
    )
