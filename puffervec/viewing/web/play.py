# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The page of `puffer-train play`: a person plays one agent by keyboard, among trained ones.

    page (static/play.js)                 server
      {"begin": seed}              -->    resets an env
                                   <--    {"scene": ...}, {"moment": ...}
      {"agent": name}, {"start"}   -->    steps at the drawing's rate:  <-- {"moment": ...}
      {"keys": [...]}, {"seen": step}, {"pause": ...}, {"speed": ...}
                                   <--    {"result": {"you": ..., "policy": ...}}

The env and the policy run in this process, and one page plays at a time. The clock stops while the
page is hidden or lags behind (see AHEAD).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import puffervec
from puffervec.contract.evaluation import Actor
from puffervec.contract.keyboard import Keys
from puffervec.contract.native import NativeEnv
from puffervec.errors import PuffervecError
from puffervec.viewing.render.episode import Episode
from puffervec.viewing.web import constants
from puffervec.viewing.web.choose import viewing_settings
from puffervec.viewing.web.replay import clock_and_scale, event_of
from puffervec.viewing.web.serve import Server
from puffervec.viewing.web.shapes import Looks, numbers_of

if TYPE_CHECKING:
    from aiohttp import web

FILES = (
    constants.STYLE,
    "static/pages.css",
    "static/play.css",
    constants.SCRIPT,
    "static/colours.js",
    "static/dom.js",
    "static/scene.js",
    "static/stage.js",
    "static/gestures.js",
    "static/legend.js",
    "static/live.js",
)
SCRIPT = "static/play.js"
RELEASE_S = 2.0
AHEAD = 3  # Number of moments by which the game may be ahead of the page.
MOST_MESSAGE = 4096
SPEEDS = (0.25, 0.5, 1.0)


@dataclass
class Round:
    """One agent's rewards and facts in an episode.

    Attributes:
        rewards: rewards of the agent's valid steps.
        facts: the last known facts about the agent.
    """

    rewards: list[float] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the sums for the page."""
        return {"return": float(sum(self.rewards)), "steps": len(self.rewards), "facts": self.facts}


class Game:
    """An env in which a policy plays all agents except one; independent of pages and clocks."""

    def __init__(self, env: NativeEnv, config: Any, actor: Actor) -> None:
        """Make the env.

        Args:
            env: env that has a drawing and keys.
            config: the env's settings for evaluations.
            actor: actor that plays the other agents.

        Raises:
            ConfigError: the env refuses its settings.
        """
        assert env.drawing is not None and env.keys is not None
        self.env, self.actor = env, actor
        config = viewing_settings(env, config, actor)
        env.keys(config)  # Raises for bad settings before an env is made.
        self.vec = puffervec.make(env, env_kwargs=config, backend="serial", num_envs=1)
        self.begin(0)

    def begin(self, seed: int) -> None:
        """Begin the episode of a seed; in an env with tasks, the task is seed modulo tasks."""
        if self.vec.spec.tasks:
            self.vec.set_tasks([0], [seed % self.vec.spec.tasks])
        assert self.env.drawing is not None and self.env.keys is not None
        self.keys: Keys = self.env.keys(self.vec.config)
        self.seed, self.held = seed, dict[str, int]()
        self.actor.reset(self.vec)
        self.vec.async_reset(seed)
        self.observations = self.vec.recv()[0]
        state = self.vec.peek(0)
        self.episode = Episode(self.env.name, self.env.drawing, self.vec.config, state)
        self.looks = Looks(dict(self.episode.drawing.colours))
        self.sent = 0, 0, 0  # Styles, roles and events that the page has.
        self.state = state

    def agents(self) -> dict[str, int]:
        """Return the rows that take part, by the names of their agents."""
        names, masks = self.episode.drawing.agents, self._all_rows("masks")
        return {
            (names[row] if row < len(names) else "") or f"row {row}": row
            for row in np.flatnonzero(masks).tolist()
        }

    def step(self, row: int | None = None, held: Collection[str] = ()) -> None:
        """Take a step of all agents.

        Args:
            row: row that the keys control; None: the policy plays all agents.
            held: the keys that are held down.
        """
        actions = self.actor.act(self.observations, self.vec)
        if row is not None:
            self.held = {key: self.held.get(key, 0) + 1 for key in self.keys.names if key in held}
            actions = self._replace_action(
                actions, row, self.episode.call_drawing(lambda: self.keys.action(self.held))
            )
        self.vec.send(actions)
        self.observations = self.vec.recv()[0]
        self.state = self.vec.peek(0)
        self.episode.add(self.state)

    def record(self, row: int, result: Round) -> bool:
        """Add an agent's last step to its result; return whether it and the episode continue."""
        present = bool(self._all_rows("masks")[row])
        if present:
            result.rewards.append(float(self._all_rows("rewards")[row]))
            result.facts = self.facts(row) or result.facts
        over = self._all_rows("terminals")[row] or self._all_rows("truncations")[row]
        return present and not over and not self.vec.rows.over(0).any()

    def facts(self, row: int) -> dict[str, float]:
        """Return the drawing's facts about an agent."""
        drawing = self.episode.drawing
        name = drawing.agents[row] if row < len(drawing.agents) else ""
        describe = drawing.facts
        if describe is None or not name:
            return {}
        facts = self.episode.call_drawing(lambda: dict(describe(self.state)))
        return {
            fact: round(float(number), 4)
            for fact, number in facts.get(name, {}).items()
            if np.isfinite(number)
        }

    def _all_rows(self, name: str) -> np.ndarray:
        groups = self.vec.halves[0].groups
        return np.concatenate(
            [np.asarray(getattr(groups[group.name], name)).copy() for group in self.vec.spec.groups]
        )

    def _replace_action(self, actions: Any, row: int, action: Any) -> Any:
        """Return the actions of all rows with one row's replaced."""
        by_group = (
            dict(actions)
            if isinstance(actions, Mapping)
            else {self.vec.spec.groups[0].name: actions}
        )
        for group in self.vec.spec.groups:
            if row < group.agents:
                changed = np.array(by_group[group.name])
                changed[row] = np.asarray(action, changed.dtype).reshape(changed[row].shape)
                by_group[group.name] = changed
                break
            row -= group.agents
        return by_group if isinstance(actions, Mapping) else next(iter(by_group.values()))

    # ---- messages to a page

    def scene(self) -> dict[str, Any]:
        """Return what stays constant in an episode."""
        drawing = self.episode.drawing
        still = [self._shape(shape) for shape in drawing.still]
        return {
            "env": self.env.name,
            "title": drawing.title,
            "seed": self.seed,
            "view": list(drawing.view),
            "fps": drawing.fps,
            **clock_and_scale(drawing),
            "still": still,
            "agents": list(self.agents()),
            "keys": dict(self.keys.names),
            **self._news(),
        }

    def moment(self) -> dict[str, Any]:
        """Return what is drawn now."""
        moment = self.episode.moment
        shapes = [self._shape(shape) for shape in moment.shapes]
        facts = (
            {name: self.facts(row) for name, row in self.agents().items()}
            if moment.step == 0
            else {}
        )
        return {
            "step": moment.step,
            "shapes": shapes,
            "numbers": moment.numbers,
            "facts": facts,
            **self._news(),
        }

    def _shape(self, shape: Any) -> dict[str, Any]:
        words = {
            key: word
            for key, word in (
                ("name", shape.name),
                ("of", shape.of),
                ("text", getattr(shape, "text", "")),
            )
            if word
        }
        return {
            "s": self.looks.style(shape),
            "n": [round(number, 4) for number in numbers_of(shape)],
            **words,
        }

    def _news(self) -> dict[str, Any]:
        """Return the styles, roles and events that the page does not have yet."""
        events = self.episode.moment.events
        places = [event_of(step, one, self.looks) for step, one in events[self.sent[2] :]]
        styles, roles = list(self.looks.styles), self.looks.roles
        news = {
            "styles": [list(style) for style in styles[self.sent[0] :]],
            "roles": [[role, self.looks.colours.get(role, "")] for role in roles[self.sent[1] :]],
            "events": places,
        }
        self.sent = len(styles), len(roles), len(events)
        return news

    def close(self) -> None:
        """Close the env."""
        self.vec.close()


class Session:
    """A page that plays: its latest requests, and the loop that carries them out."""

    def __init__(
        self, game: Game, send: Callable[[dict[str, Any]], Awaitable[None]], seed: int
    ) -> None:
        """Prepare to play.

        Args:
            game: the game to play.
            send: sends a message, and waits while the page accepts none.
            seed: seed of the first episode.
        """
        self._game, self._send = game, send
        self._seed: int | None = seed
        self._row: int | None = None
        self._started = self._paused = False
        self._held: set[str] = set()
        self._speed, self._seen = 1.0, 0
        self._changed = asyncio.Event()

    def receive(self, text: str) -> None:
        """Handle a message from the page; ignore unknown ones."""
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            message = json.loads(text)
            match message:
                case {"begin": int(seed)} if 0 <= seed < 2**31:
                    self._seed, self._started = seed, False
                case {"start": str(agent)} if self._seed is None and agent in self._game.agents():
                    self._row, self._started = self._game.agents()[agent], True
                case {"keys": list(keys)}:
                    self._held = {key for key in keys if key in self._game.keys.names}
                case {"seen": int(step)}:
                    self._seen = max(self._seen, step)
                case {"pause": bool(paused)}:
                    self._paused = paused
                case {"speed": float(speed) | int(speed)} if speed in SPEEDS:
                    self._speed = float(speed)
            self._changed.set()

    async def play(self) -> None:
        """Play until cancelled, or until the env fails, which is reported to the page."""
        try:
            await self._play()
        except PuffervecError as error:
            await self._send({"trouble": " ".join(str(error).split())})

    async def _play(self) -> None:
        clock = asyncio.get_running_loop().time
        due, result = clock(), Round()
        while True:
            if self._seed is not None:
                result = await self._begin(self._seed)
            ahead = self._game.episode.moment.step - self._seen >= AHEAD
            if not self._started or self._paused or ahead or self._row is None:
                await self._changed.wait()
                self._changed.clear()
                due = clock()
                continue
            await asyncio.sleep(max(0.0, due - clock()))
            due = max(due, clock() - 1.0) + 1.0 / (self._game.episode.drawing.fps * self._speed)
            if self._seed is None and self._started:
                await self._step(self._row, result)

    async def _begin(self, seed: int) -> Round:
        self._game.begin(seed)
        self._seed, self._row, self._started, self._seen = None, None, False, 0
        await self._send({"scene": self._game.scene()})
        await self._send({"moment": self._game.moment()})
        return Round()

    async def _step(self, row: int, result: Round) -> None:
        self._game.step(row, self._held)
        continues = self._game.record(row, result)
        await self._send({"moment": self._game.moment(), "you": result.to_json()})
        if not continues:
            self._started = False
            await self._send(
                {"result": {"you": result.to_json(), "policy": (await self._policy(row)).to_json()}}
            )

    async def _policy(self, row: int) -> Round:
        """Return the policy's result for this agent in the same episode."""
        result = Round()
        self._game.begin(self._game.seed)
        continues = True
        while continues:
            self._game.step()
            continues = self._game.record(row, result)
            await asyncio.sleep(0)
        return result


class Routes:
    """The answers to the page's requests."""

    def __init__(self, server: Server, game: Game, seed: int) -> None:
        """Add the routes to a server."""
        self._game, self._seed = game, seed
        self._open: web.WebSocketResponse | None = None
        server.app.on_shutdown.append(self._close)
        server.page("puffervec: play", FILES, SCRIPT)
        server.get("socket", self.socket)

    async def socket(self, request: web.Request) -> web.StreamResponse:
        """Play with a page over a websocket."""
        from aiohttp import WSMsgType, web

        socket = web.WebSocketResponse(max_msg_size=MOST_MESSAGE, heartbeat=20.0, compress=False)
        await self._wait_until_free()
        if self._open is not None:
            await socket.prepare(request)
            await socket.send_json(
                {"trouble": "Another page is playing: close it, then reload this one."}
            )
            await socket.close()
            return socket
        self._open = socket
        try:
            await socket.prepare(request)
            session = Session(self._game, socket.send_json, self._seed)
            playing = asyncio.create_task(session.play())
            playing.add_done_callback(lambda _: asyncio.ensure_future(socket.close()))
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    session.receive(message.data)
            playing.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await playing
        finally:
            self._open = None
        return socket

    async def _wait_until_free(self) -> None:
        """Wait a moment for the connection of a page that is being reloaded to close."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_S):
                while self._open is not None:
                    await asyncio.sleep(0.05)

    async def _close(self, app: web.Application) -> None:
        """Close the connection when the command ends, without waiting for the page."""
        if self._open is not None:
            await self._open.close()


def play(game: Game, seed: int, server: Server, ready: Callable[[str], None]) -> int:
    """Serve the page until a signal comes; return its number.

    Raises:
        ConfigError: the port is taken.
    """
    Routes(server, game, seed)
    return server.run(ready)
