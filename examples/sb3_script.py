# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Train Stable-Baselines3's PPO on envs of puffervec; only the marked import differs.

pip install 'puffervec[sb3]'
python examples/sb3_script.py                              # CartPole-v1 in Python, in workers
python examples/sb3_script.py --env cartpole --n-envs 16   # the same game in C
python examples/sb3_script.py --env tag_grid --n-envs 4    # many agents share the policy
"""

from __future__ import annotations

import argparse

import numpy as np
from stable_baselines3 import PPO

from puffervec.sb3 import make_vec_env  # was: from stable_baselines3.common.env_util import ...


def mean_return(model: PPO) -> float:
    """Return the mean return of the last 100 episodes."""
    return float(np.mean([episode["r"] for episode in model.ep_info_buffer or []]))


def main() -> None:
    """Train, and print how the mean return of the last 100 episodes changed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--env", default="CartPole-v1", help="a Gymnasium id, or the name of a C env"
    )
    parser.add_argument("--n-envs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    venv = make_vec_env(args.env, n_envs=args.n_envs, seed=args.seed)
    model = PPO(
        "MlpPolicy",
        venv,
        n_steps=64,
        batch_size=256,
        gamma=0.98,
        learning_rate=1e-3,
        seed=args.seed,
        device="cpu",
    )
    first = args.steps // 10
    model.learn(first)
    begin = mean_return(model)
    model.learn(args.steps - first, reset_num_timesteps=False)
    print(
        f"{args.env}, {venv.num_envs} rows: mean return {begin:.2f} after {first} steps, "
        f"{mean_return(model):.2f} at the end"
    )
    venv.close()


if __name__ == "__main__":
    main()
