# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""With defaults an own C env learns as well as the same game in Python, as the log shows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from puffervec.train import TrainConfig, Trainer
from puffervec.train.act import evaluate
from puffervec.train.run import checkpoint as ckpt
from tests.libraries import install_env

# Gymnasium's CartPole-v1 by the short way: numbers as they are, a time limit of 500 steps, 1 per
# step times `reward`.
HEADER = """
#include <math.h>
#include <stdlib.h>
typedef struct { float episode_return; float episode_length; float n; } Log;
typedef struct {
    float* observations;
    int* actions;
    float* rewards;
    unsigned char* terminals;
    Log log;
    float reward;
    double state[4];
    int steps;
} Pole;
void c_reset(Pole* env);
void c_step(Pole* env);
void c_close(Pole* env);
void c_reset(Pole* env) {
    env->steps = 0;
    for (int i = 0; i < 4; i++) {
        env->state[i] = (double)rand() / RAND_MAX * 0.1 - 0.05;
        env->observations[i] = (float)env->state[i];
    }
}
void c_step(Pole* env) {
    double* s = env->state;
    const double sine = sin(s[2]), cosine = cos(s[2]);
    const double push = ((env->actions[0] == 1 ? 10.0 : -10.0) + 0.05 * s[3] * s[3] * sine) / 1.1;
    const double turn =
        (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1));
    const double pull = push - 0.05 * turn * cosine / 1.1;
    s[0] += 0.02 * s[1];
    s[1] += 0.02 * pull;
    s[2] += 0.02 * s[3];
    s[3] += 0.02 * turn;
    for (int i = 0; i < 4; i++) env->observations[i] = (float)s[i];
    env->rewards[0] = env->reward;
    env->terminals[0] = fabs(s[0]) > 2.4 || fabs(s[2]) > 12 * 2 * 3.14159265358979 / 360 ||
                        ++env->steps >= 500;
    if (!env->terminals[0]) return;
    env->log.episode_return += env->reward * (float)env->steps;
    env->log.episode_length += (float)env->steps;
    env->log.n += 1;
    c_reset(env);
}
void c_close(Pole* env) { (void)env; }
"""
GLUE = """
#define OCEAN_HEADER "pole.h"
#define OCEAN_NAME pole
#define OCEAN_ENV Pole
#define OCEAN_SETTINGS(INT, FLOAT) FLOAT(reward)
#define OCEAN_LOG(X) X(episode_return) X(episode_length)
#define OCEAN_OBSERVATION_DTYPE PV_F32
#define OCEAN_OBSERVATION_COUNT 4
#define OCEAN_OBSERVATION_LOW -INFINITY
#define OCEAN_OBSERVATION_HIGH INFINITY
#define OCEAN_ACTION_SIZES 2
#include "pv_ocean.h"
"""
STEPS, EPISODES = 120_000, 32


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("pole")
    (folder / "pole.h").write_text(HEADER)
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(install_env(folder, "pole", GLUE, "reward: float = 1.0"))
    yield
    patch.undo()
    sys.modules.pop("pole_package", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "env", "unit"),
    [("CartPole-v1", {}, 1.0), ("pole", {}, 1.0), ("pole", {"reward": 100.0}, 100.0)],
    ids=["Python", "C", "C with rewards of 100"],
)
def test_a_cartpole_is_balanced_with_defaults(
    target: str, env: dict[str, float], unit: float, tmp_path: Path
) -> None:
    config = TrainConfig.of(target, env=env).merged(
        {
            "vec": {
                "backend": "serial",
                "num_buffers": 1,
            },  # Who steps the envs changes nothing of what is learned.
            "train": {"total_timesteps": STEPS, "threads": 1, "device": "cpu"},
            "log": {"folder": str(tmp_path), "dashboard": "off", "checkpoint_interval_s": 1e9},
        }
    )
    with Trainer(config) as trainer:
        logged = trainer.train()["episode/return"]
    found, cpu = ckpt.newest(trainer.folder / "checkpoints"), torch.device("cpu")
    assert found is not None
    run, policies = evaluate.load_policies(found, cpu, (target,))
    config = run.config
    actor = evaluate.PolicyActor(policies, cpu, deterministic=True)
    if config.python:
        (rates,) = evaluate.evaluate_python(config, actor, EPISODES, seed=1000)
    else:
        (rates,) = evaluate.evaluate_generic(target, config.env, actor, EPISODES, seed=1000)
    assert rates.episode_return[0] > 475 * unit  # What Gymnasium calls solved.
    assert logged > 300 * unit  # Of drawn actions; a mean over all of the run would be far below.
