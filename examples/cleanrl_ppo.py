# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PPO in one file over `make_vec`, for any env with a Box observation and discrete actions.

    python examples/cleanrl_ppo.py                                   CartPole-v1 in workers
    python examples/cleanrl_ppo.py --env-id Acrobot-v1 --total-steps 300000
    python examples/cleanrl_ppo.py --env-id puffervec/CartPole-v1    the same game, written in C

It needs tyro (`pip install tyro`). Only the marked line differs from a script for Gymnasium.
Autoreset is "SameStep": a done env already shows the first observation of its next episode, so
every row is a transition; the last observation is in `infos["final_obs"]`.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
import tyro
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from torch import Tensor, nn
from torch.distributions import Categorical

import puffervec


@dataclass
class Args:
    """Settings; each is a flag."""

    env_id: str = "CartPole-v1"  # Any Gymnasium id.
    seed: int = 1  # Seed of envs, weights and sampling.
    device: str = "cpu"  # Where the policy runs: cpu or cuda.
    num_envs: int = 16  # Envs that step together.
    horizon: int = 64  # Steps of each env between two updates.
    total_steps: int = 100_000  # Steps of all envs together.
    learning_rate: float = 1.5e-3  # Learning rate; falls to zero over the run.
    gamma: float = 0.99  # Discount.
    gae_lambda: float = 0.95  # 0: one-step advantages; 1: whole returns.
    epochs: int = 6  # Passes over each rollout.
    minibatches: int = 4  # Gradient steps per pass.
    clip: float = 0.2  # Bound on the change of a probability ratio.
    entropy: float = 0.005  # Weight of the entropy bonus.
    value: float = 0.5  # Weight of the value loss.
    max_grad_norm: float = 0.5  # Gradients are scaled down to this norm.


def make_envs(args: Args) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Return the vector env, whose infos have the return of each finished episode."""
    mode: dict[str, Any] = {"autoreset_mode": "SameStep"}
    if not args.env_id.startswith("puffervec/"):  # C envs have a vector env of their own
        mode = {"vectorization_mode": "async", "vector_kwargs": mode}
    envs = puffervec.make_vec(
        args.env_id, num_envs=args.num_envs, **mode
    )  # the changed line: was gymnasium.make_vec
    return RecordEpisodeStatistics(envs)


class Agent(nn.Module):
    """A policy and a value function, two small networks."""

    def __init__(self, features: int, actions: int) -> None:
        super().__init__()
        self.actor, self.critic = network(features, actions, 0.01), network(features, 1, 1.0)

    def policy(self, obs: Tensor) -> Categorical:
        """Return the distribution of actions."""
        return Categorical(logits=self.actor(obs.flatten(1).float()))

    def value(self, obs: Tensor) -> Tensor:
        """Return the expected return of each row."""
        return self.critic(obs.flatten(1).float()).squeeze(1)


def network(features: int, outputs: int, last_gain: float) -> nn.Sequential:
    """Return a network with two hidden layers; `last_gain` scales the initial weights of its last
    layer.
    """
    sizes, gains = (features, 64, 64, outputs), (2**0.5, 2**0.5, last_gain)
    layers: list[nn.Module] = []
    for i, gain in enumerate(gains):
        linear = nn.Linear(sizes[i], sizes[i + 1])
        nn.init.orthogonal_(linear.weight, gain)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


@torch.no_grad()
def collect(
    envs: Any, agent: Agent, obs: Tensor, args: Args
) -> tuple[dict[str, Tensor], Tensor, list[float]]:
    """Step every env `horizon` times. Returns columns (horizon, envs, ...), the next observation,
    and the returns of ended episodes.
    """
    rows: list[dict[str, Tensor]] = []
    returns: list[float] = []
    for _ in range(args.horizon):
        distribution = agent.policy(obs)
        actions = distribution.sample()
        row = {
            "obs": obs,
            "actions": actions,
            "log_probs": distribution.log_prob(actions),
            "values": agent.value(obs),
        }
        shown, rewards, terminations, truncations, infos = envs.step(actions.cpu().numpy())
        cut = truncations & ~terminations
        if (
            cut.any()
        ):  # a time limit is no end of the game: add the value of what would have followed
            final = torch.as_tensor(np.stack(infos["final_obs"][cut]), device=args.device)
            rewards[cut] += args.gamma * agent.value(final).cpu().numpy()
        if "episode" in infos:
            returns += infos["episode"]["r"][infos["_episode"]].tolist()
        row["rewards"] = torch.as_tensor(rewards, dtype=torch.float32, device=args.device)
        row["dones"] = torch.as_tensor(
            terminations | truncations, dtype=torch.float32, device=args.device
        )
        rows.append(row)
        obs = torch.as_tensor(shown, device=args.device)
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}, obs, returns


@torch.no_grad()
def advantages(batch: dict[str, Tensor], next_values: Tensor, args: Args) -> Tensor:
    """Return generalised advantage estimates, (horizon, envs). Source: Schulman et al. 2016,
    equation 16.
    """
    found, last = torch.zeros_like(batch["rewards"]), torch.zeros_like(next_values)
    for t in reversed(range(args.horizon)):
        going_on = 1.0 - batch["dones"][t]
        delta = batch["rewards"][t] + args.gamma * going_on * next_values - batch["values"][t]
        last = delta + args.gamma * args.gae_lambda * going_on * last
        found[t], next_values = last, batch["values"][t]
    return found


def update(
    agent: Agent,
    optimizer: torch.optim.Optimizer,
    batch: dict[str, Tensor],
    advantage: Tensor,
    args: Args,
) -> None:
    """Improve the agent with one rollout. Source: Schulman et al. 2017, equations 7 and 9."""
    obs, actions, old, values = (
        batch[name].flatten(0, 1) for name in ("obs", "actions", "log_probs", "values")
    )
    advantage = advantage.flatten()
    targets = advantage + values
    for _ in range(args.epochs):
        for part in torch.randperm(len(obs), device=args.device).chunk(args.minibatches):
            distribution = agent.policy(obs[part])
            scaled = (advantage[part] - advantage[part].mean()) / (advantage[part].std() + 1e-8)
            ratio = (distribution.log_prob(actions[part]) - old[part]).exp()
            gain = torch.min(
                ratio * scaled, ratio.clamp(1 - args.clip, 1 + args.clip) * scaled
            ).mean()
            value_loss = (agent.value(obs[part]) - targets[part]).square().mean() / 2
            loss = args.value * value_loss - gain - args.entropy * distribution.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()


def main() -> None:
    """Train and print the progress."""
    args = tyro.cli(Args)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the networks are small, and the other cores belong to the workers
    envs = make_envs(args)
    space, choices = envs.single_observation_space, envs.single_action_space
    assert isinstance(space, gymnasium.spaces.Box) and isinstance(
        choices, gymnasium.spaces.Discrete
    )
    agent = Agent(int(np.prod(space.shape)), int(choices.n)).to(args.device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    obs = torch.as_tensor(envs.reset(seed=args.seed)[0], device=args.device)
    updates = args.total_steps // (args.num_envs * args.horizon)
    begin, last = time.perf_counter(), float("nan")
    for number in range(1, updates + 1):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - (number - 1) / updates)
        batch, obs, returns = collect(envs, agent, obs, args)
        update(agent, optimizer, batch, advantages(batch, agent.value(obs).detach(), args), args)
        steps, last = (
            number * args.num_envs * args.horizon,
            float(np.mean(returns)) if returns else last,
        )
        rate = steps / (time.perf_counter() - begin)
        print(
            f"step {steps}: mean return {last:.2f} ({len(returns)} episodes), {rate:,.0f} steps/s",
            flush=True,
        )
    envs.close()


if __name__ == "__main__":
    main()
