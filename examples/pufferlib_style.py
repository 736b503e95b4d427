# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PPO on CartPole in the style of PufferLib: make, async_reset, recv and send, one changed import.

    python examples/pufferlib_style.py --updates 60

Half of the envs step while the policy works on the other half. A done row is followed by its reset
row. Between the two there is no transition (the action is ignored), so `valid` leaves it out.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
import torch

import puffervec.compat.pufferlib as pufferlib  # the one changed line

GAMMA, LAMBDA, CLIP, ENTROPY, VALUE, EPOCHS, MINIBATCHES = 0.98, 0.95, 0.2, 0.005, 0.5, 6, 4


def make_env(buf: Any = None, seed: int = 0) -> Any:
    """Make one env. PufferLib passes the rows to write into, and a seed."""
    env = pufferlib.EpisodeStats(gymnasium.make("CartPole-v1"))
    return pufferlib.emulation.GymnasiumPufferEnv(env=env, buf=buf, seed=seed)


def make_storage(vecenv: Any, horizon: int) -> dict[str, torch.Tensor]:
    """A rollout, (horizon + 1, envs): step t has the observation, reward and flags received, and
    the action chosen.
    """
    shape = (horizon + 1, vecenv.num_agents)
    columns = {
        name: torch.zeros(shape)
        for name in ("log_probs", "values", "rewards", "terminals", "dones")
    }
    columns["obs"] = torch.zeros(*shape, *vecenv.single_observation_space.shape)
    return {**columns, "actions": torch.zeros(shape, dtype=torch.int32)}


@torch.no_grad()
def collect(
    vecenv: Any, policy: torch.nn.Module, storage: dict[str, torch.Tensor], begin: int
) -> list[float]:
    """Fill the steps from `begin` on; step 0 is the last one of the previous rollout. Returns the
    returns of episodes.
    """
    returns = []
    for column in storage.values():
        column[0] = column[-1]
    for t in range(begin, len(storage["obs"])):
        for _ in range(vecenv.num_agents // vecenv.agents_per_batch):
            obs, rewards, terminals, truncations, infos, ids, _ = vecenv.recv()
            logits, values = policy(torch.as_tensor(obs))
            actions, log_probs, _ = pufferlib.pytorch.sample_logits(logits)
            row = {
                "obs": obs,
                "rewards": rewards,
                "terminals": terminals,
                "dones": terminals | truncations,
            }
            row |= {"actions": actions, "log_probs": log_probs, "values": values[:, 0]}
            for name, value in row.items():
                storage[name][t, ids] = torch.as_tensor(value).to(storage[name].dtype)
            vecenv.send(actions.numpy())
            returns += [info["episode_return"] for info in infos if "episode_return" in info]
    return returns


def advantages(storage: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return generalised advantage estimates (horizon, envs); a truncated row bootstraps from its
    own observation.
    """
    values, dones = storage["values"], storage["dones"]
    found, last = torch.zeros_like(values[:-1]), torch.zeros_like(values[0])
    for t in reversed(range(len(found))):
        next_value = values[t + 1] * (1 - storage["terminals"][t + 1])
        delta = storage["rewards"][t + 1] + GAMMA * next_value - values[t]
        last = (delta + GAMMA * LAMBDA * (1 - dones[t + 1]) * last) * (1 - dones[t])
        found[t] = last
    return found


def update(
    policy: torch.nn.Module, optimizer: torch.optim.Optimizer, storage: dict[str, torch.Tensor]
) -> None:
    """Train some epochs of clipped PPO on the valid transitions."""
    valid = storage["dones"][:-1].flatten() == 0
    columns = (storage[name][:-1] for name in ("obs", "actions", "log_probs", "values"))
    obs, actions, old, values = (column.flatten(0, 1)[valid] for column in columns)
    advantage = advantages(storage).flatten()[valid]
    targets, advantage = (
        advantage + values,
        (advantage - advantage.mean()) / (advantage.std() + 1e-8),
    )
    for _ in range(EPOCHS):
        for part in torch.randperm(len(obs)).chunk(MINIBATCHES):
            logits, new_values = policy(obs[part])
            _, log_probs, entropy = pufferlib.pytorch.sample_logits(logits, action=actions[part])
            ratio = (log_probs - old[part]).exp()
            gain = torch.min(
                ratio * advantage[part], ratio.clamp(1 - CLIP, 1 + CLIP) * advantage[part]
            ).mean()
            loss = (
                VALUE * (new_values[:, 0] - targets[part]).square().mean()
                - gain
                - ENTROPY * entropy.mean()
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()


def main() -> None:
    """Train and print the mean return of the episodes that ended in each rollout."""
    parser = argparse.ArgumentParser()
    for name, default in (("updates", 60), ("num-envs", 16), ("horizon", 64), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--backend", default="Multiprocessing", choices=("Multiprocessing", "Serial")
    )
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # a small policy; the other cores belong to the workers
    batch = {"num_workers": 2, "batch_size": "auto"} if args.backend == "Multiprocessing" else {}
    vecenv = pufferlib.vector.make(make_env, backend=args.backend, num_envs=args.num_envs, **batch)
    policy = pufferlib.models.Default(vecenv.driver_env, hidden_size=64)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    storage = make_storage(vecenv, args.horizon)
    vecenv.async_reset(args.seed)
    for number in range(1, args.updates + 1):
        returns = collect(vecenv, policy, storage, begin=0 if number == 1 else 1)
        update(policy, optimizer, storage)
        if returns:
            print(
                f"update {number}: {len(returns)} episodes, mean return {np.mean(returns):.1f}",
                flush=True,
            )
    vecenv.close()


if __name__ == "__main__":
    main()
