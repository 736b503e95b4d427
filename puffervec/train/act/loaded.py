# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Load a trained policy for use in Python: `load_policy("runs/NAME").act(observations)`.

It chooses actions like `puffer-train eval` (acting.py); batch.py reads the arguments of `act`.
docs/training.md shows typical loops.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from torch import nn

from puffervec.core.spec import GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.act.acting import PolicyActor
from puffervec.train.act.batch import Batch, flags, read_batch, read_masks
from puffervec.train.act.evaluate import load_policies
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import evaluation_config
from puffervec.train.device.device import choose_device
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run.find import read_newest
from puffervec.vec.vector_env import VectorEnv


class LoadedPolicy:
    """A trained policy, or the policies of an env with several row groups or a `policy.map`.

    Attributes:
        config: Config of the run, with the settings of its env's evaluation (drive: held-out
            scenes).
        checkpoint: The folder that it was read from.
        device: The device of the networks.
        policies: The networks by name, for direct use (see puffervec.train.policies.protocol).
        observation_space, action_space: Spaces of one row, as the env declares them; Dicts by
            policy if there are several.
    """

    def __init__(
        self,
        run: RunSpec,
        checkpoint: Path,
        policies: dict[str, nn.Module],
        seed: int,
    ) -> None:
        """Take over what `load_policy` has loaded."""
        self.config, self.device, self._spec = run.config, run.device, run.spec
        self.checkpoint, self.policies = checkpoint, policies
        self._groups = {name: own.group for name, own in run.rows.items()}
        self._actor = PolicyActor(policies, run.device, True, seed, run.rows)
        self._agents: dict[Any, int] = {}  # Row numbers of agents with names.
        self._rows: dict[str, int] = {}  # Number of rows of a policy with memory.
        self._matching: set[str] = set()  # Hashes of specs that fit.
        self.observation_space = self._space("observation")
        self.action_space = self._space("action")

    def _space(self, what: str) -> gymnasium.Space[Any]:
        """Return the space of one row as the env declares it.

        Args:
            what: observation or action.
        """
        plans = {
            name: (getattr(g, f"{what}_plan"), getattr(g, f"{what}_space"))
            for name, g in self._groups.items()
        }
        found = {
            name: space if plan is None else plan.space for name, (plan, space) in plans.items()
        }
        return next(iter(found.values())) if len(found) == 1 else gymnasium.spaces.Dict(found)

    def __repr__(self) -> str:
        """Name the env and the checkpoint."""
        return f"LoadedPolicy({self.config.target!r}, {str(self.checkpoint)!r})"

    @property
    def remembers(self) -> bool:
        """Return whether a policy has memory: `act` must then know where episodes begin."""
        return any(self._actor.actor(name, group).remembers for name, group in self._groups.items())

    def reset(self, rows: Any = None) -> None:
        """Clear memory: the next observations begin episodes.

        Args:
            rows: (n,) bool or row numbers, or names of agents. None, or a vector env, stands for
                all rows, and then the number of rows may change; with a vector env this is the
                `reset` of an evaluation's actor.

        Raises:
            ConfigError: Only some rows, but there are several policies.
        """
        if rows is None or isinstance(rows, VectorEnv):
            self._actor.reset()
            self._agents.clear()
            self._rows.clear()
            return
        if len(self._groups) > 1:
            raise ConfigError(
                "reset(rows) is for a single policy: call reset() without rows for several"
            )
        ((name, group),) = self._groups.items()
        if isinstance(rows, (list, tuple, set)) and all(row in self._agents for row in rows):
            rows = [self._agents[row] for row in rows]
        chosen = np.asarray(rows)
        self._actor.actor(name, group).forget(
            np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        )

    def act(
        self,
        observations: Any,
        vec: VectorEnv | None = None,
        *,
        done: Any = None,
        reset: Any = None,
        action_mask: Any = None,
        deterministic: bool = True,
    ) -> Any:
        """Return actions for observations.

        Args:
            observations: NumPy arrays or tensors. One observation of `observation_space`, as from a
                Gymnasium env; or a batch of n, each leaf (n, ...), as from Gymnasium's vector envs;
                or {agent: observation}, as from a PettingZoo ParallelEnv; or (n, ...) rows, as from
                `recv` and `reset` of `puffervec.make`. With several policies a dict of these by
                policy (named after its row group, or in `policy.map`), for all or some of them.
            vec: The vector env of `puffervec.make` that the observations were just received from.
                Ends of episodes, absent agents and action masks are then read from it, with any
                number of buffers; leave `done`, `reset` and `action_mask` out.
            done: (n,) bool, or one for a single observation: the episode ended with this
                observation, or the agent is absent. Its action is 0, and its state is cleared
                before its next observation. For vector envs with next-step autoreset: terminations
                | truncations.
            reset: (n,) bool: this observation is the first of an episode. For vector envs with
                same-step autoreset: terminations | truncations. All rows begin an episode at first,
                and after `reset()`.
            action_mask: (n, choices), 0 is forbidden. Required if the policy was trained with
                masks.
            deterministic: Take the action that `puffer-train eval` takes; False draws one
                from the policy.

        Returns:
            One action of `action_space` for a single observation, ready for `env.step`. For a batch
            a batch of actions in Gymnasium's form, each leaf (n, ...). {agent: action} for agents
            with names. For rows, and with `vec`, (n,) or (n, D) for `send`. Dicts by policy if
            there are several (with `vec`: by row group). Arrays are new.

        Raises:
            SpaceMismatchError: (a ConfigError) The observations have a wrong structure, shape or
                dtype; the message names the expected one.
            ConfigError: Flags or masks have a wrong shape, the number of rows differs from the one
                that a policy with memory remembers, or `vec` is of another env.
        """
        self._actor.deterministic = deterministic
        if vec is not None:
            if not (done is None and reset is None and action_mask is None):
                raise ConfigError(
                    "act: with vec, leave done, reset and action_mask out: they are read from it"
                )
            self._check_vec(vec)
            return self._actor.act(observations, vec)
        if len(self._groups) == 1:
            ((name, group),) = self._groups.items()
            return self._act_group(name, group, observations, done, reset, action_mask)
        self._check_groups(observations)
        return {
            name: self._act_group(
                name,
                group,
                observations[name],
                *(_part(x, name) for x in (done, reset, action_mask)),
            )
            for name, group in self._groups.items()
            if name in observations
        }

    def _act_group(
        self,
        name: str,
        group: GroupSpec,
        observations: Any,
        done: Any,
        reset: Any,
        action_mask: Any,
    ) -> Any:
        batch = read_batch(group, observations)
        actor = self._actor.actor(name, group)
        rows = self._row_numbers(name, batch, actor.remembers)
        begin = flags("reset", reset, batch)
        if begin.any():
            actor.forget(rows[begin])
        allowed = read_masks(group, action_mask, batch)
        own, idle = self._actor, flags("done", done, batch)
        return batch.answer(
            actor.act(batch.rows, rows, idle, allowed, own.deterministic, own.generator)
        )

    def _row_numbers(self, name: str, batch: Batch, remembers: bool) -> np.ndarray:
        if batch.agents is not None:
            return np.array(
                [self._agents.setdefault(agent, len(self._agents)) for agent in batch.agents],
                np.int64,
            )
        expected = self._rows.setdefault(name, batch.count) if remembers else batch.count
        if expected != batch.count:
            raise ConfigError(
                f"{batch.count} observations, but the policy remembers {expected} rows: call "
                "policy.reset() before it acts for other rows"
            )
        return np.arange(batch.count)

    def _check_vec(self, vec: Any) -> None:
        if not isinstance(vec, VectorEnv):
            raise ConfigError(
                f"act: vec is a {type(vec).__name__}: give a vector env of puffervec.make; for "
                "others leave vec out and give done"
            )
        own_hash = vec.spec.policy_hash()
        if own_hash in self._matching:
            return
        if own_hash != self._spec.policy_hash():
            raise ConfigError(
                f"act: the policy was trained in {self.config.target} with observations "
                f"{self.observation_space} and actions {self.action_space}; vec has "
                f"{vec.single_observation_space} and {vec.single_action_space}"
            )
        self._matching.add(own_hash)

    def _check_groups(self, observations: Any) -> None:
        names = list(self._groups)
        if (
            not isinstance(observations, Mapping)
            or not observations
            or not set(observations) <= set(names)
        ):
            what = (
                list(observations)
                if isinstance(observations, Mapping)
                else type(observations).__name__
            )
            raise ConfigError(f"observations are {what}: give a dict by policy, of {names}")


def _part(value: Any, policy: str) -> Any:
    return value.get(policy) if isinstance(value, Mapping) else value


def load_policy(
    run: str | Path,
    *,
    device: str = "cpu",
    seed: int = 0,
    env: str | Callable[..., Any] | None = None,
    policy: str | nn.Module | Mapping[str, nn.Module] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> LoadedPolicy:
    """Return the trained policy of a run.

    A run folder alone runs no code: a custom env or network is imported only if you name it here.

    Args:
        run: Run folder, checkpoint folder (also a copied one), the name of a policy that comes with
            an env ("driver", of drive), or "latest" for the newest run in
            `runs`.
        device: cpu, cuda, cuda:N, or auto.
        seed: Seed of drawn actions, for `act(deterministic=False)`.
        env: The run's env if it is custom code: its "module:factory" in the run, or the class or
            function itself. A Python env is created once, to read its spaces.
        policy: The run's network if it is custom code: its "module:Class" in the run, or a module
            that receives the weights (a dict by policy if there are several).
        settings: Settings of the env that differ from those of the run and its evaluation:
            {"scenes": FOLDER}. The training data is not read and may be gone.

    Raises:
        CheckpointError, ConfigError: There is no complete checkpoint, it does not fit, or it names
            code that the arguments do not name.
    """
    where = choose_device(device)
    trusted = tuple(name for name in (env, policy) if isinstance(name, str))
    creator = env if callable(env) else None
    networks = (
        {"default": policy}
        if isinstance(policy, nn.Module)
        else policy
        if isinstance(policy, Mapping)
        else None
    )

    def load(found: Path) -> tuple[RunSpec, dict[str, nn.Module]]:
        return load_policies(found, where, trusted, creator, networks, adapt)

    def adapt(config: TrainConfig) -> TrainConfig:
        return evaluation_config(config).merged({"env": settings or {}})

    path, (loaded, policies) = read_newest(
        run, Path("runs"), load, lambda text: warnings.warn(text, stacklevel=4)
    )
    return LoadedPolicy(loaded, path, policies, seed)
