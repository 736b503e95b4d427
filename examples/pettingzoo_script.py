# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Play Tag through PettingZoo's parallel API: random taggers, and taggers that chase the runner.

pip install 'puffervec[pettingzoo]'
python examples/pettingzoo_script.py --episodes 50
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from puffervec.pettingzoo import ParallelEnv, parallel_env

RIGHT, LEFT, UP, DOWN = 1, 2, 3, 4


def chase(observation: np.ndarray) -> int:
    """Walk towards the runner along the longer axis. The observation has the tagger's x and y, then
    the runner's.
    """
    away_x, away_y = observation[2:4] - observation[0:2]
    if abs(away_x) >= abs(away_y):
        return RIGHT if away_x > 0 else LEFT
    return UP if away_y > 0 else DOWN


def play(env: ParallelEnv, seed: int, chasing: bool) -> tuple[bool, int]:
    """Play one episode. Returns whether the runner was tagged, and after how many steps the episode
    ended.
    """
    observations, _ = env.reset(seed=seed)
    steps, tagged = 0, False
    while env.agents:
        actions: dict[str, Any] = {agent: env.action_space(agent).sample() for agent in env.agents}
        if chasing:
            actions |= {
                agent: chase(observations[agent])
                for agent in env.agents
                if agent.startswith("tagger")
            }
        observations, _, terminations, _, _ = env.step(actions)
        steps, tagged = steps + 1, any(terminations.values())
    return tagged, steps


def main() -> None:
    """Print how often and how soon each kind of tagger tags the runner."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--taggers", type=int, default=2)
    parser.add_argument("--grid", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    env = parallel_env(
        "tag_grid",
        num_taggers=args.taggers,
        grid_length=args.grid,
        use_full_observation=False,
        random_starts=True,
    )
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(args.seed + i)
    for name, chasing in (("random", False), ("chasing", True)):
        played = [play(env, args.seed + episode, chasing) for episode in range(args.episodes)]
        share, steps = (
            np.mean([tagged for tagged, _ in played]),
            np.mean([steps for _, steps in played]),
        )
        print(
            f"{name} taggers: runner tagged in {share:.0%} of {len(played)} episodes, {steps:.1f} "
            "steps each"
        )
    env.close()


if __name__ == "__main__":
    main()
