# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The learning part of a trainer: policies with their updaters and rollouts, random generators.

Runs in the learner.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import nn

from puffervec.doors import door
from puffervec.train.collect.bounds import outside_bounds
from puffervec.train.collect.storage import Storage, storage_of
from puffervec.train.config.schedules import value_at
from puffervec.train.config.sections import TrainSection
from puffervec.train.device.device import ThreadPool
from puffervec.train.learn.compiled import CompiledLoss
from puffervec.train.learn.optimizers import Optimizers
from puffervec.train.learn.updater import Updater
from puffervec.train.metrics.keys import LOSSES
from puffervec.train.policies.encoder import RowEncoder
from puffervec.train.policies.pool import Pool, newest
from puffervec.train.run.setup import Setup
from puffervec.train.run.state import POOL, Files, Tensors, fitting


def build_policies(setup: Setup, given: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Return the policies of a run on its device, opponents included.

    Args:
        setup: the run.
        given: policies by name that replace those that the config describes.

    Raises:
        ConfigError: the columns of the policies' images cannot be split over the number of ranks
            in `train.tensor_parallel`.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setup.run.config.train.seed)
        built = {
            name: given[name] if name in given else rows.build()
            for name, rows in setup.run.rows.items()
        }
    built |= {
        name: found.build(setup.run.rows[name], setup.own_seed)
        for name, found in setup.opponents.items()
    }
    for name, rows in setup.run.rows.items():
        if not rows.settings.role.learns:
            built[name].eval()
    placed = {name: policy.to(setup.run.device) for name, policy in built.items()}
    if setup.team.size > 1:
        share_columns = door("sharded", "train.tensor_parallel").share_columns
        for name, rows in setup.run.rows.items():
            if rows.settings.role.learns:
                share_columns(name, placed[name], setup.team)
    return placed


def new_storage(setup: Setup, name: str) -> Storage:
    """Allocate the storage that updates of a policy learn from."""
    run, config = setup.run, setup.run.config
    return storage_of(
        run.rows[name], config.learned_envs, config.train.horizon, run.device, setup.bf16
    )


class Generators:
    """The generators of actions (on the device) and of shuffles (on the CPU), and torch's own.

    Layers that draw random numbers, such as dropout, use torch's generator. A policy with such
    layers of torch runs in one thread (policies/registry.py: draws). A custom policy that calls
    `nn.functional.dropout` needs `train.threads` 1. With `train.asynchronous` rollout and update
    draw from that generator concurrently, so runs of such policies are not reproducible.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        """Seed all generators."""
        self.device = device
        self.actions = torch.Generator(device).manual_seed(seed)
        self.shuffle = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)  # Only layers draw from torch's own generator.

    def state(self) -> dict[str, Tensors]:
        """Return the file `random`."""
        found = {
            "actions": self.actions.get_state(),
            "shuffle": self.shuffle.get_state(),
            "torch": torch.get_rng_state(),
        }
        if self.device.type == "cuda":
            found["cuda"] = torch.cuda.get_rng_state(self.device)
        return {"random": found}

    def load_state(self, files: Files) -> list[str]:
        """Resume from `state`."""
        if "random" not in files:  # The checkpoint is from a run with fewer ranks.
            return []
        tensors, notes = files["random"], []
        if tensors["actions"].shape == self.actions.get_state().shape:
            self.actions.set_state(tensors["actions"])
        else:  # The states of CPU and CUDA generators differ in size.
            notes = [
                "the generator of actions starts again from the seed: the checkpoint was not made "
                f"on {self.device.type}"
            ]
        self.shuffle.set_state(tensors["shuffle"])
        if "torch" in tensors:
            torch.set_rng_state(tensors["torch"])
        if "cuda" in tensors and self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["cuda"], self.device)
        return notes


class Rates(NamedTuple):
    """The values of a policy's schedules in an update."""

    lr: float
    entropy_coef: float
    kl_weight: float
    reward_limit: float


@dataclasses.dataclass(frozen=True)
class Learned:
    """The result of an update.

    Attributes:
        losses: named `losses/<name>`, with several policies `losses/<policy>/<name>`.
        valid: number of valid transitions.
        finished: False if the update was stopped before its end.
    """

    losses: dict[str, float]
    valid: int
    finished: bool


class Learner:
    """The policies of a run, with an updater and a storage for each one that learns."""

    def __init__(
        self,
        setup: Setup,
        policies: dict[str, nn.Module],
        shuffle: torch.Generator,
        pool: ThreadPool,
    ) -> None:
        """Build an updater for each policy that learns.

        Args:
            setup: the run.
            policies: policies by name.
            shuffle: generator that minibatches are shuffled with.
            pool: threads that process the microbatches.
        """
        self.policies, self.ranks = policies, setup.ranks
        self.seconds = 0.0  # spent in updates
        self.updaters: dict[str, Updater] = {}
        self._sections: dict[str, TrainSection] = {}
        self._groups = {name: rows.group for name, rows in setup.run.rows.items()}
        for name, policy in policies.items():
            rows = setup.run.rows[name]
            if not rows.settings.role.learns:
                continue
            section, storage = rows.settings.train, new_storage(setup, name)
            self._sections[name] = section
            self.updaters[name] = Updater(
                policy,
                storage,
                section,
                setup.minibatches,
                setup.bf16,
                shuffle,
                pool,
                setup.ranks,
                setup.team,
                setup.behind,
                setup.terms.get(name),
            )
        # Infinities that a policy contains by design, such as in an attention mask.
        self._constants = frozenset(self._not_finite())

    @property
    def storages(self) -> dict[str, Storage]:
        """The storages that updates learn from, by policy."""
        return {name: updater.storage for name, updater in self.updaters.items()}

    @property
    def compiled(self) -> bool:
        """Whether torch.compile affects the bytes of an update."""
        return any(isinstance(updater.loss, CompiledLoss) for updater in self.updaters.values())

    def rates(self, agent_steps: int, used: float) -> dict[str, Rates]:
        """Return the rates of the next update of each policy.

        The arguments are those of `TrainSection.lr_at`.
        """
        return {
            name: Rates(
                section.lr_at(agent_steps, used),
                value_at(section.entropy_coef, agent_steps),
                value_at(section.kl_weight, agent_steps),
                value_at(section.reward_limit, agent_steps),
            )
            for name, section in self._sections.items()
        }

    def update(self, agent_steps: int, used: float, stop: Callable[[], bool]) -> Learned:
        """Update the policies from the rollout in their storages.

        Args:
            agent_steps: as for `rates`.
            used: as for `rates`; the value of the first rank applies to all.
            stop: the update ends early once it returns True.
        """
        begin = time.perf_counter()
        losses: dict[str, float] = {}
        rates, valid, finished = self.rates(agent_steps, self.ranks.broadcast_object(used)), 0, True
        for name, updater in self.updaters.items():
            own = rates[name]
            result = updater.update(own.lr, stop, own.entropy_coef, own.kl_weight, own.reward_limit)
            prefix = LOSSES if len(self.policies) == 1 else f"{LOSSES}{name}/"
            losses |= {prefix + key: value for key, value in result.losses.items()}
            valid, finished = valid + result.valid, finished and result.finished
        self.seconds += time.perf_counter() - begin
        return Learned(losses, valid, finished)

    def observe(self) -> None:
        """Add the rollout to the statistics of encoders that normalise observations."""
        begin = time.perf_counter()
        for name, storage in self.storages.items():
            encoder = getattr(self.policies[name], "encoder", None)
            if isinstance(encoder, RowEncoder):
                encoder.observe(
                    {key: part[1:] for key, part in storage.obs.items()},
                    storage.masks[1:] != 0,
                    self.ranks,
                )
        self.seconds += time.perf_counter() - begin

    def outside_bounds(self) -> list[str]:
        """Return a sentence per policy whose observations in the rollout exceed their bounds."""
        found = (
            outside_bounds(self._groups[name], storage) for name, storage in self.storages.items()
        )
        return list(dict.fromkeys(filter(None, found)))

    def not_finite(self) -> list[str]:
        """Return the names of weights, buffers and optimizer values that are no longer finite.

        Names have the form `<file>.<name>`.
        """
        return [name for name in self._not_finite() if name not in self._constants]

    def _not_finite(self) -> list[str]:
        named = {
            f"{stem}.{key}": tensor
            for stem, tensors in self.state().items()
            for key, tensor in tensors.items()
        }
        return [name for name, tensor in named.items() if not bool(tensor.isfinite().all())]

    def state(self) -> dict[str, Tensors]:
        """Return the files of the policies and their optimizers.

        There is one file per policy with its weights and buffers, `optimizer` with
        <policy>/<parameter index>/<name>, and with opponent pools `pool` with
        <policy>/<number>/<name> for all members but the newest.
        """
        files: dict[str, Tensors] = {
            name: dict(newest(policy).state_dict()) for name, policy in self.policies.items()
        }
        older = {
            f"{name}/{index}/{key}": part
            for name, policy in self.policies.items()
            for index, member in enumerate(policy.members[:-1] if isinstance(policy, Pool) else ())
            for key, part in member.state_dict().items()
        }
        if older:
            files[POOL] = older
        files["optimizer"] = {
            f"{name}/{index}/{key}": value
            for name, updater in self.updaters.items()
            for index, values in updater.optimizer.state().items()
            for key, value in values.items()
        }
        return files

    def load_state(self, files: Files) -> list[str]:
        """Resume from `state`."""
        for name, policy in self.policies.items():
            # The other members of a pool were built with their weights.
            newest(policy).load_state_dict(files[name])
            if name in self.updaters:
                _load_optimizer(self.updaters[name].optimizer, name, files["optimizer"])
        return []


def _load_optimizer(optimizer: Optimizers, name: str, tensors: Tensors) -> None:
    state: dict[int, Tensors] = {}
    for key, value in tensors.items():
        owner, index, entry = key.rsplit("/", 2)
        if owner == name:
            state.setdefault(int(index), {})[entry] = value
    for position, entries in state.items():
        for kind in entries:
            if kind != "step":  # The fused kernel trusts the shapes.
                fitting(entries, kind, optimizer.parameters[position])
    optimizer.load_state(state)
