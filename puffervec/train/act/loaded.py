# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""A trained policy for use in Python: `policy = puffervec.train.load_policy("runs/NAME")`,
`policy.act(observations)`.

Actions are chosen as `puffer-train eval` chooses them (acting.py). given.py reads what `act` is
given. docs/training.md shows the loops that people write.
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
from puffervec.train.act.evaluate import load_policies
from puffervec.train.act.given import Batch, flags, read_batch, read_masks
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import as_evaluated, spec_hash
from puffervec.train.device.device import choose_device
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run.find import read_newest
from puffervec.vec.vector_env import VectorEnv


class LoadedPolicy:
    """A trained policy, or the policies of an env with several groups of rows or of a run with
    `policy.map`.

    Attributes:
        config: of the run, with the settings of its env's evaluation (drive: held-out scenes).
        checkpoint: the folder it was read from. device: where the networks are.
        policies: the networks by name, for use by hand (see puffervec.train.policies.protocol).
        observation_space, action_space: of one row, as the env declares them; Dicts by policy where
            there are several.
    """

    def __init__(
        self,
        run: RunSpec,
        checkpoint: Path,
        policies: dict[str, nn.Module],
        seed: int,
    ) -> None:
        """Made by `load_policy`."""
        self.config, self.device, self._spec = run.config, run.device, run.spec
        self.checkpoint, self.policies = checkpoint, policies
        self._groups = {name: own.group for name, own in run.rows.items()}
        self._actor = PolicyActor(policies, run.device, True, seed, run.rows)
        self._agents: dict[Any, int] = {}  # row numbers of agents that were given by name
        self._rows: dict[str, int] = {}  # rows that a policy with memory was last given
        self._fitting: set[str] = set()  # hashes of specs that fit
        self.observation_space, self.action_space = (
            self._space("observation"),
            self._space("action"),
        )

    def _space(self, what: str) -> gymnasium.Space[Any]:
        """The space of one row as the env declares it. Args: what: observation or action."""
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
        """True where a policy has memory: then `act` must be told where episodes begin."""
        return any(self._actor.actor(name, group).remembers for name, group in self._groups.items())

    def reset(self, rows: Any = None) -> None:
        """Forget: what `act` is given next begins an episode.

        Args: rows: (n,) bool or row numbers, or agents by name; None, or a vector env: all rows,
            and how many there were. So this is an actor, as the evaluations of C envs take one.
        Raises: ConfigError for some rows where there are several policies.
        """
        if rows is None or isinstance(rows, VectorEnv):
            self._actor.reset()
            self._agents.clear()
            self._rows.clear()
            return
        if len(self._groups) > 1:
            raise ConfigError(
                "rows of several policies are forgotten all together: call reset() without rows"
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
            observations: of one row or a batch, NumPy arrays or tensors: one observation of
                `observation_space`, as a Gymnasium env gives it; a batch of n of them, each leaf
                (n, ...), as Gymnasium's vector envs give it; {agent: observation}, as a PettingZoo
                ParallelEnv gives it; (n, ...) rows, as `recv` and `reset` of `puffervec.make` give
                them; where there are several policies: a dict of these by policy (named like its
                row group, or in `policy.map`), all or some of them.
            vec: the vector env of `puffervec.make` that the observations were just received from.
                Ends of episodes, absent agents and action masks are then read from it, with any
                number of buffers; leave the next three out.
            done: (n,) bool, or one for a single observation: the episode ended with this
                observation, or the agent is absent. Its action is 0, and what the row remembers is
                forgotten before its next one. For vector envs that reset in the
                next step: terminations | truncations.
            reset: (n,) bool: this observation is the first of an episode. For vector envs that
                reset in the same step:
                terminations | truncations. All rows begin anew at first, and after `reset()`.
            action_mask: (n, choices), 0 is forbidden. Needed where the policy was trained with
            masks.
            deterministic: the likeliest action, as `puffer-train eval` takes it; False: one drawn
                from the policy.
        Returns:
            One action of `action_space` for one observation, ready for `env.step`. For a batch as
            Gymnasium batches actions, each leaf (n, ...). {agent: action} for agents by name. For
            rows, and with `vec`: (n,) or (n, D) as `send` takes them. Dicts by policy where there
            are several (with `vec`: by row group). Arrays are fresh.
        Raises:
            SpaceMismatchError (a ConfigError): observations of another structure, shape or dtype;
            the message names what is expected. ConfigError: flags or masks of another shape,
            another number of rows than a policy with memory remembers, or a `vec` of another env.
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
        known = self._rows.setdefault(name, batch.count) if remembers else batch.count
        if known != batch.count:
            raise ConfigError(
                f"{batch.count} observations, but the policy remembers {known} rows: call "
                "policy.reset() before it acts for other ones"
            )
        return np.arange(batch.count)

    def _check_vec(self, vec: Any) -> None:
        if not isinstance(vec, VectorEnv):
            raise ConfigError(
                f"act: vec is a {type(vec).__name__}: give a vector env of puffervec.make; for "
                "others leave it out, give done"
            )
        found = spec_hash(vec.spec)
        if found in self._fitting:
            return
        if found != spec_hash(self._spec):
            raise ConfigError(
                f"act: the policy was trained in {self.config.target} with observations "
                f"{self.observation_space} and actions {self.action_space}; vec has "
                f"{vec.single_observation_space} and {vec.single_action_space}"
            )
        self._fitting.add(found)

    def _check_groups(self, observations: Any) -> None:
        known = list(self._groups)
        if (
            not isinstance(observations, Mapping)
            or not observations
            or not set(observations) <= set(known)
        ):
            what = (
                list(observations)
                if isinstance(observations, Mapping)
                else type(observations).__name__
            )
            raise ConfigError(f"observations are {what}: give a dict by policy, of {known}")


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

    A run folder alone runs no code: an env or a network of yours is imported only if you name it
        here.

    Args:
        run: run folder, checkpoint folder (also one that was copied elsewhere), or "latest" for the
        newest run in `runs`.
        device: cpu, cuda, cuda:N, or auto.
        seed: of drawn actions, for `act(deterministic=False)`.
        env: the run's env where it is code of yours: "module:factory" as the run has it, or the
            class or function itself. A Python env is made once, to see its spaces.
        policy: the run's network where it is code of yours: "module:Class" as the run has it, or
            the module that the weights are put into (a dict by policy where there are several).
        settings: of the env, where they are to differ from those of the run and its evaluation:
            {"scenes": FOLDER}. What the run was trained on is not looked at, and may be gone.
    Raises: CheckpointError, ConfigError: there is no whole checkpoint, it does not fit, or it names
        code that is not given.
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
        return as_evaluated(config).merged({"env": settings or {}})

    path, (loaded, policies) = read_newest(
        run, Path("runs"), load, lambda text: warnings.warn(text, stacklevel=4)
    )
    return LoadedPolicy(loaded, path, policies, seed)
