# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Declare every metric of a run: its name, unit, meaning, and the lines that contain it.

No other file spells out the name of a metric. To add one, add a line here, the number where it is
known (`Reporting.report`, or the part that measures it), and the line of the table in
docs/run-folder.md, which a test compares with this file. The dashboard and the plots read the rest
from here.

The numbers that an env records are `env/<name>`. Those of an algorithm are `losses/<name>`, or
`losses/<policy>/<name>` with several policies. Rates that differ between policies end in
`/<policy>`. Imports nothing heavy.
"""

from __future__ import annotations

import dataclasses

from puffervec.contract.training import RETURN

ENV, EPISODE, EVAL, LOSSES = "env/", "episode/", "eval/", "losses/"


@dataclasses.dataclass(frozen=True)
class Metric:
    """The description of a metric.

    Attributes:
        unit: As on the axis of a plot.
        present: Which lines contain it.
        averaged: Whether it is a rate or a share of the time since the previous line; dashboards
            show its mean over several lines.
        usual: Whether `puffer-train plot` plots it if no metrics are named.
    """

    unit: str
    meaning: str
    present: str = "always"
    averaged: bool = False
    usual: bool = False


METRICS: dict[str, Metric] = {}


def _declare(
    name: str,
    unit: str,
    meaning: str,
    present: str = "always",
    averaged: bool = False,
    usual: bool = False,
) -> str:
    METRICS[name] = Metric(unit, meaning, present, averaged, usual)
    return name


STEP = _declare("step", "agent-steps", "valid transitions so far, over all resumes")
UPDATE = _declare("update", "updates", "updates so far, over all resumes")
ELAPSED_S = _declare("elapsed_s", "s", "time of training so far, over all resumes")
SPAN_S = _declare("span_s", "s", "time since the previous line")

_ENDED = "once an episode has ended"
EPISODE_RETURN = _declare(
    RETURN, "sum of rewards", "mean return of the latest episodes", _ENDED, usual=True
)
_declare(
    f"{RETURN}/*",
    "sum of rewards",
    "the same for each agent type; in Python envs for each of several policies",
    _ENDED,
)
EPISODE_LENGTH = _declare(
    "episode/length", "steps", "mean length of the latest episodes", _ENDED, usual=True
)
_declare(
    f"{ENV}*",
    "the env's",
    "mean over the same episodes of what the env records; Python envs: mean of the numbers in "
    "their infos",
    "if the env records any",
)

_declare(
    f"{EVAL}*",
    "the evaluation's",
    "total of an evaluation while the run trains, by column; with several `eval.suites` by suite "
    "and column. `eval/of_step`: agent-steps of the evaluated checkpoint",
    "with `eval.every_s`, when an evaluation has ended",
)

_BOTH, _PPO = "with `train.algorithm ppo` and `a2c`", "with `train.algorithm ppo`"
_ANY = "with `train.algorithm ppo`, `a2c` and `clone`"
_CLONE, _KL = "with `train.algorithm clone`", "with `train.kl_to`"
_declare(
    "losses/policy",
    "loss",
    "clipped surrogate loss; a2c: -advantage x log-probability",
    _BOTH,
    usual=True,
)
_declare("losses/value", "loss", "value loss", _ANY, usual=True)
_declare("losses/entropy", "nats", "entropy of the policy", _ANY, usual=True)
_declare(
    "losses/approx_kl",
    "nats",
    "estimate of the KL divergence between the policies before and after the update",
    _PPO,
    usual=True,
)
_declare(
    "losses/clip_fraction",
    "share of the samples",
    "samples whose probability ratio is outside the clip range",
    _PPO,
)
_declare(
    "losses/cloning",
    "nats",
    "negative log-likelihood of the expert's actions",
    _CLONE,
    usual=True,
)
_declare(
    "losses/accuracy",
    "share of the samples",
    "samples in which the policy's most likely action is the expert's; continuous: within a "
    "twentieth of the range in all dims",
    _CLONE,
    usual=True,
)
_declare(
    "losses/kl_to_reference",
    "nats",
    "KL divergence from the policy to the reference, before the weight",
    _KL,
    usual=True,
)
OTHER_FIGURES = _declare(
    f"{LOSSES}*", "mean over samples", "the figures of another algorithm", "with another algorithm"
)
_declare("losses/grad_norm", "norm", "norm of the gradient before clipping")
_declare(
    "losses/explained_variance",
    "share of the variance",
    "variance of the returns that the values explain",
    usual=True,
)

AGENT_STEPS_PER_S = _declare(
    "charts/agent_steps_per_s",
    "agent-steps/s",
    "valid transitions per second since the previous line",
    averaged=True,
    usual=True,
)
ENV_STEPS_PER_S = _declare(
    "charts/env_steps_per_s",
    "env-steps/s",
    "env transitions per second since the previous line, whatever the number of agents",
    averaged=True,
)
SECONDS_LEFT = _declare(
    "charts/seconds_left",
    "s",
    "time until the budget is used up, at the speed of the last half minute",
)
LEARNING_RATE = _declare(
    "charts/learning_rate",
    "learning rate",
    "learning rate of the next update; one metric per policy where they differ: "
    "`charts/learning_rate/POLICY`",
)
ENTROPY_COEF = _declare(
    "charts/entropy_coef",
    "weight",
    "weight of the entropy bonus in the next update; one metric per policy where they differ",
)
KL_WEIGHT = _declare(
    "charts/kl_weight",
    "weight",
    "weight of the KL term in the next update; one metric per policy where they differ",
    _KL,
)
REWARD_LIMIT = _declare(
    "charts/reward_limit",
    "reward",
    "largest magnitude of a reward in the next update; one metric per policy where they differ",
    "with `train.reward_limit`",
)
OVERLAP = _declare(
    "charts/overlap",
    "ratio",
    "time of the rollout / the longer of policy and simulation; 1: the shorter one is hidden, 2: "
    "they alternate",
    "with workers and two buffers",
    averaged=True,
)


def _share(part: str, meaning: str) -> str:
    return _declare(f"time/{part}", "share of the time", meaning, averaged=True)


# The learner's activities by name; the shares add up to 1.
TIME_PARTS = {
    "env": _share("env", "waiting for envs"),
    "copy": _share(
        "copy", "copying rows into the rollout; on CUDA: queueing the policy's work on the device"
    ),
    "forward": _share("forward", "running the policy; on CUDA: waiting for its actions"),
    "update": _share("update", "computing advantages and gradient steps"),
    "log": _share("log", "writing checkpoints, writing and showing metrics"),
    "other": _share(
        "other",
        "the rest; not clipped at 0, so that a negative value reveals an error in the others",
    ),
}

_RAY = "with `--ray`"
RAY_HOSTS = _declare("ray/hosts", "hosts", "hosts that collect rollouts", _RAY)
RAY_LAG = _declare(
    "ray/lag",
    "updates",
    "mean age of the weights that the update's segments were collected with",
    _RAY,
)
RAY_DROPPED = _declare(
    "ray/dropped", "segments", "segments dropped as too old (`ray.max_lag`), since the start", _RAY
)
RAY_DEATHS = _declare(
    "ray/deaths", "hosts", "hosts that died and were restarted, since the start", _RAY
)
RAY_BYTES = _declare(
    "ray/bytes_per_agent_step", "bytes", "bytes of segments per valid transition", _RAY
)
RAY_HOST_SPEED = _declare(
    "ray/host_agent_steps_per_s",
    "agent-steps/s",
    "speed of one host while it collects",
    _RAY,
    averaged=True,
)

LEARNER_CORES = _declare(
    "usage/learner_cores", "cores", "CPU seconds per second of the process that trains"
)
LEARNER_MEMORY = _declare(
    "usage/learner_memory_mib",
    "MiB",
    "resident memory of that process; memory that it shares with workers counts in both",
)
_WORKERS, _CUDA = "with worker processes", "on CUDA"
WORKER_CORES = _declare(
    "usage/worker_cores", "cores", "CPU seconds per second of all worker processes", _WORKERS
)
WORKER_MEMORY = _declare(
    "usage/worker_memory_mib", "MiB", "resident memory of all worker processes", _WORKERS
)
GPU_MEMORY = _declare("usage/gpu_memory_mib", "MiB", "GPU memory that the run has reserved", _CUDA)
GPU_MEMORY_SHARE = _declare(
    "usage/gpu_memory_share", "share", "share of the GPU's memory in use, by any process", _CUDA
)
GPU_SHARE = _declare(
    "usage/gpu_share",
    "share of the time",
    "time in which the GPU was busy",
    "on CUDA, with `pip install 'puffervec[gpu]'`",
)


def rates_policy(name: str) -> bool:
    """Return whether a metric is the score or the return of an evaluation while the run trains."""
    return name.startswith(EVAL) and name.endswith(("score", "return"))


def base(key: str) -> str:
    """Return the name of a metric without its policy.

    losses/<policy>/<name> becomes losses/<name>, and <metric>/<policy> becomes <metric>; other
    names stay as they are.
    """
    if key.startswith(LOSSES):
        return LOSSES + key.rpartition("/")[2]
    head = key.rpartition("/")[0]
    return head if head in METRICS else key
