# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Run episodes and record what a drawing needs: the states of one env, and the numbers of all.

Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import puffervec
from puffervec.contract.evaluation import Actor
from puffervec.contract.native import NativeEnv
from puffervec.errors import ConfigError
from puffervec.viewing.render.episode import Episode, Moment


@dataclass(frozen=True)
class Recording:
    """The recording of the first episode of every env.

    Attributes:
        states: States of the first env from `peek`: after the reset and after each step to the end
            of its episode.
        numbers: Numbers of all envs, (steps + 1, envs) float64 by name; an env whose episode is
            over keeps its last numbers.
        env, config: `moments` draws with them.
    """

    env: NativeEnv
    config: Any
    states: list[dict[str, np.ndarray]]
    numbers: dict[str, np.ndarray]

    def episode(self) -> Episode:
        """Return the first episode at its beginning.

        Raises:
            ConfigError: See `Episode`.
        """
        assert self.env.drawing is not None
        return Episode(self.env.name, self.env.drawing, self.config, self.states[0])

    def moments(self) -> Iterator[Moment]:
        """Yield the moments of the first episode, one for each state."""
        episode = self.episode()
        yield episode.moment
        for state in self.states[1:]:
            yield episode.add(state)


def record(
    env: NativeEnv, config: Any, actor: Actor, *, episodes: int, most_steps: int, seed: int
) -> Recording:
    """Run an episode in each of `episodes` envs, in this process.

    Args:
        env: An env with a drawing.
        config: Its settings; if it has tasks, each env gets the next task, cyclically.
        most_steps: Maximum length of an episode; longer ones are cut off.

    Raises:
        ConfigError: The env refuses its settings, or its drawing failed.
        WorkerError: An env failed.
    """
    with puffervec.make(
        env, env_kwargs=config, backend="serial", num_envs=episodes, seed=seed
    ) as vec:
        if vec.spec.tasks:
            vec.set_tasks(
                range(episodes), [(seed + number) % vec.spec.tasks for number in range(episodes)]
            )
        actor.reset(vec)
        vec.async_reset(seed)
        obs = vec.recv()[0]
        drawing, starts = env.drawing, [vec.peek(number) for number in range(episodes)]
        assert drawing is not None
        drawn = [Episode(env.name, drawing, vec.config, state) for state in starts]
        states, running = starts[:1], np.ones(episodes, np.bool_)
        numbers = [[episode.moment.numbers for episode in drawn]]
        while running.any() and len(numbers) <= most_steps:
            vec.send(actor.act(obs, vec))
            obs = vec.recv()[0]
            newest = [vec.peek(number) if running[number] else None for number in range(episodes)]
            if newest[0] is not None:
                states.append(newest[0])
            pairs = zip(drawn, newest, numbers[-1], strict=True)
            numbers.append(
                [
                    last if state is None else episode.numbers(state)
                    for episode, state, last in pairs
                ]
            )
            running &= ~vec.rows.over(0)
        names = numbers[0][0]
        if odd := next(
            (one for step in numbers for one in step if one.keys() != names.keys()), None
        ):
            raise ConfigError(
                f"{env.name}: its drawing returned the numbers {', '.join(names)}, and later "
                f"{', '.join(odd)}: return the same names at every step"
            )
        columns = {
            name: np.array([[one[name] for one in step] for step in numbers]) for name in names
        }
        return Recording(env, vec.config, states, columns)
