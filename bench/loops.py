# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A tutorial's PPO loop in plain PyTorch, with which bench/train.py compares the trainer.

It trains the same policy in the same envs with the same settings. Each step makes new tensors,
which are stacked at the end; statistics are read back at once; distributions are `Categorical`;
advantages are computed step by step; rows without an agent are masked in the loss. Envs have one
group of flat observations and discrete actions. Runs in the learner.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from bench import runs
from puffervec.errors import ConfigError
from puffervec.system.cores import usable_cores
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import choose_device
from puffervec.train.learn.advantage import Discount, Steps
from puffervec.train.learn.samples import largest
from puffervec.train.policies.registry import build_policy
from puffervec.train.run.setup import make_vec


class Loop:
    """Workers, a policy and an optimizer."""

    def __init__(self, config: TrainConfig) -> None:
        """Start the workers. Raises: ConfigError: the loop does not support the env."""
        self.section = config.train
        self.device = choose_device(config.train.device)
        torch.set_num_threads(usable_cores() if self.device.type == "cpu" else 1)
        self.vec = make_vec(config.merged({"vec": {"num_buffers": 1}}))
        (group, *more) = self.vec.spec.groups
        if more or group.flat_dtype is None or group.action_kind == "continuous":
            self.vec.close()
            raise ConfigError(
                f"{config.target}: the loop takes envs with one group of flat rows and discrete "
                "actions"
            )
        torch.manual_seed(config.train.seed)
        self.policy = build_policy(group, config.policy).to(self.device)
        # foreach=False is a loop over parameters, Adam's former implementation; on CUDA torch would
        # choose a faster one.
        self.optimizer = torch.optim.Adam(
            self.policy.parameters(), lr=config.train.lr, foreach=False
        )
        self.minibatches = config.check_batch(self.vec.num_agents)
        self.steps: list[dict[str, Tensor]] = []
        self.facts = {
            "observation_floats": runs.floats_of(self.vec.spec),
            "parameters": sum(p.numel() for p in self.policy.parameters()),
            "replay_ratio": config.train.update_epochs * config.train.learned_share(),
            "device": str(self.device),
        }
        self.vec.async_reset(config.train.seed)

    @torch.no_grad()
    def collect(self) -> None:
        """Collect steps 0 to T; the last step of a rollout is the first of the next."""
        if self.steps:
            self.steps = [self.steps[-1]]
            self._send(self.steps[0]["actions"])
        while len(self.steps) <= self.section.horizon:
            obs, rewards, terminals, truncations, _, _, masks = self.vec.recv()
            arrays = {"obs": obs, "rewards": rewards, "terminals": terminals,
                      "truncations": truncations, "masks": masks}  # fmt: skip
            row = {name: torch.tensor(array, device=self.device) for name, array in arrays.items()}
            distributions, row["values"] = self._act(row["obs"])
            row["actions"] = torch.stack([one.sample() for one in distributions], -1)
            row["log_probs"] = _log_prob(distributions, row["actions"])
            self.seen = [row[name].float().mean().item() for name in ("rewards", "values")]
            self.steps.append(row)
            if len(self.steps) <= self.section.horizon:
                self._send(row["actions"])

    def _act(self, obs: Tensor) -> tuple[list[Categorical], Tensor]:
        heads, value, _ = self.policy(obs, (), None, None)
        return [Categorical(logits=head) for head in heads], value

    def _send(self, actions: Tensor) -> None:
        array = actions.int().cpu().numpy()
        self.vec.send(array[:, 0] if array.shape[1] == 1 else array)

    def update(self) -> int:
        """Improve the policy; return the number of valid transitions in the rollout."""
        store = {name: torch.stack([row[name] for row in self.steps]) for name in self.steps[0]}
        flags = [store[name].to(torch.uint8) for name in ("terminals", "truncations", "masks")]
        advantages, valid = step_by_step(
            Steps(store["rewards"].float(), store["values"], *flags),
            Discount(self.section.gamma, self.section.gae_lambda),
        )
        flat = {name: array[: self.section.horizon].flatten(0, 1) for name, array in store.items()}
        flat |= {"advantages": advantages.flatten(), "valid": valid.flatten()}
        flat["returns"] = flat["advantages"] + flat["values"]
        used = largest(flat["advantages"].abs(), self.section.learned_share())
        for _ in range(self.section.update_epochs):
            order = torch.randperm(len(used), device=self.device)
            for minibatch in used[order].tensor_split(self.minibatches):
                loss = self._loss({name: array[minibatch] for name, array in flat.items()})
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                norm = nn.utils.clip_grad_norm_(
                    self.policy.parameters(), self.section.max_grad_norm
                )
                self.optimizer.step()
                self.seen = [loss.item(), norm.item()]
        return int(valid.sum())

    def _loss(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the loss of PPO, a mean over the samples."""
        section, advantages = self.section, batch["advantages"]
        scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        distributions, value = self._act(batch["obs"])
        log_prob = _log_prob(distributions, batch["actions"])
        entropy = torch.stack([one.entropy() for one in distributions], -1).sum(-1)
        ratio = (log_prob - batch["log_probs"]).exp()
        gain = torch.min(ratio * scaled, ratio.clamp(1 - section.clip, 1 + section.clip) * scaled)
        error = section.value_coef * 0.5 * (value - batch["returns"]).square()
        return ((error - gain - section.entropy_coef * entropy) * batch["valid"]).mean()


def _log_prob(distributions: Sequence[Categorical], actions: Tensor) -> Tensor:
    """Return the log-probabilities (rows,) of actions (rows, D)."""
    parts = [one.log_prob(actions[:, i]) for i, one in enumerate(distributions)]
    return torch.stack(parts, -1).sum(-1)


def measure(config: TrainConfig, seconds: float) -> dict[str, Any]:
    """Measure agent-steps/s and facts of about `seconds` of training.

    A rollout and an update precede it as warm-up.
    """
    before = torch.get_num_threads()
    loop = Loop(config)
    try:
        loop.collect()
        loop.update()
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() < begin + seconds or not steps:
            loop.collect()
            steps += loop.update()
        spent = time.perf_counter() - begin
        return {"agent_steps_per_s": steps / spent, "facts": loop.facts}
    finally:
        loop.vec.close()
        torch.set_num_threads(before)


def step_by_step(steps: Steps, discount: Discount) -> tuple[Tensor, Tensor]:
    """Compute `advantage` without V-trace like tutorials, with a few kernels per step."""
    s = steps
    valid = (
        (s.masks[:-1] != 0)
        & (s.terminals[:-1] == 0)
        & (s.truncations[:-1] == 0)
        & (s.masks[1:] != 0)
    )
    errors = (
        s.rewards[1:]
        + discount.gamma * torch.where(s.terminals[1:] != 0, 0.0, s.values[1:])
        - s.values[:-1]
    )
    advantages, following = torch.zeros_like(errors), torch.zeros_like(errors[0])
    for k in range(len(errors) - 1, -1, -1):
        following = torch.where(
            valid[k], errors[k] + discount.gamma * discount.gae_lambda * following, 0.0
        )
        advantages[k] = following
    return advantages, valid.to(torch.uint8)
