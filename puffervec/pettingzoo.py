# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""C envs as PettingZoo parallel envs: one env in this process, with dicts by agent name.

    env = puffervec.pettingzoo.parallel_env("tag_grid", num_taggers=4)
    observations, infos = env.reset(seed=0)
    while env.agents:
        actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(actions)

Runs in the learner. An agent is a row of the C env. It is in `agents` from the reset (or the step
in which its row becomes live) until the step that ends its episode, and does not come back before
the next reset: where rows restart by themselves (the scenes of `drive`), their later episodes are
not shown. For many copies at full speed use `puffervec.make`, which steps thousands of rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from puffervec.contract.native import NativeEnv
from puffervec.core.slab import RECORD_DTYPE, GroupRows
from puffervec.errors import ActionError, CallOrderError, ConfigError
from puffervec.system import extras
from puffervec.vec import backends
from puffervec.vec.vector_env import VectorEnv
from puffervec.viewing.render.frames import recorder_of

with extras.required("puffervec.pettingzoo"):
    import pettingzoo

Observations = dict[str, Any]
Infos = dict[str, dict[str, Any]]


@dataclass
class _AgentRows:
    """The agents of one group: row i of `rows` belongs to `names[i]`.

    shown: (agents,) bool, whether the last result had the agent in its row. finished: (agents,)
        bool, whether the agent's episode is over.
    """

    rows: GroupRows
    names: list[str]
    shown: np.ndarray
    finished: np.ndarray

    @property
    def alive(self) -> np.ndarray:
        """(agents,) bool: whether the agent acts in the next step."""
        alive: np.ndarray = self.shown & ~self.finished
        return alive


class ParallelEnv(pettingzoo.ParallelEnv):  # type: ignore[misc]  # has no type hints
    """One C env as a `pettingzoo.ParallelEnv`. `parallel_env` makes it.

    Args:
        env: a name from `puffervec.envs`, or a NativeEnv.
        settings: settings of the env: a mapping, or its config dataclass.
        render_mode: None, or "rgb_array" where the env has a renderer (`metadata["render_modes"]`).

    Attributes:
        possible_agents: the names of all agents, which never change: "tagger_0", ..., "runner_0"
            for tag_grid, "agent_0", ... for drive; for other envs the singular of the group's name
            and a number.
        agents: the agents that act in the next step, in the order of possible_agents.
        state_space: space of `state()`.
        episodes: structured array, the records of the C env for episodes that ended in the last
            step.
        vec: the vector env beneath (one env, backend serial), for `peek`, `counters`, `save` and
            `load`.

    Infos: {} per agent, or {"action_mask": (choices,) int8} if the agent's group has action masks:
        1 for an allowed choice, as in `space.sample(mask)`.
    Options of `reset`: {"task": i} picks the task of the episode (a scene of drive, a start layout
        of tag_grid); without it the env draws one. Other keys are refused.
    Copies made by `pickle` or `copy.deepcopy` are independent envs with the same settings, which
        must be reset before they are stepped.

    Raises:
        ConfigError: the env or a setting is unknown, or the env does not have the render mode.
    """

    def __init__(
        self,
        env: str | NativeEnv,
        settings: Mapping[str, Any] | Any | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._arguments = env, settings, render_mode
        self.vec: VectorEnv = backends.make(
            env,
            None,
            settings,
            backend="serial",
            num_envs=1,
            seed=None,
            strict=True,
            autoreset_mode="disabled",
        )
        name = self.vec.env.name
        native = self.vec.env if isinstance(self.vec.env, NativeEnv) else None
        modes = ["rgb_array"] if native is not None and native.has_pictures else []
        if render_mode is not None and render_mode not in modes:
            raise ConfigError(
                f"render_mode is {render_mode!r}: {name} has {', '.join(modes) or 'none'}, or use "
                "None"
            )
        self.metadata = {
            "name": f"puffervec/{name}",
            "render_modes": modes,
            "is_parallelizable": True,
        }
        self.render_mode = render_mode
        self._recorder = (
            recorder_of(native, self.vec)
            if native is not None and render_mode is not None
            else None
        )
        self.vec.reset()  # the rows contain the agents' types only after a reset
        self._groups = _name_agents(self.vec)
        self._seeded = False
        self.possible_agents: list[str] = [
            agent for agents in self._groups.values() for agent in agents.names
        ]
        self.agents: list[str] = []
        self._no_episodes = np.zeros(0, RECORD_DTYPE)
        self.episodes = self._no_episodes
        self._make_spaces()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments

    def _make_spaces(self) -> None:
        self.observation_spaces: dict[str, spaces.Space[Any]] = {}
        self.action_spaces: dict[str, spaces.Space[Any]] = {}
        for agents in self._groups.values():
            for agent in agents.names:  # one object per agent, so that each can be seeded by itself
                self.observation_spaces[agent] = agents.rows.spec.observation_space
                self.action_spaces[agent] = agents.rows.spec.action_space
        fields = [field for field in self.vec.spec.state_fields for _ in range(field.size)]
        wide = [field.dtype.itemsize == 8 for field in fields]  # seeds and counters: any number
        low = np.where(wide, -np.inf, [field.low for field in fields])
        high = np.where(wide, np.inf, [field.high for field in fields])
        self.state_space = spaces.Box(low, high, low.shape, np.float64)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's observations, always the same object.

        Raises:
            ConfigError: the agent is unknown.
        """
        return self._space(self.observation_spaces, agent)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the space of an agent's actions, always the same object.

        Raises:
            ConfigError: the agent is unknown.
        """
        return self._space(self.action_spaces, agent)

    def _space(self, found: Mapping[str, spaces.Space[Any]], agent: str) -> spaces.Space[Any]:
        if agent not in found:
            raise ConfigError(
                f"no agent is called {agent!r}: the agents are {_some(self.possible_agents)}"
            )
        return found[agent]

    # ---- the loop --------------------------------------------------------------------------------

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observations, Infos]:
        """Begin an episode.

        Args:
            seed: the env's seed. None: a random one at the first reset; later the env keeps its
                seed and begins its next episode.
            options: {"task": i}, see the class.

        Returns:
            (observations, infos) by agent. Observations are copies: (F,) arrays, or dicts of arrays
            by field.

        Raises:
            ConfigError: the seed or task cannot be used, or an option is unknown. WorkerError: the
                env refused the task.
        """
        if isinstance(
            options, Mapping
        ):  # PettingZoo's parallel_api_test gives "options" to every env, which means nothing
            options = {key: value for key, value in options.items() if key != "options"}
        if seed is None and not self._seeded:
            seed = int.from_bytes(os.urandom(6), "little")
        self.vec.set_tasks([0], -1)
        self.vec.reset(seed=seed, options=options)
        self._seeded = True
        for agents in self._groups.values():
            agents.finished[:] = False
        self.episodes = self._no_episodes
        self._look()
        if self._recorder is not None:
            self._recorder.begin()
        return self._observations(), self._infos()

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Step all agents at once.

        Args:
            actions: one per agent in `agents`. Actions of agents that are not in `agents` now are
                ignored.

        Returns:
            (observations, rewards, terminations, truncations, infos) by agent, copies. They contain
            every agent that is present after this step, and those whose episode it ended, with
            their last observation. If no agent is left and `actions` is empty: five empty dicts.

        Raises:
            CallOrderError: there was no reset yet, or `actions` is not empty although no agent is
            left. ActionError: an action is missing, of the wrong kind or out of range, or an agent
            is unknown; nothing was stepped. ClosedError. WorkerError: the env failed.
        """
        if not self.agents:
            self.vec.turns.require_open()  # an interrupted step has left no agents, either
            if self._seeded and isinstance(actions, Mapping) and not actions:
                self.episodes = self._no_episodes
                return {}, {}, {}, {}, {}
            raise CallOrderError("step: no agent is alive: call reset")
        self.vec.send(self._rows_of(actions))
        infos = self.vec.recv()[4]
        try:
            return self._received(infos)
        except BaseException:  # such as Ctrl-C: what was received is lost
            self.vec.turns.mark_interrupted()
            raise

    def _received(
        self, infos: Any
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        self.episodes = infos.episodes if infos else self._no_episodes
        self._look()
        rewards: dict[str, float] = {}
        terminations: dict[str, bool] = {}
        truncations: dict[str, bool] = {}
        for agents in self._groups.values():
            names = agents.names
            chosen = np.flatnonzero(agents.shown).tolist()
            for target, array in (
                (rewards, agents.rows.rewards),
                (terminations, agents.rows.terminals),
                (truncations, agents.rows.truncations),
            ):
                values = array.tolist()
                target.update({names[i]: values[i] for i in chosen})
        if self._recorder is not None:
            self._recorder.add()
        return self._observations(), rewards, terminations, truncations, self._infos()

    def _look(self) -> None:
        """Update which agents have a row now, which have finished, and which act next."""
        self.agents = []
        for agents in self._groups.values():
            rows = agents.rows
            np.logical_and(rows.masks, ~agents.finished, out=agents.shown)
            agents.finished |= agents.shown & (rows.terminals | rows.truncations)
            self.agents += [agents.names[i] for i in np.flatnonzero(agents.alive)]

    def _rows_of(self, actions: Mapping[str, Any]) -> Any:
        """Return the argument of the vector env's `send`; rows of absent agents get zeros."""
        if not isinstance(actions, Mapping):
            raise ActionError(
                f"actions are a {type(actions).__name__}: give a dict with one for each of "
                f"env.agents ({_some(self.agents)})"
            )
        missing = [agent for agent in self.agents if agent not in actions]
        unknown = [agent for agent in actions if agent not in self.action_spaces]
        if missing or unknown:
            found = (
                f"miss {_some(missing)}"
                if missing
                else f"name {_some(unknown)}, which is not in possible_agents"
            )
            raise ActionError(
                f"actions {found}: give one for each of env.agents ({_some(self.agents)})"
            )
        found_rows: dict[str, Any] = {}
        for group, agents in self._groups.items():
            idle = np.zeros(agents.rows.actions.shape[1:], agents.rows.actions.dtype)
            alive = agents.alive
            found_rows[group] = [
                actions[agent] if alive[i] else idle for i, agent in enumerate(agents.names)
            ]
        return found_rows if len(found_rows) > 1 else next(iter(found_rows.values()))

    def _observations(self) -> Observations:
        found: Observations = {}
        for agents in self._groups.values():
            chosen = np.flatnonzero(agents.shown).tolist()
            rows = agents.rows.observations
            if isinstance(rows, Mapping):
                fields = {name: array.copy() for name, array in rows.items()}
                found.update(
                    {
                        agents.names[i]: {name: array[i] for name, array in fields.items()}
                        for i in chosen
                    }
                )
            else:
                copied = rows.copy()
                found.update({agents.names[i]: copied[i] for i in chosen})
        return found

    def _infos(self) -> Infos:
        found: Infos = {}
        for agents in self._groups.values():
            masks = agents.rows.action_masks
            allowed = None if masks is None else masks.astype(np.int8)
            for i in np.flatnonzero(agents.shown).tolist():
                found[agents.names[i]] = {} if allowed is None else {"action_mask": allowed[i]}
        return found

    # ---- outside the loop ------------------------------------------------------------------------

    def state(self) -> np.ndarray:
        """Return the whole env's state as one (n,) float64 vector.

        It holds the readable fields of `vec.spec.state_fields`, flattened.

        Raises:
            CallOrderError: before the first reset.
            ClosedError: the env is closed.
        """
        if not self._seeded:
            raise CallOrderError("state: call reset first")
        return np.concatenate(
            [np.asarray(value, np.float64).reshape(-1) for value in self.vec.peek(0).values()]
        )

    def render(self) -> np.ndarray | None:
        """Return the episode so far as an (H, W, 3) uint8 picture, or None with render_mode=None.

        For drive: the first scene of the env with the paths driven since the reset. All pictures
            have one size.

        Raises:
            CallOrderError: there was no reset yet. ConfigError: the env's drawing failed.
        """
        return None if self._recorder is None else self._recorder.picture()

    def close(self) -> None:
        """Release the env. May be called any number of times."""
        self.vec.close()


def parallel_env(
    name: str | NativeEnv, *, render_mode: str | None = None, **settings: Any
) -> ParallelEnv:
    """Make a C env as a PettingZoo parallel env.

    Args:
        name: "tag_grid", "drive", another name from `puffervec.envs`, or a NativeEnv.
        render_mode: None, or "rgb_array" where the env has pictures (drive, tag_grid, cartpole).
        settings: the env's settings, as in its config dataclass (checked there; unknown ones
            raise).

    Raises:
        ConfigError: see ParallelEnv.

    >>> env = parallel_env("tag_grid", num_taggers=2)
    >>> env.possible_agents
    ['tagger_0', 'tagger_1', 'runner_0']
    >>> observations, infos = env.reset(seed=0)
    >>> observations["runner_0"].shape
    (13,)
    """
    return ParallelEnv(name, settings, render_mode)


def _name_agents(vec: VectorEnv) -> dict[str, _AgentRows]:
    """Name the rows of each group: by agent type if the env's types have names, else by group."""
    type_names = (
        vec.env.agent_types if isinstance(vec.env, NativeEnv) else ()
    )  # agents of other envs are named after their group
    counts: dict[str, int] = {}
    found = {}
    for group, rows in vec.halves[0].groups.items():
        names = []
        for agent_type in rows.agent_types.tolist():
            kind = type_names[agent_type] if type_names else group.removesuffix("s")
            names.append(f"{kind}_{counts.setdefault(kind, 0)}")
            counts[kind] += 1
        nobody = np.zeros(rows.rows, np.bool_)
        found[group] = _AgentRows(rows, names, nobody, nobody.copy())
    return found


def _some(names: Sequence[str]) -> str:
    """Return the first few of `names` as text for a message."""
    return ", ".join(map(repr, names[:4])) + (
        f" and {len(names) - 4} more" if len(names) > 4 else ""
    )
