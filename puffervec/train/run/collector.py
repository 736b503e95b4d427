# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The simulating part of a trainer: the vec env, the acting policies, finished episodes.

The states of Python envs cannot be saved, so a resumed run starts new episodes. So does a run whose
last step contains non-finite numbers, because resuming would bring them back. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from puffervec.doors import policy_wrapper
from puffervec.errors import ConfigError
from puffervec.train.collect.ahead import Ahead, actor_of
from puffervec.train.collect.experts import ExpertReader
from puffervec.train.collect.rollout import Rollout, Times
from puffervec.train.collect.storage import Slot
from puffervec.train.config.experts import experts_of
from puffervec.train.device.device import ThreadPool
from puffervec.train.run.learner import Learner, new_storage
from puffervec.train.run.setup import Setup
from puffervec.train.run.state import Files, Tensors, fitting
from puffervec.train.run.tally import Tally, facts_of


class Collector(Tally):
    """A collector of rollouts, which writes into the storages of a learner."""

    def __init__(
        self,
        setup: Setup,
        vec: Any,
        learner: Learner,
        actions: torch.Generator,
        pool: ThreadPool,
    ) -> None:
        """Build the slots and the rollout.

        Args:
            setup: the run.
            vec: the vec env.
            learner: owns the policies and storages.
            actions: generator that actions are drawn with.
            pool: threads that process the rows of a half.
        """
        section, learned = setup.run.config.train, learner.storages
        super().__init__(setup.run.rows, learned, setup.ranks)
        self.expect(facts_of(vec, tuple(setup.run.rows), setup.run.config.python))
        self.vec, self.horizon, self.device = vec, section.horizon, setup.run.device
        self.turns = 0  # vector steps, each of all halves
        self.slots: dict[str, Slot] = {}
        for name, rows in setup.run.rows.items():
            policy, ahead = learner.policies[name], section.asynchronous and name in learned
            if ahead:
                policy = actor_of(policy)
            storage = new_storage(setup, name) if ahead or name not in learned else learned[name]
            self.slots[name] = Slot(
                name,
                policy,
                rows.group,
                storage,
                rows.agents,
                policy_wrapper(rows.settings.train.plan),
            )
        experts = experts_of(setup.run.config)
        self.rollout = Rollout(
            *(vec, self.slots, setup.run.device, setup.bf16, actions, pool),
            experts=None if experts is None else ExpertReader(vec, experts),
        )
        self.ahead = (
            Ahead(self.rollout, learner.policies, self._learned) if section.asynchronous else None
        )

    @property
    def full(self) -> bool:
        """Whether the next rollout continues a complete one; if False, call `begin` first."""
        return self.rollout.full

    def begin(self, seed: int) -> None:
        """Start new episodes in all envs; the next `collect` begins with them."""
        self.rollout.begin(seed)
        for scale in self.return_scales.values():
            scale.forget()

    def collect(self, stop: Callable[[], bool]) -> bool:
        """Collect the next rollout for the learner.

        Returns:
            False if `stop()` became true before the end, on any rank.
        """
        whole = (self.ahead or self.rollout).collect(stop)
        whole = not self.ranks.agree(not whole)[0]
        # Otherwise the episodes belong to the rollout that is kept for a checkpoint.
        if whole or self.ahead is None:
            counted = self.counted(self.rollout.episodes, self.rollout.numeric, whole)
            self.rollout.episodes.clear()
            self.rollout.numeric.clear()
            self.count([counted])
        if whole:
            self.turns += self.horizon
            self.scale_rewards([counted])
        return whole

    def go_ahead(self) -> None:
        """Start the next rollout while the learner updates, with `train.asynchronous`."""
        if self.ahead is not None:
            self.ahead.start()

    def wait(self) -> None:
        """Wait for the rollout that was started ahead, if any."""
        if self.ahead is not None:
            self.ahead.wait()

    def close(self) -> None:
        """Stop the thread that collects ahead, if any."""
        if self.ahead is not None:
            self.ahead.close()

    @property
    def times(self) -> Times:
        """Seconds that the learner has spent on rollouts so far."""
        return self.rollout.times if self.ahead is None else self.ahead.times

    # ---- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensors]:
        """Return the files of the collector.

        They are `returns` and `episodes`, and, if the envs can be resumed, `envs` and `ahead`.
        """
        files = super().state()
        if self.rollout.full and self.vec.spec.save_bytes:
            envs = self._envs()
            if all(
                bool(tensor.isfinite().all())
                for tensor in envs.values()
                if tensor.is_floating_point()
            ):
                files["envs"] = envs
                if self.ahead is not None and self.ahead.ready:
                    files["ahead"] = self.ahead.tensors()
        return files

    def _envs(self) -> Tensors:
        blobs = enumerate(self.vec.save())
        tensors = {
            f"env/{index}": torch.frombuffer(bytearray(blob), dtype=torch.uint8)
            for index, blob in blobs
        }
        for name, slot in self.slots.items():
            tensors |= {
                f"last/{name}/{key}": value[-1].clone()
                for key, value in slot.storage.tensors().items()
            }
            for index, turn in enumerate(self.rollout.turns):
                tensors[f"reset/{name}/{index}"] = turn.reset[name]
                tensors |= {
                    f"state/{name}/{index}/{i}": part for i, part in enumerate(turn.states[name])
                }
                before = slot.storage.last_states.get(index, ())
                tensors |= {f"before/{name}/{index}/{i}": part for i, part in enumerate(before)}
        scales = self.return_scales.items()
        return tensors | {
            f"returns/{name}": torch.from_numpy(scale.returns.copy()) for name, scale in scales
        }

    def load_state(self, files: Files) -> list[str]:
        """Resume from `state`; without `envs` in it the caller must `begin` new episodes."""
        super().load_state(files)
        if "envs" not in files:
            why = (
                "the run was stopped inside a rollout"
                if self.vec.spec.save_bytes
                else "this env cannot save them"
            )
            return [f"resumes with new episodes: env states were not saved ({why})"]
        try:
            self._load_envs(files["envs"])
        except ConfigError as error:  # Raised before anything is changed.
            return [f"resumes with new episodes: the env or its version has changed ({error})"]
        if self.ahead is not None and "ahead" in files:
            self.ahead.restore(files["ahead"])
        return []

    def _load_envs(self, tensors: Tensors) -> None:
        self.vec.load(
            [tensors[f"env/{index}"].numpy().tobytes() for index in range(self.vec.num_envs)]
        )
        for _ in self.rollout.turns:
            self.vec.recv()  # Discard the rows of the last step: the storage has them already.
        for name, slot in self.slots.items():
            for key, value in slot.storage.tensors().items():
                value[-1].copy_(fitting(tensors, f"last/{name}/{key}", value[-1]))
            for index, turn in enumerate(self.rollout.turns):
                turn.reset[name].copy_(fitting(tensors, f"reset/{name}/{index}", turn.reset[name]))
                now = turn.states[name]
                state, slot.storage.last_states[index] = (
                    tuple(
                        fitting(tensors, f"{kind}/{name}/{index}/{i}", part).to(
                            self.device, part.dtype
                        )
                        for i, part in enumerate(now)
                    )
                    for kind in ("state", "before")
                )
                for kept, found in zip(now, state, strict=True):
                    kept.copy_(found)  # in place: a CUDA graph may have captured its address
        for name, scale in self.return_scales.items():
            scale.returns = (
                fitting(tensors, f"returns/{name}", torch.from_numpy(scale.returns)).numpy().copy()
            )
        self.rollout.full = True
