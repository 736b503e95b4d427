# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A host: a vec env and copies of the policies on a CPU, which play whole roll-outs with the
weights that they are given.

It knows nothing of Ray, which makes an actor of it (cluster.py). One that died begins again with a
new `life`: an order that was meant for the life before is answered by that alone, since its weights
may be old by then. Runs on hosts.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import time
import uuid
from collections.abc import Mapping
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch import nn

import puffervec
from puffervec.doors import policy_wrapper
from puffervec.errors import ConfigError, PuffervecError, SceneError
from puffervec.system import cores
from puffervec.train.collect.rollout import Rollout
from puffervec.train.collect.storage import Slot, storage_of
from puffervec.train.config import target
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import ThreadPool, cpu_has_bf16, one_torch_thread
from puffervec.train.device.ranks import Ranks
from puffervec.train.policies.mapping import policy_rows
from puffervec.train.run import startup
from puffervec.train.run.setup import RANK_SEEDS, make_vec
from puffervec.train.run.tally import EpisodeFacts, Tally, facts_of
from puffervec.wings.ray.segment import Segment, packed

CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class Outfit:
    """What a host is made of. Attributes: config: of its own part of the run, without Ray;
    policies: by name, on the CPU; bf16: the learner works so; observations: how they travel,
    decided; version: of puffervec; spec_hash: of the env; cpus: that it takes of its machine.
    """

    config: TrainConfig
    policies: Mapping[str, nn.Module]
    bf16: bool
    observations: str
    version: str
    spec_hash: str
    cpus: int


@dataclasses.dataclass(frozen=True)
class Order:
    """A roll-out that is asked for. Attributes: version: of the weights; life: whose; seed: of its
    first env, where none play yet.
    """

    version: int
    life: str
    seed: int


@dataclasses.dataclass(frozen=True)
class About:
    """A host that is ready. Attributes: life, facts; place: machine and process; words: who steps
    its envs.
    """

    life: str
    facts: EpisodeFacts
    place: str
    pid: int
    words: str


@dataclasses.dataclass(frozen=True)
class Reborn:
    """Another life than the one that was asked has begun. life: the new one."""

    life: str


@dataclasses.dataclass(frozen=True)
class Failed:
    """An error that another life would only repeat. Attributes: words; bad_input: it is a matter of
    settings or data.
    """

    words: str
    bad_input: bool


def weights_of(policies: Mapping[str, nn.Module]) -> bytes:
    """Return the weights and buffers of policies as they travel."""
    named = {
        f"{name}/{key}": tensor
        for name, policy in policies.items()
        for key, tensor in policy.state_dict().items()
    }
    return dump_tensors(
        {name: tensor.detach().cpu().contiguous().clone() for name, tensor in named.items()}
    )


def load_weights(policies: Mapping[str, nn.Module], data: bytes) -> None:
    """Put into policies what `weights_of` returned of some of them."""
    states: dict[str, dict[str, Any]] = {}
    for key, tensor in load_tensors(data).items():
        name, _, part = key.partition("/")
        states.setdefault(name, {})[part] = tensor
    for name, state in states.items():
        policies[name].load_state_dict(state)


def failure(error: Exception) -> Failed:
    """Return an error in one line."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return Failed(words, isinstance(error, (ConfigError, SceneError)))


class Host:
    """Plays roll-outs."""

    def __init__(self, outfit: Outfit, number: int) -> None:
        """Args: number: of the host. What goes wrong here is said by `about`."""
        self.life = uuid.uuid4().hex
        self.failed: Failed | None = None
        try:
            take_cores(number, outfit.cpus)
            self._start(outfit)
        except Exception as error:
            self.failed = failure(error)

    def _start(self, outfit: Outfit) -> None:
        if puffervec.__version__ != outfit.version:
            raise ConfigError(
                f"it has puffervec {puffervec.__version__}, the learner {outfit.version}: install "
                "the same"
            )
        torch.set_num_threads(1)
        config = outfit.config
        spec = target.env_spec(config)
        if target.spec_hash(spec) != outfit.spec_hash:
            raise ConfigError(
                "its env has other observations or actions than the learner's: install the same, "
                "with the same data"
            )
        config = startup.choose(config, spec, CPU, make_vec, outfit.policies).config
        self.config, self.observations = config, outfit.observations
        self.policies = {
            name: policy.requires_grad_(False) for name, policy in outfit.policies.items()
        }
        self.vec = make_vec(config)
        rows = policy_rows(spec, config)
        self.slots = {
            name: Slot(
                name,
                self.policies[name],
                own.group,
                storage_of(own, config.vec.num_envs, config.train.horizon, CPU, bf16=False),
                own.agents,
                policy_wrapper(own.settings.train.plan),
            )
            for name, own in rows.items()
        }
        self.learned = {
            name: self.slots[name].storage for name, own in rows.items() if own.settings.role.learns
        }
        self.actions = torch.Generator()
        self.pool = ThreadPool(config.train.threads or cores.usable_cores())
        bf16 = outfit.bf16 and cpu_has_bf16()
        self.rollout = Rollout(self.vec, self.slots, CPU, bf16, self.actions, self.pool)
        self.facts = facts_of(self.vec, tuple(rows), config.python)
        self.tally = Tally(rows, self.learned, Ranks())
        self.tally.expect(self.facts)
        self.version = -1

    def about(self) -> About | Failed:
        """Return what the learner has to know."""
        if self.failed is not None:
            return self.failed
        vec = self.vec
        words = (
            f"{type(vec).__name__.lower()} with {vec.num_workers} workers and {vec.num_buffers} "
            "buffers"
        )
        return About(self.life, self.facts, socket.gethostname(), os.getpid(), words)

    def play(self, weights: bytes, order: Order) -> Segment | Reborn | Failed:
        """Play a roll-out. Args: weights: of the policies that learn."""
        if self.failed is not None:
            return self.failed
        if order.life != self.life:
            return Reborn(self.life)
        try:
            with one_torch_thread():
                return self._play(weights, order)
        except PuffervecError as error:
            return failure(error)

    def _play(self, weights: bytes, order: Order) -> Segment:
        begin = time.perf_counter()
        if order.version != self.version:
            load_weights(self.policies, weights)
            self.version = order.version
        if not self.rollout.full:
            self.actions.manual_seed(order.seed + RANK_SEEDS)
            self.rollout.begin(order.seed)
        self.rollout.collect()
        counted = self.tally.counted(self.rollout.episodes, self.rollout.numeric)
        self.rollout.episodes.clear()
        self.rollout.numeric.clear()
        arrays = {
            name: packed(storage, self.observations) for name, storage in self.learned.items()
        }
        states = {
            name: tuple(part.numpy() for part in storage.first_state())
            for name, storage in self.learned.items()
        }
        steps = sum(int(storage.valid().sum()) for storage in self.learned.values())
        return Segment(
            order.version, self.life, arrays, states, counted, steps, time.perf_counter() - begin
        )

    def close(self) -> None:
        """End the workers."""
        if self.failed is None:
            self.vec.close()
            self.pool.close()


def take_cores(number: int, cpus: int) -> None:
    """Keep to some cores where a host does not have its machine alone: those that follow the ones
    of the host before.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    usable = sorted(os.sched_getaffinity(0))
    if 0 < cpus < len(usable):
        os.sched_setaffinity(0, {usable[(number * cpus + i) % len(usable)] for i in range(cpus)})
