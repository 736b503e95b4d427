# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Python envs as the learner sees them: the counterpart of native.py.

It describes their kind, their spaces as rows, and what workers need to make them. Workers step them
in block.py, through the same function table as C envs.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from puffervec._ffi import ffi, lib
from puffervec.contract.native import EnvData
from puffervec.contract.training import Training
from puffervec.core.spec import EnvSpec, GroupSpec, leaf_fields
from puffervec.errors import ConfigError
from puffervec.workers.python import global_random, travel
from puffervec.workers.python.creators import Creator
from puffervec.workers.python.emulation import ActionPlan, ObservationPlan
from puffervec.workers.python.puffer_env import PufferEnv

GYMNASIUM, PARALLEL, PUFFER = "gymnasium", "parallel", "puffer"
_tokens = itertools.count(1)


@dataclass(frozen=True)
class PythonSource:
    """The creators and the description of the envs of one vector env.

    It travels to the workers as bytes (travel.py).

    Attributes:
        kind: "gymnasium", "parallel" (PettingZoo) or "puffer" (a PufferEnv, which writes its rows
            itself).
        creators: one per env.
        agents: number of rows per env.
        possible_agents: the agents of a parallel env.
        observation_space: space of one row, as the env declares it.
        action_space: space of one row's action, as the env declares it.
        seed: seed for creators that have such a parameter; env i gets seed + i.
        entropy: seed for the global generators of envs without a seed (global_random.py).
        absent_terminal: whether absent agents are terminal, as in PufferLib.
    """

    token: int
    kind: str
    creators: Sequence[Creator]
    agents: int
    possible_agents: tuple[Any, ...]
    observation_space: Any
    action_space: Any
    autoreset: str
    seed: int | None
    entropy: int
    absent_terminal: bool


def dump_source(env: PythonEnv) -> bytes:
    """Pickle an env's source for workers, and the Gymnasium ids that this process knows.

    Raises:
        ConfigError: an env creator cannot be pickled (the message names it and what it holds), or
            creators return the env that they hold for several rows.
    """
    from puffervec.workers.python import registry

    source = env.source
    try:
        data, held = travel.pack((source, registry.packed()))
    except Exception as error:
        raise ConfigError(
            f"the env creator {_unsendable(source.creators)!r} cannot be sent to worker processes "
            f"({type(error).__name__}: {error}): create what it holds inside the creator, or use "
            "backend='serial'"
        ) from error
    if held:
        _refuse_held(env, held)
    return data


def _refuse_held(env: PythonEnv, held: Sequence[Any]) -> None:
    """Raise if creators return one env for two rows.

    Different workers would each get a copy, so it would go unnoticed.

    Args:
        env: the env whose creators to check.
        held: the envs that were found in the creators. To check, the first two creators that hold
            the same env are called.
    """
    creators, holders = env.source.creators, dict[int, list[int]]()
    for row, creator in enumerate(creators):
        for one in travel.pack(creator)[1]:
            holders.setdefault(id(one), []).append(row)
    made, known = {0: env.driver}, {id(one) for one in held}
    for rows in holders.values():
        first_rows: dict[int, int] = {}
        for row in rows[:2] if len(rows) > 1 else ():
            if row not in made:
                made[row] = creators[row].make(
                    seed=None if env.source.seed is None else env.source.seed + row
                )
            refuse_twice(made[row], row, first_rows)
    for one in list(made.values())[1:]:
        if not any(id(inner) in known for inner in envs_in(one)):
            close_quietly(one)


def refuse_twice(made: Any, row: int, rows: dict[int, int]) -> dict[int, int]:
    """Raise ConfigError if `made` is the env of another row, or holds it.

    Returns:
        {id of a living env: row}.
    """
    for inner in reversed(list(envs_in(made))):
        other = rows.setdefault(id(inner), row)
        if other != row:
            raise ConfigError(
                f"envs {other} and {row} are one object ({type(inner).__name__}), whose episodes "
                "would mix: make a new env in each creator, as in [lambda: "
                "gymnasium.make('CartPole-v1')] * 2"
            )
    return rows


def envs_in(env: Any) -> Iterator[Any]:
    """Yield the env and all envs that are reachable from it through attributes.

    These are the envs inside wrappers and adapters.
    """
    seen, found = {id(env)}, [env]
    while found:
        one = found.pop()
        yield one
        for value in getattr(one, "__dict__", {}).values():
            if id(value) not in seen and travel.is_env(value):
                seen.add(id(value))
                found.append(value)


def close_quietly(env: Any) -> None:
    """Close an env that was only inspected; some cannot be closed before a reset."""
    close = getattr(env, "close", None)
    if close is not None:
        with contextlib.suppress(Exception):
            close()


def load_source(data: bytes) -> PythonSource:
    """Return the source that `dump_source` has pickled in the learner.

    The learner's Gymnasium ids are known in this process from then on.
    """
    from puffervec.workers.python import registry

    source, known = travel.loads(data)
    registry.adopt(known)
    return source  # type: ignore[no-any-return]


def _unsendable(creators: Sequence[Creator]) -> Any:
    """Return the first function that cannot be pickled, by itself or with its arguments."""
    for creator in creators:
        try:
            travel.dumps(creator)
        except Exception:
            return creator.function
    return creators[0].function


class PythonEnv:
    """A set of Python envs of one kind with equal spaces.

    One of them, the driver env, is made in this process to read the spaces.

    Attributes:
        name: name for messages.
        driver: the driver env.
        source: the part that workers get.
    """

    training = Training()
    agent_types: tuple[str, ...] = ()
    config = type(None)

    def __init__(self, creators: Sequence[Creator], autoreset: str, seed: Any) -> None:
        """Make the driver env and read its kind and spaces.

        Raises:
            ConfigError: the creator did not make an env, a space does not fit a row, or this kind
                of env does not support the mode. Errors of the creator are passed on.
        """
        first = seed if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) else None
        token = next(_tokens)
        entropy = global_random.entropy(token)  # before any env can draw
        self.driver = creators[0].make(seed=None if first is None else int(first))
        try:
            kind, agents, possible = _look(self.driver, autoreset)
            self.source = PythonSource(
                token,
                kind,
                creators,
                agents,
                possible,
                *spaces_of(unwrapped(self.driver), kind),
                autoreset,
                None if first is None else int(first),
                entropy,
                creators[0].always or vars(type(self.driver)).get("emulates") == PARALLEL,
            )
            self.observation_plan = ObservationPlan(self.source.observation_space)
            self.action_plan = ActionPlan(self.source.action_space)
        except BaseException:
            self.close()
            raise
        self.name = _name(self.driver)

    @property
    def preload(self) -> list[str]:
        """Modules that a fork server may import for its workers.

        They are puffervec's, and those of Gymnasium that the env is made of. The user's own are not
        among them: they may start threads or open devices, which do not survive a fork.
        """
        found = {"puffervec.workers.python.block"}
        env = unwrapped(self.driver)
        while env is not None:
            module = type(env).__module__
            if module.startswith("gymnasium.") and not module.startswith("gymnasium.envs.mujoco"):
                found.add(module)
            env = getattr(env, "__dict__", {}).get("env")
        return sorted(found)

    @property
    def takes_native(self) -> bool:
        """Whether the envs accept actions in the form of `puffervec.core.actions.Native`.

        A PufferEnv does not, because it reads its actions from rows.
        """
        return self.source.kind != PUFFER

    def configure(self, settings: Any) -> None:
        """Refuse settings: Python envs have none, since their creators have arguments instead."""
        if settings:
            raise ConfigError(
                f"{self.name} is a Python env: pass its settings to its creator (env_kwargs)"
            )

    def build(self, config: None) -> EnvData:
        """Return no data: a Python env reads its own."""
        return EnvData()

    def pack(self, config: None) -> bytes:
        """Return the config of the env blocks: the token of their source."""
        return struct.pack("<Q", self.source.token)

    def describe(
        self, config: bytes, params: bytes, data: Any, autoreset: str
    ) -> tuple[Any, EnvSpec]:
        """Return the C `pv_spec` with one group of raw rows, and its Python form."""
        group = _group(self.source, self.observation_plan, self.action_plan)
        c_spec = ffi.new("pv_spec*", {"group_count": 1})
        c_group = c_spec.groups[0]
        c_group.name, c_group.agents = group.name.encode(), group.agents
        c_group.observation_bytes, c_group.action_bytes = (
            group.observation_bytes,
            group.action_bytes,
        )
        c_group.action_kind = lib.PV_RAW
        return c_spec, EnvSpec((group,), (), (), (), 0, 0, 0)

    def close(self) -> None:
        """Close the driver env."""
        close_quietly(self.driver)


def _group(source: PythonSource, observation: ObservationPlan, action: ActionPlan) -> GroupSpec:
    return GroupSpec(
        name="agents",
        agents=source.agents,
        fields=leaf_fields(observation),
        observation_bytes=observation.row_bytes,
        action_kind=action.kind,
        action_sizes=tuple(action.sizes) or (0,) * np.size(action.low),
        action_low=tuple(np.ravel(action.low).tolist()),
        action_high=tuple(np.ravel(action.high).tolist()),
        action_mask_size=0,
        observation_plan=observation,
        action_plan=action,
        agent_names=tuple(map(str, source.possible_agents)),
    )


def _name(env: Any) -> str:
    spec = getattr(env, "spec", None)
    return str(getattr(spec, "id", None) or type(getattr(env, "unwrapped", env)).__name__)


def unwrapped(env: Any) -> Any:
    """Return the env inside an emulation wrapper, which would copy every row a second time.

    The class of such a wrapper has an attribute `emulates` with the kind of its env. A subclass of
    it is kept as it is, because the methods that it overrides must take effect.
    """
    return env.env if "emulates" in vars(type(env)) else env


def _look(driver: Any, autoreset: str) -> tuple[str, int, tuple[Any, ...]]:
    """Return kind, agents and possible agents of an env."""
    import gymnasium

    env = unwrapped(driver)
    agents: int = 1
    possible: tuple[Any, ...] = ()
    if isinstance(env, PufferEnv) or hasattr(type(env), "emulates"):
        kind, agents = PUFFER, env.num_agents
        if autoreset != "next_step":
            raise ConfigError(_resets_itself(env, autoreset))
    # An emulation wrapper may hold an env that only looks like a gymnasium.Env.
    elif isinstance(env, gymnasium.Env) or getattr(type(driver), "emulates", "") == GYMNASIUM:
        kind = GYMNASIUM
    elif hasattr(env, "possible_agents") and not hasattr(env, "agent_iter"):
        kind, possible = PARALLEL, tuple(env.possible_agents)
        agents = len(possible)
    else:
        raise ConfigError(_no_env(env))
    return kind, agents, possible


def spaces_of(env: Any, kind: str) -> tuple[Any, Any]:
    """Return the observation space and the action space of one row."""
    if kind == GYMNASIUM:
        return env.observation_space, env.action_space
    if hasattr(type(env), "emulates"):
        return env.observation_plan.space, env.action_plan.space
    if kind == PUFFER:
        return env.single_observation_space, env.single_action_space
    return shared_spaces(env, env.possible_agents)


def _resets_itself(env: Any, autoreset: str) -> str:
    given = f"autoreset_mode is {autoreset!r} for {type(env).__name__}, "
    if isinstance(env, PufferEnv):
        why = "a PufferEnv: it resets itself and overwrites its last observation"
    else:
        why = "a subclass of an emulation wrapper, which writes its rows itself"
    return f"{given}{why}; use 'next_step', which does not reset it"


def _no_env(env: Any) -> str:
    found = f"the env creator made {type(env).__module__}.{type(env).__qualname__}"
    if hasattr(env, "agent_iter"):
        return f"{found}, a PettingZoo AEC env: convert it with pettingzoo.utils.aec_to_parallel"
    return f"{found}: give a gymnasium.Env, a PettingZoo ParallelEnv or a PufferEnv"


def shared_spaces(env: Any, possible: Sequence[Any]) -> tuple[Any, Any]:
    """Return the spaces that all agents of a parallel env share.

    Raises:
        ConfigError: the agents' spaces differ, or there are no agents.
    """
    if not possible:
        raise ConfigError(f"{_name(env)} has no possible_agents: rows need a fixed list of them")
    found = []
    for name in ("observation_space", "action_space"):
        spaces = [getattr(env, name)(agent) for agent in possible]
        for agent, space in zip(possible, spaces, strict=True):
            if space != spaces[0]:
                raise ConfigError(
                    f"{_name(env)}: {name} of {agent!r} is {space}, that of {possible[0]!r} "
                    f"{spaces[0]}: all agents need the same spaces; pad them "
                    "(supersuit.pad_observations_v0, pad_action_space_v0)"
                )
        found.append(spaces[0])
    return found[0], found[1]
