# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The page of `puffer-train play`: somebody plays one agent of an env by keyboard, among trained
ones (static/play.js).

    page                                  server
      {"begin": seed}              -->    resets an env
                                   <--    {"scene": ...}, {"moment": ...}
      {"agent": name}, {"start"}   -->    steps at the drawing's rate:  <-- {"moment": ...}
      {"keys": [...]}, {"seen": step}, {"pause": ...}, {"speed": ...}
                                   <--    {"result": {"you": ..., "policy": ...}}

The env and the policy are in this process, and one page plays at a time. The clock stands while
nobody looks: where the page is hidden, or has not seen the last moments yet.
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
from puffervec.errors import ConfigError, PuffervecError
from puffervec.viewing.render.episode import Episode
from puffervec.viewing.web.choose import shown_settings
from puffervec.viewing.web.replay import clock_and_scale, event_of
from puffervec.viewing.web.serve import Server
from puffervec.viewing.web.shapes import Looks, numbers_of

if TYPE_CHECKING:
    from aiohttp import web

FILES = (
    "static/pages.css", "static/play.css", "static/colours.js", "static/dom.js", "static/scene.js", "static/stage.js",
    "static/gestures.js", "static/legend.js", "static/live.js",
)  # fmt: skip
SCRIPT = "static/play.js"
LET_GO_S = 2.0
AHEAD = 3  # moments that a page may not have seen yet
MOST_MESSAGE = 4096
SPEEDS = (0.25, 0.5, 1.0)


@dataclass
class Round:
    """One agent's way through an episode. rewards: of its valid steps. facts: the last that were
    known of it.
    """

    rewards: list[float] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As a page shows it."""
        return {"return": float(sum(self.rewards)), "steps": len(self.rewards), "facts": self.facts}


class Table:
    """An env with agents, of which a policy plays all but one. What is here knows nothing of pages
    and clocks.
    """

    def __init__(self, env: NativeEnv, config: Any, actor: Actor) -> None:
        """Args: env: with a drawing and keys. config: its settings, as they are evaluated.

        Raises: ConfigError: it has none, or refuses its settings.
        """
        if env.drawing is None or env.keys is None:
            raise ConfigError(
                f"{env.name} does not say how it is drawn and played by keys (drawing and keys of "
                "NativeEnv)"
            )
        self.env, self.actor = env, actor
        config = shown_settings(env, config, actor)
        env.keys(config)  # Refuses settings before an env is made.
        self.vec = puffervec.make(env, env_kwargs=config, backend="serial", num_envs=1)
        self.begin(0)

    def begin(self, seed: int) -> None:
        """Begin the episode of a seed; of an env with tasks that with the number of the seed,
        counted round.
        """
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
        self.told = 0, 0, 0  # styles, roles and events that a page knows
        self.state = state

    def agents(self) -> dict[str, int]:
        """The rows that take part, by the names of their agents."""
        names, masks = self.episode.drawing.agents, self._joined("masks")
        return {
            (names[row] if row < len(names) else "") or f"row {row}": row
            for row in np.flatnonzero(masks).tolist()
        }

    def step(self, row: int | None = None, held: Collection[str] = ()) -> None:
        """Take a step of all agents. Args: row: who is played by keys, None: nobody. held: the
        keys.
        """
        actions = self.actor.act(self.observations, self.vec)
        if row is not None:
            self.held = {key: self.held.get(key, 0) + 1 for key in self.keys.names if key in held}
            actions = self._with(
                actions, row, self.episode.guarded(lambda: self.keys.action(self.held))
            )
        self.vec.send(actions)
        self.observations = self.vec.recv()[0]
        self.state = self.vec.peek(0)
        self.episode.add(self.state)

    def take(self, row: int, taken: Round) -> bool:
        """Note what the last step brought an agent; return whether it and the episode go on."""
        there = bool(self._joined("masks")[row])
        if there:
            taken.rewards.append(float(self._joined("rewards")[row]))
            taken.facts = self.facts(row) or taken.facts
        over = self._joined("terminals")[row] or self._joined("truncations")[row]
        return there and not over and not self.vec.rows.over(0).any()

    def facts(self, row: int) -> dict[str, float]:
        """What the drawing says of an agent now."""
        drawing = self.episode.drawing
        name = drawing.agents[row] if row < len(drawing.agents) else ""
        if drawing.facts is None or not name:
            return {}
        found = self.episode.guarded(lambda: dict(drawing.facts(self.state)))  # type: ignore[misc]
        return {
            fact: round(float(number), 4)
            for fact, number in found.get(name, {}).items()
            if np.isfinite(number)
        }

    def _joined(self, what: str) -> np.ndarray:
        groups = self.vec.halves[0].groups
        return np.concatenate(
            [np.asarray(getattr(groups[group.name], what)).copy() for group in self.vec.spec.groups]
        )

    def _with(self, actions: Any, row: int, action: Any) -> Any:
        """Actions of all rows, with another one for a row."""
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

    # ---- as a page has it

    def scene(self) -> dict[str, Any]:
        """What stays the same in an episode."""
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
        """What there is to see now."""
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
        """Styles, roles and events that the page does not know yet."""
        events = self.episode.moment.events
        places = [event_of(step, one, self.looks) for step, one in events[self.told[2] :]]
        styles, roles = list(self.looks.styles), self.looks.roles
        news = {
            "styles": [list(style) for style in styles[self.told[0] :]],
            "roles": [[role, self.looks.colours.get(role, "")] for role in roles[self.told[1] :]],
            "events": places,
        }
        self.told = len(styles), len(roles), len(events)
        return news

    def close(self) -> None:
        """Close the env."""
        self.vec.close()


class Session:
    """A page that plays: what it asked for last, and the loop that does it."""

    def __init__(
        self, table: Table, send: Callable[[dict[str, Any]], Awaitable[None]], seed: int
    ) -> None:
        """Args: send: sends a message, and waits while the page takes none. seed: of the first
        episode.
        """
        self._table, self._send = table, send
        self._seed: int | None = seed
        self._row: int | None = None
        self._started = self._paused = False
        self._held: set[str] = set()
        self._speed, self._seen = 1.0, 0
        self._changed = asyncio.Event()

    def heard(self, text: str) -> None:
        """Take in a message of the page. What means nothing is left out."""
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            said = json.loads(text)
            match said:
                case {"begin": int(seed)} if 0 <= seed < 2**31:
                    self._seed, self._started = seed, False
                case {"start": str(agent)} if self._seed is None and agent in self._table.agents():
                    self._row, self._started = self._table.agents()[agent], True
                case {"keys": list(keys)}:
                    self._held = {key for key in keys if key in self._table.keys.names}
                case {"seen": int(step)}:
                    self._seen = max(self._seen, step)
                case {"pause": bool(paused)}:
                    self._paused = paused
                case {"speed": float(speed) | int(speed)} if speed in SPEEDS:
                    self._speed = float(speed)
            self._changed.set()

    async def play(self) -> None:
        """Play until cancelled, or until the env fails: then the page is told."""
        try:
            await self._play()
        except PuffervecError as error:
            await self._send({"trouble": " ".join(str(error).split())})

    async def _play(self) -> None:
        clock = asyncio.get_running_loop().time
        due, taken = clock(), Round()
        while True:
            if self._seed is not None:
                taken = await self._begin(self._seed)
            ahead = self._table.episode.moment.step - self._seen >= AHEAD
            if not self._started or self._paused or ahead or self._row is None:
                await self._changed.wait()
                self._changed.clear()
                due = clock()
                continue
            await asyncio.sleep(max(0.0, due - clock()))
            due = max(due, clock() - 1.0) + 1.0 / (self._table.episode.drawing.fps * self._speed)
            if self._seed is None and self._started:
                await self._step(self._row, taken)

    async def _begin(self, seed: int) -> Round:
        self._table.begin(seed)
        self._seed, self._row, self._started, self._seen = None, None, False, 0
        await self._send({"scene": self._table.scene()})
        await self._send({"moment": self._table.moment()})
        return Round()

    async def _step(self, row: int, taken: Round) -> None:
        self._table.step(row, self._held)
        goes_on = self._table.take(row, taken)
        await self._send({"moment": self._table.moment(), "you": taken.to_json()})
        if not goes_on:
            self._started = False
            await self._send(
                {"result": {"you": taken.to_json(), "policy": (await self._policy(row)).to_json()}}
            )

    async def _policy(self, row: int) -> Round:
        """The same agent in the same episode, played by the policy."""
        taken = Round()
        self._table.begin(self._table.seed)
        goes_on = True
        while goes_on:
            self._table.step()
            goes_on = self._table.take(row, taken)
            await asyncio.sleep(0)
        return taken


class Played:
    """Answers of the page."""

    def __init__(self, server: Server, table: Table, seed: int) -> None:
        """Add the routes to a server."""
        self._table, self._seed = table, seed
        self._open: web.WebSocketResponse | None = None
        server.app.on_shutdown.append(self._close)
        server.page("puffervec: play", FILES, SCRIPT)
        server.get("socket", self.socket)

    async def socket(self, request: web.Request) -> web.StreamResponse:
        """Play with a page over a websocket."""
        from aiohttp import WSMsgType, web

        socket = web.WebSocketResponse(max_msg_size=MOST_MESSAGE, heartbeat=20.0, compress=False)
        await self._free()
        if self._open is not None:
            await socket.prepare(request)
            await socket.send_json(
                {"trouble": "Another page plays already: close it, then reload this one."}
            )
            await socket.close()
            return socket
        self._open = socket
        try:
            await socket.prepare(request)
            session = Session(self._table, socket.send_json, self._seed)
            playing = asyncio.create_task(session.play())
            playing.add_done_callback(lambda _: asyncio.ensure_future(socket.close()))
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    session.heard(message.data)
            playing.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await playing
        finally:
            self._open = None
        return socket

    async def _free(self) -> None:
        """Wait a moment for a page that is being reloaded to let go."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LET_GO_S):
                while self._open is not None:
                    await asyncio.sleep(0.05)

    async def _close(self, app: web.Application) -> None:
        """The command ends: nobody has to wait until the page lets go."""
        if self._open is not None:
            await self._open.close()


def play(table: Table, seed: int, server: Server, ready: Callable[[str], None]) -> int:
    """Serve the page until a signal comes; return its number. Raises: ConfigError: the port is
    taken.
    """
    Played(server, table, seed)
    return server.run(ready)
