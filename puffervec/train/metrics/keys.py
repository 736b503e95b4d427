# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Every metric of a run: its key, its unit, what it means and when it is there. The one place where
a key is written down.

To add one: a line here, the number where it is known (`Reporting.report`, or the part that measures
it), and the line of the table in docs/run-folder.md, which a test compares with this one. The
dashboard and plots take it from there.

The numbers that an env records are `env/<name>`; those of an algorithm `losses/<name>`, with
several policies `losses/<policy>/<name>`; rates that differ between policies have `/<policy>`
behind their key. Imports nothing heavy.
"""

from __future__ import annotations

import dataclasses

from puffervec.contract.training import RETURN

ENV, EPISODE, LOSSES = "env/", "episode/", "losses/"


@dataclasses.dataclass(frozen=True)
class Metric:
    """What is known of a key.

    Attributes:
        unit: as on the axis of a plot.
        there: in which lines it is.
        averaged: a rate or share of the time since the line before: people are shown means over
        several lines.
        usual: drawn where a user of `puffer-train plot` names no metrics.
    """

    unit: str
    meaning: str
    there: str = "always"
    averaged: bool = False
    usual: bool = False


METRICS: dict[str, Metric] = {}


def _key(
    key: str,
    unit: str,
    meaning: str,
    there: str = "always",
    averaged: bool = False,
    usual: bool = False,
) -> str:
    METRICS[key] = Metric(unit, meaning, there, averaged, usual)
    return key


STEP = _key("step", "agent-steps", "valid transitions so far, over all resumes")
UPDATE = _key("update", "updates", "updates so far, over all resumes")
ELAPSED_S = _key("elapsed_s", "s", "time of training so far, over all resumes")
SPAN_S = _key("span_s", "s", "time since the previous line")

_ENDED = "once an episode has ended"
EPISODE_RETURN = _key(
    RETURN, "sum of rewards", "mean return of the latest episodes", _ENDED, usual=True
)
_key(
    f"{RETURN}/*",
    "sum of rewards",
    "likewise of each agent type, in Python envs of each of several policies",
    _ENDED,
)
EPISODE_LENGTH = _key(
    "episode/length", "steps", "mean length of the latest episodes", _ENDED, usual=True
)
_key(
    f"{ENV}*",
    "the env's",
    "means over the same episodes of what the env records itself; Python envs: means over numbers "
    "in their infos",
    "where the env has any",
)

_BOTH, _PPO = "with `train.algorithm ppo` and `a2c`", "with `train.algorithm ppo`"
_key(
    "losses/policy",
    "loss",
    "clipped surrogate loss; a2c: - advantage x log-probability",
    _BOTH,
    usual=True,
)
_key("losses/value", "loss", "value loss", _BOTH, usual=True)
_key("losses/entropy", "nats", "entropy of the policy", _BOTH, usual=True)
_key(
    "losses/approx_kl",
    "nats",
    "how far the update moved the policy: estimate of the KL divergence",
    _PPO,
    usual=True,
)
_key(
    "losses/clip_fraction",
    "share of the samples",
    "samples whose probability ratio left the clip range",
    _PPO,
)
OTHER_FIGURES = _key(
    f"{LOSSES}*", "mean over samples", "the figures of another algorithm", "with another algorithm"
)
_key("losses/grad_norm", "norm", "norm of the gradient, before it is clipped")
_key(
    "losses/explained_variance",
    "share of the variance",
    "variance of returns that the values explain",
    usual=True,
)

AGENT_STEPS_PER_S = _key(
    "charts/agent_steps_per_s",
    "agent-steps/s",
    "valid transitions per second since the previous line",
    averaged=True,
    usual=True,
)
ENV_STEPS_PER_S = _key(
    "charts/env_steps_per_s",
    "env-steps/s",
    "transitions of envs per second since the previous line, for any number of agents",
    averaged=True,
)
SECONDS_LEFT = _key(
    "charts/seconds_left",
    "s",
    "time until the budget is used up, at the speed of the last half minute",
)
LEARNING_RATE = _key(
    "charts/learning_rate",
    "step size",
    "step size of the next update; a line per policy where they differ: "
    "`charts/learning_rate/POLICY`",
)
ENTROPY_COEF = _key(
    "charts/entropy_coef", "weight", "weight of the entropy bonus in the next update, likewise"
)
OVERLAP = _key(
    "charts/overlap",
    "ratio",
    "time of the roll-out / the longer of policy and simulation; 1: the shorter one is hidden, 2: "
    "they went in turn",
    "with workers and two buffers",
    averaged=True,
)


def _share(part: str, meaning: str) -> str:
    return _key(f"time/{part}", "share of the time", meaning, averaged=True)


# What the learner does, by name; the shares add up to 1.
TIME_PARTS = {
    "env": _share("env", "waiting for envs"),
    "copy": _share(
        "copy", "copying rows into the roll-out; on CUDA: handing the policy's work to the device"
    ),
    "forward": _share("forward", "the policy acts; on CUDA: waiting for its actions"),
    "update": _share("update", "advantages are made and the policy learns"),
    "log": _share("log", "checkpoints and metrics are written and shown"),
    "other": _share(
        "other",
        "the rest. It is never cut off at 0, so one below 0 would show a mistake in the others",
    ),
}

_RAY = "with `--ray`"
RAY_HOSTS = _key("ray/hosts", "hosts", "hosts that play", _RAY)
RAY_LAG = _key(
    "ray/lag",
    "updates",
    "how many updates older the weights of the segments learned from were, on average",
    _RAY,
)
RAY_DROPPED = _key(
    "ray/dropped", "segments", "segments that were too old (`ray.max_lag`), since the start", _RAY
)
RAY_DEATHS = _key("ray/deaths", "hosts", "hosts that died and began again, since the start", _RAY)
RAY_BYTES = _key(
    "ray/bytes_per_agent_step", "bytes", "bytes of segments per valid transition", _RAY
)
RAY_HOST_SPEED = _key(
    "ray/host_agent_steps_per_s",
    "agent-steps/s",
    "what one host plays while it plays",
    _RAY,
    averaged=True,
)

LEARNER_CORES = _key(
    "usage/learner_cores", "cores", "CPU seconds per second of the process that trains"
)
LEARNER_MEMORY = _key(
    "usage/learner_memory_mib",
    "MiB",
    "its resident memory; what it shares with workers counts in both",
)
_WORKERS, _CUDA = "with worker processes", "on CUDA"
WORKER_CORES = _key(
    "usage/worker_cores", "cores", "CPU seconds per second of all worker processes", _WORKERS
)
WORKER_MEMORY = _key("usage/worker_memory_mib", "MiB", "their resident memory", _WORKERS)
GPU_MEMORY = _key("usage/gpu_memory_mib", "MiB", "GPU memory that the run holds", _CUDA)
GPU_MEMORY_SHARE = _key(
    "usage/gpu_memory_share", "share", "the GPU's memory that is in use, by whomever", _CUDA
)
GPU_SHARE = _key(
    "usage/gpu_share",
    "share of the time",
    "time in which the GPU was busy",
    "on CUDA, with `pip install 'puffervec[gpu]'`",
)


def base(key: str) -> str:
    """Return losses/<name> for losses/<policy>/<name>, <key> for <key>/<policy>, and other keys as
    they are.
    """
    if key.startswith(LOSSES):
        return LOSSES + key.rpartition("/")[2]
    head = key.rpartition("/")[0]
    return head if head in METRICS else key
