# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A host: a vec env and copies of the policies on a CPU, which play whole rollouts.

This file is independent of Ray, which makes an actor of a host (cluster.py). A host that died
restarts as a new `incarnation`. It answers a request that was meant for an earlier incarnation with
its new id and plays nothing, because the weights of that request may be stale. Runs on hosts.
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
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import ThreadPool, cpu_has_bf16, one_torch_thread
from puffervec.train.device.ranks import Ranks
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run import startup
from puffervec.train.run.setup import RANK_SEEDS, make_vec
from puffervec.train.run.tally import EpisodeFacts, Tally, facts_of
from puffervec.wings.ray.segment import Segment, pack_storage

CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class HostSetup:
    """Everything that is needed to build a host.

    Attributes:
        config: config of the host's part of the run, without Ray.
        policies: policies by name, on the CPU.
        bf16: whether the learner computes in bf16.
        observations: encoding in which observations are sent: exact, bf16 or uint8.
        version: version of puffervec.
        spec_hash: hash of the env's spec.
        cpus: number of CPUs of its machine that the host uses.
    """

    config: TrainConfig
    policies: Mapping[str, nn.Module]
    bf16: bool
    observations: str
    version: str
    spec_hash: str
    cpus: int


@dataclasses.dataclass(frozen=True)
class Request:
    """A request for a rollout.

    Attributes:
        version: version of the weights.
        incarnation: incarnation of the host that is to run the request (see HostInfo).
        seed: seed of the host's first env, if its envs have not started yet.
    """

    version: int
    incarnation: str
    seed: int


@dataclasses.dataclass(frozen=True)
class HostInfo:
    """The report of a host that is ready.

    Attributes:
        incarnation: id of its process.
        facts: description of the facts that the host's episodes record.
        machine: name of the machine.
        pid: ID of the process.
        vec_env: backend, workers and buffers, as text for display.
    """

    incarnation: str
    facts: EpisodeFacts
    machine: str
    pid: int
    vec_env: str


@dataclasses.dataclass(frozen=True)
class Restarted:
    """The answer of a host that has restarted since the request was made.

    Attributes:
        incarnation: id of the new process.
    """

    incarnation: str


@dataclasses.dataclass(frozen=True)
class Failure:
    """An error that would repeat itself after a restart.

    Attributes:
        text: the error in one line.
        bad_input: whether bad settings or data are the cause.
    """

    text: str
    bad_input: bool


def dump_weights(policies: Mapping[str, nn.Module]) -> bytes:
    """Return the weights and buffers of policies as bytes."""
    tensors = {
        f"{name}/{key}": tensor
        for name, policy in policies.items()
        for key, tensor in policy.state_dict().items()
    }
    return dump_tensors(
        {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    )


def load_weights(policies: Mapping[str, nn.Module], data: bytes) -> None:
    """Load weights that `dump_weights` returned into some or all of the policies."""
    states: dict[str, dict[str, Any]] = {}
    for key, tensor in load_tensors(data).items():
        name, _, part = key.partition("/")
        states.setdefault(name, {})[part] = tensor
    for name, state in states.items():
        policies[name].load_state_dict(state)


def to_failure(error: Exception) -> Failure:
    """Return an error as an answer to the learner."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return Failure(text, isinstance(error, (ConfigError, SceneError)))


class Host:
    """A vec env with policies that plays rollouts on request."""

    def __init__(self, setup: HostSetup, number: int) -> None:
        """Start the envs. `describe` reports an error.

        Args:
            setup: setup of the run.
            number: number of the host.
        """
        self.incarnation = uuid.uuid4().hex
        self.failed: Failure | None = None
        try:
            take_cores(number, setup.cpus)
            self._start(setup)
        except Exception as error:
            self.failed = to_failure(error)

    def _start(self, setup: HostSetup) -> None:
        if puffervec.__version__ != setup.version:
            raise ConfigError(
                f"it has puffervec {puffervec.__version__}, the learner {setup.version}: install "
                "the learner's version"
            )
        torch.set_num_threads(1)
        run = RunSpec.of(setup.config)
        if run.spec.policy_hash() != setup.spec_hash:
            raise ConfigError(
                "its env has other observations or actions than the learner's: install the same "
                "version with the same data"
            )
        run = startup.choose(run, make_vec, setup.policies).run
        config, rows = run.config, run.rows
        self.config, self.observations = config, setup.observations
        self.policies = {
            name: policy.requires_grad_(False) for name, policy in setup.policies.items()
        }
        self.vec = make_vec(config)
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
        bf16 = setup.bf16 and cpu_has_bf16()
        self.rollout = Rollout(self.vec, self.slots, CPU, bf16, self.actions, self.pool)
        self.facts = facts_of(self.vec, tuple(rows), config.python)
        self.tally = Tally(rows, self.learned, Ranks())
        self.tally.expect(self.facts)
        self.version = -1

    def describe(self) -> HostInfo | Failure:
        """Return what the learner has to know about this host, or why it could not start."""
        if self.failed is not None:
            return self.failed
        vec = self.vec
        vec_env = (
            f"{type(vec).__name__.lower()} with {vec.num_workers} workers and {vec.num_buffers} "
            "buffers"
        )
        return HostInfo(self.incarnation, self.facts, socket.gethostname(), os.getpid(), vec_env)

    def play(self, weights: bytes, request: Request) -> Segment | Restarted | Failure:
        """Play a rollout. Args: weights: weights of the learning policies, from `dump_weights`."""
        if self.failed is not None:
            return self.failed
        if request.incarnation != self.incarnation:
            return Restarted(self.incarnation)
        try:
            with one_torch_thread():
                return self._play(weights, request)
        except PuffervecError as error:
            return to_failure(error)

    def _play(self, weights: bytes, request: Request) -> Segment:
        begin = time.perf_counter()
        if request.version != self.version:
            load_weights(self.policies, weights)
            self.version = request.version
        if not self.rollout.full:
            self.actions.manual_seed(request.seed + RANK_SEEDS)
            self.rollout.begin(request.seed)
        self.rollout.collect()
        counted = self.tally.counted(self.rollout.episodes, self.rollout.numeric)
        self.rollout.episodes.clear()
        self.rollout.numeric.clear()
        arrays = {
            name: pack_storage(storage, self.observations) for name, storage in self.learned.items()
        }
        states = {
            name: tuple(part.numpy() for part in storage.first_state())
            for name, storage in self.learned.items()
        }
        steps = sum(int(storage.valid().sum()) for storage in self.learned.values())
        return Segment(
            request.version,
            self.incarnation,
            arrays,
            states,
            counted,
            steps,
            time.perf_counter() - begin,
        )

    def close(self) -> None:
        """End the workers."""
        if self.failed is None:
            self.vec.close()
            self.pool.close()


def take_cores(number: int, cpus: int) -> None:
    """Bind this process to some of the cores, since several hosts may share a machine.

    Each host uses the cores that follow those of the host before it.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    usable = sorted(os.sched_getaffinity(0))
    if 0 < cpus < len(usable):
        os.sched_setaffinity(0, {usable[(number * cpus + i) % len(usable)] for i in range(cpus)})
