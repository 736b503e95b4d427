# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PPO over Gymnasium's vector env in plain torch, like one-file implementations.

It is a peer in bench/peers_train.py. Everything runs in the learner's process: the envs step one
after another, each step makes tensors from arrays and reads actions back, minibatches are gathered
by shuffled indices, and Adam runs with its defaults.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Distribution, Independent, Normal


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that the peers share.

    Attributes:
        steps: budget of all envs together.
        minibatches: minibatches per epoch.
    """

    env_id: str
    steps: int
    seed: int
    num_envs: int = 16
    horizon: int = 128
    epochs: int = 6
    minibatches: int = 8
    lr: float = 1e-3
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.005
    value: float = 0.5
    max_grad_norm: float = 1.0
    width: int = 64


class Agent(nn.Module):
    """Networks of policy and value, with two hidden layers each.

    The standard deviation of continuous actions is learned.
    """

    def __init__(self, observation: Any, action: Any, width: int) -> None:
        super().__init__()
        self.discrete = isinstance(action, gymnasium.spaces.Discrete)
        outputs = int(action.n) if self.discrete else int(np.prod(action.shape))
        features = int(np.prod(observation.shape))
        self.actor, self.critic = (
            _network(features, outputs, width, 0.01),
            _network(features, 1, width, 1.0),
        )
        self.log_std = nn.Parameter(torch.zeros(outputs))

    def policy(self, obs: Tensor) -> Distribution:
        """Return the distribution of actions."""
        if self.discrete:
            return Categorical(logits=self.actor(obs))
        return Independent(Normal(self.actor(obs), self.log_std.exp()), 1)

    def value(self, obs: Tensor) -> Tensor:
        """Return the expected return, one number per row."""
        return self.critic(obs).squeeze(1)

    @torch.no_grad()
    def greedy(self, obs: np.ndarray) -> np.ndarray:
        """Return the most probable actions, in the env's format."""
        chosen = self.actor(torch.as_tensor(obs, dtype=torch.float32))
        return (chosen.argmax(-1) if self.discrete else chosen).numpy()


def _network(features: int, outputs: int, width: int, last_gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, size, gain in (
        (features, width, 2**0.5),
        (width, width, 2**0.5),
        (width, outputs, last_gain),
    ):
        linear = nn.Linear(inputs, size)
        nn.init.orthogonal_(linear.weight, gain)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def make_envs(settings: Settings) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Return the vector env. As usual, rewards of continuous tasks are scaled."""
    same_step = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    envs: Any = gymnasium.make_vec(
        settings.env_id, settings.num_envs, vectorization_mode="sync", vector_kwargs=same_step
    )
    if isinstance(envs.single_action_space, gymnasium.spaces.Box):
        envs = gymnasium.wrappers.vector.ClipAction(envs)
        envs = gymnasium.wrappers.vector.NormalizeReward(envs, gamma=settings.gamma)
    return envs


def train(settings: Settings) -> Agent:
    """Train an agent for the budget of steps."""
    torch.manual_seed(settings.seed)
    envs = make_envs(settings)
    agent = Agent(envs.single_observation_space, envs.single_action_space, settings.width)
    optimizer = torch.optim.Adam(agent.parameters(), lr=settings.lr, eps=1e-5)
    obs = torch.as_tensor(envs.reset(seed=settings.seed)[0], dtype=torch.float32)
    updates = max(1, settings.steps // (settings.num_envs * settings.horizon))
    for number in range(updates):
        optimizer.param_groups[0]["lr"] = settings.lr * (1 - number / updates)
        batch, obs = collect(envs, agent, obs, settings)
        update(
            agent,
            optimizer,
            batch,
            advantages(batch, agent.value(obs).detach(), settings),
            settings,
        )
    envs.close()
    return agent


@torch.no_grad()
def collect(
    envs: Any, agent: Agent, obs: Tensor, settings: Settings
) -> tuple[dict[str, Tensor], Tensor]:
    """Step every env `horizon` times; return columns (horizon, envs, ...) and next observations."""
    rows = []
    for _ in range(settings.horizon):
        distribution = agent.policy(obs)
        actions = distribution.sample()
        row = {
            "obs": obs,
            "actions": actions,
            "log_probs": distribution.log_prob(actions),
            "values": agent.value(obs),
        }
        next_obs, rewards, terminations, truncations, infos = envs.step(actions.numpy())
        cut = truncations & ~terminations
        if (
            cut.any()
        ):  # A time limit does not end the task: bootstrap with the value of the last observation.
            last = torch.as_tensor(np.stack(infos["final_obs"][cut]), dtype=torch.float32)
            rewards = np.array(rewards)
            rewards[cut] += settings.gamma * agent.value(last).numpy()
        row["rewards"] = torch.as_tensor(rewards, dtype=torch.float32)
        row["dones"] = torch.as_tensor(terminations | truncations, dtype=torch.float32)
        rows.append(row)
        obs = torch.as_tensor(next_obs, dtype=torch.float32)
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}, obs


def advantages(batch: dict[str, Tensor], next_values: Tensor, settings: Settings) -> Tensor:
    """Return generalised advantage estimates, (horizon, envs).

    Source: Schulman et al. 2016, equation 16.
    """
    result, last = torch.zeros_like(batch["rewards"]), torch.zeros_like(next_values)
    for t in reversed(range(settings.horizon)):
        going_on = 1.0 - batch["dones"][t]
        delta = batch["rewards"][t] + settings.gamma * going_on * next_values - batch["values"][t]
        last = delta + settings.gamma * settings.gae_lambda * going_on * last
        result[t], next_values = last, batch["values"][t]
    return result


def update(
    agent: Agent, optimizer: Any, batch: dict[str, Tensor], advantage: Tensor, settings: Settings
) -> None:
    """Improve the agent with one rollout. Source: Schulman et al. 2017, equations 7 and 9."""
    obs, actions, old, values = (
        batch[name].flatten(0, 1) for name in ("obs", "actions", "log_probs", "values")
    )
    advantage = advantage.flatten()
    targets = advantage + values
    for _ in range(settings.epochs):
        for part in torch.randperm(len(obs)).chunk(settings.minibatches):
            distribution = agent.policy(obs[part])
            scaled = (advantage[part] - advantage[part].mean()) / (advantage[part].std() + 1e-8)
            ratio = (distribution.log_prob(actions[part]) - old[part]).exp()
            gain = torch.min(
                ratio * scaled, ratio.clamp(1 - settings.clip, 1 + settings.clip) * scaled
            ).mean()
            value_loss = (agent.value(obs[part]) - targets[part]).square().mean() / 2
            loss = (
                settings.value * value_loss
                - gain
                - settings.entropy * distribution.entropy().mean()
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), settings.max_grad_norm)
            optimizer.step()
