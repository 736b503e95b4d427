# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The common part of AsyncVectorEnv and SyncVectorEnv, over a puffervec vector env.

    Gymnasium's calls (reset, step, call, ...)  ->  this file
    ->  puffervec.vec.vector_env.VectorEnv  ->  workers, slab

Runs in the learner.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium import logger
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from puffervec.errors import CallOrderError, WorkerError
from puffervec.gym import arguments
from puffervec.gym.infos import batch_infos
from puffervec.gym.rows import ActionWriter, ObservationReader
from puffervec.gym.side_channel import SideChannelNeeds, SideChannelReader
from puffervec.vec.vector_env import VectorEnv as CoreVectorEnv

EnvFn = Callable[[], gymnasium.Env[Any, Any]]
Seed = int | Sequence[int | None] | NDArray[np.integer[Any]] | None
Step = tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class PythonVectorEnv(VectorEnv[Any, Any, NDArray[Any]]):
    """A Gymnasium vector env whose envs are Python envs that a puffervec backend steps.

    Numbers in infos arrive as int64, float64 or bool, whatever NumPy type the env uses.

    Attributes:
        num_envs, single_observation_space, single_action_space, observation_space, action_space,
            metadata, render_mode, spec, closed: as in gymnasium.vector.VectorEnv.
        autoreset_mode: the AutoresetMode.
        copy, env_fns, observation_mode: the arguments.
        core: the puffervec vector env underneath.
    """

    core: CoreVectorEnv
    _never_reset = True

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        copy: bool,
        observation_mode: Any,
        autoreset_mode: str | AutoresetMode,
    ) -> None:
        """Store the arguments. A subclass calls `_describe` and `_open` next."""
        self.env_fns = arguments.env_fns(env_fns)
        self.num_envs = len(self.env_fns)
        self.copy = copy
        self.observation_mode = observation_mode
        self.autoreset_mode = arguments.autoreset_mode(autoreset_mode)

    # ---- construction ----------------------------------------------------------------------------

    def _describe(
        self, env: gymnasium.Env[Any, Any], observation_spaces: Sequence[gymnasium.Space[Any]]
    ) -> None:
        """Set spaces, metadata and render mode from one env and all envs' observation spaces."""
        # A copy: the dict usually belongs to the env's class.
        self.metadata = {**env.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = env.render_mode
        self._side_channel = SideChannelNeeds.of(env)
        self.single_action_space = env.action_space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        spaces = arguments.observation_spaces(self.observation_mode, observation_spaces)
        self.observation_space, self.single_observation_space = spaces

    def _open(self, core: CoreVectorEnv) -> None:
        """Take over the core vector env."""
        self.core = core
        group = core.spec.groups[0]
        # All Python envs have plans.
        assert group.observation_plan is not None and group.action_plan is not None
        self._observations: ObservationReader | SideChannelReader
        if self._side_channel.observations:
            self._observations = SideChannelReader(self.single_observation_space, self.num_envs)
        else:
            self._observations = ObservationReader(group.observation_plan, self.copy)
        plan = None if self._side_channel.actions else group.action_plan
        self._actions = ActionWriter(
            plan, self.single_action_space, self.action_space, self.num_envs
        )

    # ---- reset and step, in two parts each -------------------------------------------------------

    def _send_reset(
        self,
        seeds: list[int | None],
        mask: NDArray[np.bool_] | None,
        options: dict[str, Any] | None,
    ) -> None:
        self._never_reset = False
        # The first reset must be of all envs: a mask that is True everywhere counts as one.
        some = mask is not None and not mask.all()
        self.core.async_reset(seeds, mask=mask if some else None, options=options)

    def _recv_reset(self, timeout_s: float | None) -> tuple[Any, dict[str, Any]]:
        rows, _, _, _, infos, _, _ = self.core.recv(timeout_s)
        infos = self._observations.take(infos)
        return self._observations.read(rows), batch_infos(infos, self.num_envs)

    def _send_step(self, actions: Any) -> None:
        rows = self._actions.rows(actions)
        if self._never_reset and not arguments.needs_reset(self.core.driver_env):
            self._never_reset = False
            self.core.begin()
        send(self.core, rows)

    def _recv_step(self, timeout_s: float | None) -> Step:
        rows, _, terminals, truncations, infos, _, _ = self.core.recv(timeout_s)
        batch = batch_infos(self._observations.take(infos), self.num_envs)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._add_final(batch, np.flatnonzero(terminals | truncations))
        return (
            self._observations.read(rows),
            self.core.exact_rewards(),
            terminals.copy(),
            truncations.copy(),
            batch,
        )

    def _add_final(self, batch: dict[str, Any], done: NDArray[np.intp]) -> None:
        """Add `final_obs` for the envs whose episode ended.

        Final observations have rows of their own, which the reset does not overwrite.
        """
        if not done.size:
            return
        for key in ("final_obs", "final_info"):
            mask = batch.setdefault(f"_{key}", np.zeros(self.num_envs, np.bool_))
            mask[done] = True
        batch.setdefault("final_info", {})
        batch["final_obs"] = np.full(self.num_envs, None, object)
        rows = self.core.final_observations
        for index in done.tolist():
            batch["final_obs"][index] = self._observations.final(rows, index)

    # ---- attributes and calls --------------------------------------------------------------------

    call: Callable[..., tuple[Any, ...]]  # Subclasses define it.

    def get_attr(self, name: str) -> tuple[Any, ...]:
        return self.call(name)

    def _one_each(self, values: Any) -> list[Any]:
        """Return a list of one value per env: the entries of a list or tuple, or the same value."""
        each = list(values) if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(
                "Values must be a list or tuple with length equal to the number of environments. "
                f"Got `{len(each)}` values for {self.num_envs} environments."
            )
        return each

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """The generators of all sub-envs (copies where the envs are in other processes)."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seeds of all sub-envs' generators."""
        return self.get_attr("np_random_seed")

    def render(self) -> tuple[Any, ...]:
        return self.call("render")


def send(core: CoreVectorEnv, rows: Any) -> None:
    """Send action rows.

    Raises:
        DoneEnvError: an env is done and autoreset is disabled.
        ResetNeeded: there was no reset yet.
        ActionError: the actions cannot be used.
    """
    try:
        core.send(rows)
    except CallOrderError as error:
        ended = next(iter(core.halves[0].groups.values()))
        if core.autoreset_mode == "disabled" and (ended.terminals | ended.truncations).any():
            raise arguments.DoneEnvError(str(error)) from None
        raise ResetNeeded("step before the first reset: call reset() first") from None


def log_errors(errors: Sequence[WorkerError]) -> None:
    """Report each exception of an env by two warnings, as Gymnasium's AsyncVectorEnv does.

    Args:
        errors: one per worker.
    """
    # If warnings are turned into errors, the env's exception still takes precedence.
    with contextlib.suppress(Warning):
        for error in errors:
            text = str(error)
            logger.error(
                "Received the following error from Worker-%s - Shutting it down", error.env
            )
            logger.error("%s", text[max(text.find("Traceback (most recent call last)"), 0) :])
        logger.error("Raising the last exception back to the main process.")


def raise_original(error: WorkerError) -> NoReturn:
    """Raise an env's exception, with a note that names worker, env and step.

    An error that no env raised is raised unchanged.
    """
    original = error.__cause__
    if not isinstance(original, Exception):
        raise error
    original.add_note(str(error))
    raise original from None
