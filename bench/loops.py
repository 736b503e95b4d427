# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A PPO loop for measurements, from a tutorial's loop to the trainer's, one change at a time.

All rungs of this ladder train the same policy in the same envs with the same settings. Envs have
one group of flat observations and discrete actions. Runs in the learner, called by bench/train.py.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from bench import runs
from bench.device_half import DRAWN, DeviceHalf, Parts
from bench.device_half import TAKEN as ARRAYS
from puffervec.core.spec import GroupSpec
from puffervec.errors import ConfigError
from puffervec.system.cores import usable_cores
from puffervec.train.collect.turn import pieces_of
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import ThreadPool, choose_device, use_bf16
from puffervec.train.learn.advantage import Discount, Steps, advantage
from puffervec.train.policies.distributions import ActionSpec, draw_noise, log_prob_entropy, sample
from puffervec.train.policies.registry import build_policy
from puffervec.train.run.setup import make_vec


@dataclasses.dataclass(frozen=True)
class Ways:
    """The optimizations of a loop; with all False it is the naive loop.

    Attributes:
        storage: rows are stored in preallocated memory; else each step makes new tensors, which are
            stacked at the end.
        quiet: no `.item()` in steps and minibatches.
        own_distributions: inverse CDF and log-probabilities from logits; else `Categorical`.
        c_advantage: advantages are computed in C; else step by step in torch.
        valid_only: minibatches exclude rows without an agent; else these are masked.
        fused: Adam is one kernel.
        bf16: hidden layers use bf16, if the CPU or GPU supports it.
        pool: threads of a CPU work on pieces of the rows; else torch splits every kernel.
        two_buffers: one half steps while the policy computes the actions of the other.
        pinned: the slab is page-locked, and actions are copied into it. This and the following ones
            are for CUDA, and each requires the previous ones.
        one_copy: the bytes of a half are transferred in one copy; else array by array.
        event: each half has a stream, and an event that is polled; else the host waits for the
            device.
        graph: the turn of a half is one CUDA graph.
    """

    storage: bool = False
    quiet: bool = False
    own_distributions: bool = False
    c_advantage: bool = False
    valid_only: bool = False
    fused: bool = False
    bf16: bool = False
    pool: bool = False
    two_buffers: bool = False
    pinned: bool = False
    one_copy: bool = False
    event: bool = False
    graph: bool = False


LABELS = {
    "storage": "preallocated memory, no new tensors",
    "quiet": "no .item() in steps and minibatches",
    "own_distributions": "inverse CDF instead of Categorical",
    "c_advantage": "advantages in C",
    "valid_only": "learning from rows with an agent only",
    "fused": "fused Adam",
    "bf16": "bf16 in hidden layers",
    "pool": "threads on pieces of rows, not inside kernels",
    "two_buffers": "two buffers: simulation beside the policy",
}
CUDA_LABELS = {
    "pinned": "the slab is page-locked",
    "one_copy": "one copy per half instead of one per array",
    "event": "a stream and a polled event per half",
    "graph": "a half's turn as one CUDA graph",
}
ON_CUDA = {
    "own_distributions": "Gumbel-max instead of Categorical",
    "c_advantage": "advantages by a compiled scan",
}
NAIVE = "naive"


def labels(device: str) -> dict[str, str]:
    """Return the labels of the changes by their names in Ways, in order.

    Args:
        device: cpu or cuda.
    """
    if device != "cuda":
        return LABELS
    return {
        name: ON_CUDA.get(name, label) for name, label in LABELS.items() if name != "pool"
    } | CUDA_LABELS


def ladder(device: torch.device) -> dict[str, Ways]:
    """Return the rungs by label: the naive loop, then loops with one more change each."""
    ways, rungs = Ways(), {NAIVE: Ways()}
    for name, label in labels(device.type).items():
        ways = dataclasses.replace(ways, **{name: True})
        rungs[f"+ {label}"] = ways
    return rungs


def missing_labels(device: str) -> list[str]:
    """Return the labels of the rungs that this device does not support."""
    return [LABELS["pool"]] if device.startswith("cuda") else list(CUDA_LABELS.values())


class Loop:
    """Workers, a policy and an optimizer; `run` measures."""

    def __init__(self, config: TrainConfig, ways: Ways) -> None:
        """Start the workers. Raises: ConfigError: the loop does not support the env."""
        self.ways, self.section = ways, config.train
        self.device = choose_device(config.train.device)
        config = config.merged({"vec": {"num_buffers": 2 if ways.two_buffers else 1}})
        threads = usable_cores() if self.device.type == "cpu" else 1
        self.pool = ThreadPool(threads if ways.pool else 1)
        torch.set_num_threads(1 if ways.pool else threads)
        self.vec = make_vec(config)
        (group, *more) = self.vec.spec.groups
        if more or group.flat_dtype is None or group.action_kind == "continuous":
            self.close()
            raise ConfigError(
                f"{config.target}: the loop takes envs with one group of flat rows and discrete "
                "actions"
            )
        self.spec, self.bf16 = ActionSpec.of(group), ways.bf16 and use_bf16("auto", self.device)
        torch.manual_seed(config.train.seed)
        self.policy = build_policy(group, config.policy).to(self.device)
        self.parameters = list(self.policy.parameters())
        # foreach=False is a loop over parameters, Adam's former implementation; on CUDA torch would
        # choose a faster one.
        self.optimizer = torch.optim.Adam(
            self.parameters, lr=config.train.lr, fused=ways.fused, foreach=False
        )
        self.generator = torch.Generator(self.device).manual_seed(config.train.seed)
        self.rows, self.minibatches = self.vec.num_agents, config.check_batch(self.vec.num_agents)
        self.count = self.rows // self.vec.num_buffers
        self.store = self._memory(group.observation_bytes // np.dtype(group.flat_dtype).itemsize)
        self.steps: list[dict[str, Tensor]] = []
        self.turns = self._device_halves(group) if ways.pinned else []
        self.facts = {
            "observation_floats": runs.floats_of(self.vec.spec),
            "parameters": sum(p.numel() for p in self.parameters),
            "replay_ratio": config.train.update_epochs,
            "device": str(self.device),
        }
        self.vec.async_reset(config.train.seed)

    def _memory(self, floats: int) -> dict[str, Tensor]:
        if not self.ways.storage:
            return {}
        shape = (self.section.horizon + 1, self.rows)
        arrays = {
            name: torch.zeros(shape, dtype=torch.uint8, device=self.device) for name in ARRAYS[2:]
        }
        arrays |= {
            name: torch.zeros(shape, device=self.device)
            for name in ("rewards", "log_probs", "values")
        }
        arrays["obs"] = torch.zeros(*shape, floats, device=self.device)
        arrays["actions"] = torch.zeros(
            *shape, self.spec.dims, dtype=torch.int32, device=self.device
        )
        return arrays

    def _device_halves(self, group: GroupSpec) -> list[DeviceHalf]:
        parts = Parts(self.ways.one_copy, self.ways.event, self.ways.graph)

        def act(obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return self._act(obs, draw_noise(self.spec, self.count, self.device, self.generator))

        return [
            DeviceHalf(half, group, self.store, self._columns(index), act, self.generator, parts)
            for index, half in enumerate(self.vec.halves)
        ]

    def close(self) -> None:
        """End workers and threads."""
        self.vec.close()
        self.pool.close()

    # ---- the rollout ----------------------------------------------------------------------------

    @torch.no_grad()
    def collect(self) -> None:
        """Fill steps 0 to T; the last step of a rollout is the first of the next."""
        first = 0
        for turn in self.turns:
            turn.begin()
        if self.steps:
            self.steps, first = [self.steps[-1]], 1
            for array in self.store.values():
                array[0].copy_(array[-1])
            actions = self.store["actions"][0] if self.store else self.steps[0]["actions"]
            for turn in self.turns:
                turn.resend()
            for half in range(self.vec.num_buffers):
                self._send(actions[self._columns(half)])
        for t in range(first, self.section.horizon + 1):
            for _ in range(self.vec.num_buffers):
                row = self._receive(t)
                if t < self.section.horizon:
                    self._send(row["actions"])
                if len(self.steps) == t:
                    self.steps.append(row)

    def _columns(self, half: int) -> slice:
        return slice(half * self.count, (half + 1) * self.count)

    def _receive(self, t: int) -> dict[str, Tensor]:
        """Store the rows of a half and act on them."""
        obs, rewards, terminals, truncations, _, _, masks = self.vec.recv()
        if self.turns:
            self.turns[self.vec.half].turn(t)
            return {
                name: array[t, self._columns(self.vec.half)] for name, array in self.store.items()
            }
        arrays = dict(zip(ARRAYS, (obs, rewards, terminals, truncations, masks), strict=True))
        columns = self._columns(self.vec.half)
        if not self.store:
            row = {name: torch.tensor(array, device=self.device) for name, array in arrays.items()}
            row |= dict(zip(DRAWN, self._act(row["obs"]), strict=True))
        else:
            row = {name: array[t, columns] for name, array in self.store.items()}
            for name, array in arrays.items():
                row[name].copy_(torch.from_numpy(array))
            every = slice(0, self.count)
            pieces = pieces_of(every) if self.ways.pool and self.device.type == "cpu" else [every]
            noise = draw_noise(self.spec, self.count, self.device, self.generator)

            @torch.no_grad()
            def act(piece: slice) -> None:
                for name, output in zip(
                    DRAWN, self._act(row["obs"][piece], noise[piece]), strict=True
                ):
                    row[name][piece].copy_(output)

            self.pool.map(act, pieces)
        if not self.ways.quiet:
            self.seen = [
                row["rewards"].mean().item(),
                row["values"].mean().item(),
                row["terminals"].sum().item(),
            ]
        return row

    def _act(self, obs: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return actions (rows, D) int32, log-probabilities and values (rows,)."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            heads, value, _ = self.policy(obs, (), None, None)
        if self.ways.own_distributions:
            assert noise is not None
            return *sample(self.spec, heads, noise), value
        distributions = [Categorical(logits=head) for head in heads]
        samples = [distribution.sample() for distribution in distributions]
        log_probs = [
            distribution.log_prob(index)
            for distribution, index in zip(distributions, samples, strict=True)
        ]
        return torch.stack(samples, -1).int(), torch.stack(log_probs, -1).sum(-1), value

    def _send(self, actions: Tensor) -> None:
        if self.turns:  # They are in the slab already.
            self.vec.send(None)
            return
        array = actions.cpu().numpy()
        self.vec.send(array[:, 0] if self.spec.dims == 1 else array)

    # ---- the update ------------------------------------------------------------------------------

    def update(self) -> int:
        """Improve the policy; return the number of valid transitions in the rollout."""
        store = self.store or {
            name: torch.stack([row[name] for row in self.steps]) for name in (*ARRAYS, *DRAWN)
        }
        flags = [store[name].to(torch.uint8) for name in ARRAYS[2:]]
        steps, discount = (
            Steps(store["rewards"].float(), store["values"], *flags),
            Discount(self.section.gamma, self.section.gae_lambda),
        )
        advantages, valid = (advantage if self.ways.c_advantage else step_by_step)(steps, discount)
        flat = {name: array[: self.section.horizon].flatten(0, 1) for name, array in store.items()}
        flat |= {"advantages": advantages.flatten(), "valid": valid.flatten()}
        flat["returns"] = flat["advantages"] + flat["values"]
        chosen = (
            flat["valid"].nonzero().squeeze(-1)
            if self.ways.valid_only
            else torch.arange(len(flat["valid"]))
        )
        chosen = chosen.to(self.device)
        for _ in range(self.section.update_epochs):
            order = torch.randperm(len(chosen), device=self.device)
            for minibatch in chosen[order].tensor_split(self.minibatches):
                self._gradient_step(flat, minibatch)
        return int(valid.sum())

    def _gradient_step(self, flat: dict[str, Tensor], minibatch: Tensor) -> None:
        size = (
            self.section.microbatch_size
            if self.ways.pool and self.device.type == "cpu"
            else len(minibatch)
        )
        picked = flat["advantages"][minibatch]
        scaled = (picked - picked.mean()) / (picked.std() + 1e-8)
        pieces = list(zip(minibatch.split(size), scaled.split(size), strict=True))

        def gradients(piece: tuple[Tensor, Tensor]) -> tuple[Sequence[Tensor], Tensor]:
            loss = self._loss(flat, *piece) / len(minibatch)
            return torch.autograd.grad(loss, self.parameters), loss.detach()

        results = self.pool.map(gradients, pieces)
        for position, parameter in enumerate(self.parameters):
            parameter.grad = torch.stack([grads[position] for grads, _ in results]).sum(0)
        norm = nn.utils.clip_grad_norm_(self.parameters, self.section.max_grad_norm)
        self.optimizer.step()
        if not self.ways.quiet:
            self.seen = [results[0][1].item(), norm.item(), scaled.mean().item()]

    def _loss(self, flat: dict[str, Tensor], index: Tensor, advantages: Tensor) -> Tensor:
        """Return the loss of PPO, summed over the samples."""
        section = self.section
        obs, actions, old, returns = (
            flat[name][index] for name in ("obs", "actions", "log_probs", "returns")
        )
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            heads, value, _ = self.policy(obs, (), None, None)
        if self.ways.own_distributions:
            log_prob, entropy = log_prob_entropy(self.spec, heads, actions)
        else:
            distributions = [Categorical(logits=head) for head in heads]
            log_prob = torch.stack(
                [d.log_prob(actions[:, i]) for i, d in enumerate(distributions)], -1
            ).sum(-1)
            entropy = torch.stack([d.entropy() for d in distributions], -1).sum(-1)
        ratio = (log_prob - old).exp()
        gain = torch.min(
            ratio * advantages, ratio.clamp(1 - section.clip, 1 + section.clip) * advantages
        )
        loss = (
            section.value_coef * 0.5 * (value - returns).square()
            - gain
            - section.entropy_coef * entropy
        )
        return (loss if self.ways.valid_only else loss * flat["valid"][index]).sum()


def measure(config: TrainConfig, ways: Ways, seconds: float) -> dict[str, Any]:
    """Measure agent-steps/s and facts of about `seconds` of training.

    A rollout and an update precede it as warm-up.
    """
    before = torch.get_num_threads()
    loop = Loop(config, ways)
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
        loop.close()
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
