# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train play`: the env and the score (puffervec/viewing/web/play.py), its page in a
browser, and who may open its websocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

import puffervec
from puffervec.commands import cli
from puffervec.contract.drawing import Circle, Drawing, Event, Shape
from puffervec.envs import get
from puffervec.train import load_policy
from puffervec.train.act.evaluate import RandomActor
from puffervec.viewing.web import play as module
from puffervec.viewing.web import serve as serve_module
from puffervec.viewing.web.play import AHEAD, SPEEDS, Game, Round, Session
from puffervec.viewing.web.serve import Server
from tests.fixtures.pages import Served
from tests.helpers import POLL_S
from tests.viewing.web.browser import Browser, Page

Serve = Callable[..., Served]
SOCKET = """GET /TOKEN/socket HTTP/1.1
Host: {host}
Upgrade: websocket
Connection: Upgrade
{more}Sec-WebSocket-Version: 13
Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==

"""


class Leaning:
    """Pushes where the pole leans. Attributes: asked: how often it acted."""

    asked = 0

    def reset(self, vec: Any) -> None:
        self.asked = 0

    def act(self, obs: Any, vec: Any) -> Any:
        self.asked += 1
        return (np.asarray(obs)[:, 2] > 0).astype(np.int32)


@pytest.fixture
def game() -> Any:
    env = get("cartpole")
    game = Game(env, env.configure({"max_episode_steps": 60}), Leaning())
    yield game
    game.close()


def alone(seed: int, push: Callable[[np.ndarray], int]) -> tuple[list[float], np.ndarray]:
    """Rewards of an episode of cartpole by itself, and where the cart was at its end."""
    with puffervec.make(
        "cartpole", env_kwargs={"max_episode_steps": 60}, backend="serial", num_envs=1
    ) as vec:
        obs, _ = vec.reset(seed=seed)
        rewards: list[float] = []
        while True:
            obs, reward, terminals, truncations, _ = vec.step([push(obs[0])])
            rewards.append(float(reward[0]))
            if terminals[0] or truncations[0]:
                return rewards, vec.peek(0)["x"]


def test_the_score_is_that_of_the_episode(game: Game) -> None:
    for seed in (3, 4):
        game.begin(seed)
        assert game.agents() == {"cart": 0}
        taken, steps = Round(), 0
        while True:
            game.step(0, ["ArrowRight"])
            steps += 1
            if not game.record(0, taken):
                break
        rewards, place = alone(seed, lambda row: 1)
        assert (
            taken.rewards == rewards
            and len(rewards) == steps
            and float(game.state["x"]) == float(place)
        )
        game.begin(seed)
        policy = Round()
        game.step()
        while game.record(0, policy):
            game.step()
        assert (
            policy.rewards == alone(seed, lambda row: int(row[2] > 0))[0]
            and policy.to_json()["steps"] > steps
        )


def test_the_others_are_played_by_the_policy_and_one_by_keys() -> None:
    env = get("drive")
    game = Game(env, env.configure({"scenes": "generated:3"}), RandomActor(5))
    with contextlib.closing(game):
        game.begin(1)
        assert game.episode.drawing.title and len(game.agents()) > 1
        row = list(game.agents().values())[1]
        sent: list[np.ndarray] = []
        game.vec.send = lambda actions, send=game.vec.send: (
            sent.append(np.array(actions)),
            send(actions),
        )  # type: ignore[method-assign]
        drawn = RandomActor(5)
        drawn.reset(game.vec)
        game.actor.reset(game.vec)
        game.actor = RandomActor(5)
        expected = drawn.act(game.observations, game.vec)
        game.step(row, ["ArrowUp"])
        others = np.arange(len(expected)) != row
        np.testing.assert_array_equal(sent[0][others], np.asarray(expected)[others])
        assert sent[0][row] == game.keys.action({"ArrowUp": 1})
        taken = Round()
        assert game.record(row, taken) and taken.facts == game.facts(row) != {}


def test_keys_count_the_steps_for_which_they_are_down(game: Game) -> None:
    for held, counts in (
        (["ArrowRight", "x"], {"ArrowRight": 1}),
        (["ArrowRight"], {"ArrowRight": 2}),
        ([], {}),
    ):
        game.step(0, held)
        assert game.held == counts


@pytest.mark.parametrize(
    ("changes", "continues"),
    [
        ({}, True),
        ({"masks": [True, False]}, False),
        ({"terminals": [False, True]}, False),
        ({"truncations": [False, True]}, False),
        ({"over": [True]}, False),
        ({"terminals": [True, False]}, True),
    ],
)
def test_a_round_ends_with_the_agent_or_the_episode(
    changes: dict[str, list[bool]], continues: bool
) -> None:
    """That of another agent does not end it."""
    rows: dict[str, Any] = {"masks": [True] * 2, "rewards": [5.0, 7.0], "over": [False]}
    rows |= {"terminals": [False] * 2, "truncations": [False] * 2} | changes
    game, taken = Game.__new__(Game), Round()
    game._all_rows = lambda name: np.array(rows[name])  # type: ignore[method-assign]
    game.facts = lambda row: {}  # type: ignore[method-assign]
    over = [np.array(rows["over"])]
    game.vec = SimpleNamespace(rows=SimpleNamespace(over=over.__getitem__))  # type: ignore[assignment]
    assert game.record(1, taken) is continues
    assert taken.rewards == ([7.0] if rows["masks"][1] else [])


def test_the_action_of_a_row_is_replaced_in_its_group() -> None:
    game = Game.__new__(Game)
    groups = [SimpleNamespace(name="a", agents=2), SimpleNamespace(name="b", agents=1)]
    game.vec = SimpleNamespace(spec=SimpleNamespace(groups=groups))  # type: ignore[assignment]
    actions = {"a": np.zeros(2, np.int64), "b": np.zeros((1, 2), np.int64)}
    found = game._replace_action(actions, 2, [3, 4])
    assert found["a"].tolist() == [0, 0] and found["b"].tolist() == [[3, 4]]
    found = game._replace_action(actions, 1, 5)
    assert found["a"].tolist() == [0, 5] and found["b"].tolist() == [[0, 0]]
    assert not actions["a"].any() and not actions["b"].any()


def test_a_page_gets_each_style_role_and_event_once() -> None:
    """And numbers of four decimals, and facts with the first moment."""
    env = get("cartpole")

    def shapes(state: Any, before: Any) -> Iterator[Shape]:
        yield Circle(1 / 3, 0.0, 1.0, role="cart", name="one")
        yield Circle(0.0, 0.0, 1.0, role="cart", filled=False)
        yield Event(1.0, 1.0, role="bump", of="one")
        if before is not None:
            yield Circle(0.0, 0.0, 1.0, role="wheel")

    made = Drawing(
        (0, 0, 4, 4), shapes, {"cart": "#112233"}, agents=("one",),
        facts=lambda state: {"one": {"x": 1.0}},
    )  # fmt: skip
    own = dataclasses.replace(env, drawing=lambda config, state: made)
    with contextlib.closing(Game(own, env.configure({}), Leaning())) as game:
        assert (game.seed, game.sent) == (0, (0, 0, 0))
        messages = [game.scene(), game.moment()]
        game.step()
        messages.append(game.moment())
    assert [[style[1:] for style in message["styles"]] for message in messages] == [
        [], [[0, 0], [0, 1]], [[2, 0]],
    ]  # fmt: skip
    assert [message["roles"] for message in messages] == [
        [["cart", "#112233"], ["bump", ""]], [], [["wheel", ""]],
    ]  # fmt: skip
    assert [[event[:2] for event in message["events"]] for message in messages] == [
        [[0, 1]], [], [[1, 1]],
    ]  # fmt: skip
    first, second = messages[1:]
    assert first["shapes"][0]["n"] == [0.3333, 0.0, 1.0]
    assert (first["facts"], second["facts"]) == ({"one": {"x": 1.0}}, {})


@pytest.mark.parametrize(
    ("changes", "told_of"),
    [({}, True), ({"facts": None}, False), ({"agents": ("",)}, False), ({"agents": ()}, False)],
)
def test_facts_are_those_of_the_drawing_where_it_tells_any(
    changes: dict[str, Any], told_of: bool
) -> None:
    env = get("cartpole")
    odd = {name: {"x": 1.23456, "far": float("inf")} for name in ("one", "two")}
    made = Drawing((0, 0, 4, 4), lambda state, before: (), agents=("one",), facts=lambda state: odd)
    own = dataclasses.replace(
        env, drawing=lambda config, state: dataclasses.replace(made, **changes)
    )
    with contextlib.closing(Game(own, env.configure({}), Leaning())) as game:
        game.begin(1)
        assert game.facts(0) == ({"x": 1.2346} if told_of else {})
        assert game.facts(1) == {}, "a row that the drawing does not know"
        named = changes.get("agents", ("one",)) == ("one",)
        assert game.agents() == {"one" if named else "row 0": 0}


class FakePage:
    """What a session has sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def __call__(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def steps(self) -> list[int]:
        return [message["moment"]["step"] for message in self.sent if "moment" in message]


def acted(game: Game, script: Callable[[Session, FakePage], Any]) -> FakePage:
    page = FakePage()

    async def both() -> None:
        session = Session(game, page, 7)
        playing = asyncio.create_task(session.play())
        try:
            await asyncio.wait_for(script(session, page), POLL_S)
        finally:
            playing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await playing

    asyncio.run(both())
    return page


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_a_session_plays_and_compares(game: Game) -> None:
    async def script(session: Session, page: FakePage) -> None:
        await until(lambda: page.steps() == [0])
        session.receive('{"start": "nobody"}')
        session.receive(json.dumps({"start": "cart"}))
        session.receive('{"keys": ["ArrowLeft", "x", 5]}')
        while "result" not in page.sent[-1]:
            session.receive(json.dumps({"seen": page.steps()[-1]}))
            await asyncio.sleep(0.002)

    page = acted(game, script)
    you, policy = page.sent[-1]["result"]["you"], page.sent[-1]["result"]["policy"]
    assert page.sent[0]["scene"]["seed"] == 7 and page.sent[0]["scene"]["agents"] == ["cart"]
    assert you["return"] == you["steps"] == len(alone(7, lambda row: 0)[0]) == page.steps()[-1]
    assert policy["return"] == len(alone(7, lambda row: int(row[2] > 0))[0])
    assert page.steps() == list(range(len(page.steps())))


def test_the_clock_stands_while_nobody_looks(game: Game) -> None:
    async def script(session: Session, page: FakePage) -> None:
        await until(lambda: page.sent)
        session.receive('{"start": "cart"}')
        await until(lambda: page.steps()[-1] >= AHEAD)
        await asyncio.sleep(0.2)
        assert page.steps()[-1] == AHEAD == 3  # Nothing was seen.
        session.receive('{"pause": true}')
        session.receive(json.dumps({"seen": AHEAD}))
        await asyncio.sleep(0.2)
        assert page.steps()[-1] == AHEAD
        session.receive('{"pause": false}')
        await until(lambda: page.steps()[-1] == 2 * AHEAD)
        session.receive('{"begin": 9}')
        await until(lambda: page.steps()[-1] == 0)

    page = acted(game, script)
    assert [message["scene"]["seed"] for message in page.sent if "scene" in message] == [7, 9]


class Hurried(asyncio.SelectorEventLoop):
    """A loop whose time passes at once where everybody sleeps."""

    now = 100.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now = max(self.now, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def paced(said: str, slow: int = -1, slow_s: float = 0.0, steps: int = 140) -> np.ndarray:
    """Return when, s, each moment comes to a page without delay; one of them it takes late."""
    env = get("drive")
    game = Game(
        env,
        env.configure({"scenes": "generated:3", "max_steps": 200, "goal_behavior": "respawn"}),
        RandomActor(5),
    )
    came: list[float] = []

    async def play() -> None:
        done, clock = asyncio.Event(), asyncio.get_running_loop().time

        async def send(message: dict[str, Any]) -> None:
            if "moment" not in message:
                return
            came.append(clock())
            if len(came) == slow:
                await asyncio.sleep(slow_s)
            session.receive(json.dumps({"seen": message["moment"]["step"]}))
            if len(came) > steps:
                done.set()

        session = Session(game, send, 7)
        playing = asyncio.create_task(session.play())
        await asyncio.sleep(3.0)
        session.receive(said)
        session.receive(json.dumps({"start": next(iter(game.agents()))}))
        await asyncio.wait_for(done.wait(), 1000.0)
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await playing

    with contextlib.closing(game), contextlib.closing(Hurried()) as loop:
        loop.run_until_complete(play())
    return np.array(came[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "pace"), [("{}", 1.0), *((json.dumps({"speed": one}), float(one)) for one in SPEEDS)]
)
def test_moments_come_at_the_pace_of_the_env(said: str, pace: float) -> None:
    found = paced(said)
    assert found[0] == pytest.approx(103.0)
    np.testing.assert_allclose(
        np.diff(found), 0.1 / pace, atol=1e-9
    )  # A step of the env takes a tenth of a second.


def test_what_a_page_takes_late_is_caught_up_with_for_a_second_at_most() -> None:
    gaps = np.diff(paced("{}", slow=5, slow_s=30.0, steps=60))
    assert gaps[3] == pytest.approx(30.0) and gaps[:3] == pytest.approx(0.1)
    late = gaps[4:]
    at_once = int((late < 0.01).sum())
    assert (
        at_once in (9, 10)
        and not late[:at_once].any()
        and late[at_once + 1 :] == pytest.approx(0.1)
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[1]",
        '{"keys": 5}',
        '{"begin": -1}',
        '{"begin": 1e9}',
        '{"start": ["cart"]}',
        '{"speed": 1000}',
        "[" * 5000,
    ],
)
def test_what_means_nothing_is_left_out(game: Game, text: str) -> None:
    async def script(session: Session, page: FakePage) -> None:
        await until(lambda: page.steps())
        session.receive(text)
        session.receive('{"start": "cart"}')
        await until(lambda: page.steps()[-1] == AHEAD)

    acted(game, script)


def test_seeds_and_speeds_of_a_page_are_taken_if_they_exist(game: Game) -> None:
    session = Session(game, FakePage(), 7)
    for seed, taken in ((0, 0), (2**31 - 1, 2**31 - 1), (2**31, 2**31 - 1), (-1, 2**31 - 1)):
        session.receive(json.dumps({"begin": seed}))
        assert session._seed == taken
    for speed, now in ((0.25, 0.25), (0.5, 0.5), (0.3, 0.5), (2, 0.5), (1, 1.0), (0.0, 1.0)):
        session.receive(json.dumps({"speed": speed}))
        assert session._speed == now


def test_aiohttp_is_not_imported_before_a_page_is_served() -> None:
    """It is an extra."""
    assert "web" not in vars(module) and "web" not in vars(serve_module)


def test_one_page_plays_at_a_time_with_short_messages(
    game: Game, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RELEASE_S", 0.05)
    server = Server("127.0.0.1", 0)
    module.Routes(server, game, 7)

    async def play() -> None:
        async with TestClient(TestServer(server.app)) as client:
            path, ours = f"/{server.token}/socket", {"Origin": f"http://127.0.0.1:{client.port}"}
            assert (await client.get(path)).status == 400  # It asks for no websocket.
            async with client.ws_connect(path, headers=ours) as first:
                assert (await first.receive_json())["scene"]["seed"] == 7
                async with client.ws_connect(path, headers=ours) as second:
                    assert "trouble" in await second.receive_json()
                await first.send_str('{"begin": 3}'.ljust(4095))
                assert "moment" in await first.receive_json()
                assert (await first.receive_json())["scene"]["seed"] == 3
                await first.send_str('{"begin": 4}'.ljust(4096))
                seeds = [message.json() async for message in first]
                assert first.close_code == 1009 and all("scene" not in one for one in seeds)
            async with client.ws_connect(path, headers=ours) as third:
                assert (await third.receive_json())["scene"]["seed"] == 7

    asyncio.run(asyncio.wait_for(play(), POLL_S))


def test_the_websocket_is_for_our_page_alone(serve: Serve) -> None:
    served = serve("play", "cartpole")

    def status(
        host: str = "HOST", more: str = "Origin: http://HOST\n", path: str = "/TOKEN/socket"
    ) -> int:
        return served.ask(SOCKET.format(host=host, more=more).replace("/TOKEN/socket", path))[0]

    assert status(more="") == 403
    assert (
        status(more="Origin: http://evil.example\n") == 403 and status(more="Origin: null\n") == 403
    )
    assert status(host="evil.example", more="Origin: http://evil.example\n") == 403
    assert status(path="/socket") == 403 and status(path="/" + "A" * 43 + "/socket") == 403
    assert status(path="/TOKEN/../socket") == 403
    assert status() == 101


@pytest.mark.slow
def test_the_page_is_told_that_the_command_ends(serve: Serve) -> None:
    """By a close of the websocket, not by a connection that breaks."""
    served = serve("play", "cartpole")

    async def closed() -> int | None:
        async with aiohttp.ClientSession() as session:
            origin = f"http://{served.address.netloc}"
            socket = await session.ws_connect(f"{served.url}socket", headers={"Origin": origin})
            await socket.receive()
            served.process.send_signal(signal.SIGINT)
            async for _ in socket:
                pass
            return socket.close_code

    assert asyncio.run(closed()) == 1000


def opened(browser: Browser, served: Served, **look: Any) -> Page:
    page = browser.open(served.url, **look)
    page.wait(
        "document.getElementById('app').dataset.state === 'ready' && "
        "document.querySelector('.now').innerText"
    )
    return page


def score(page: Page) -> dict[str, list[float]]:
    rows = page.eval(
        "[...document.querySelectorAll('[data-row]')].map(row => [...row.children].map(cell => "
        "cell.innerText))"
    )
    return {name: [float(value) for value in values] for name, *values in rows}


@pytest.mark.slow
def test_the_page_is_played_by_keys(browser: Browser, serve: Serve, a_run: Path) -> None:
    served = serve("play", str(a_run), "--env.max-episode-steps", "30", "--seed", "2")
    page = opened(browser, served, width=1600, height=900)
    assert page.text("h1") == "cartpole, seed 2" and page.text(".now").startswith("step 0")
    page.press("Enter")
    page.key_down("ArrowRight")
    assert (
        page.eval("document.querySelector('[data-key=ArrowRight]').getAttribute('aria-pressed')")
        == "true"
    )
    page.wait("document.getElementById('app').dataset.state === 'over'")
    page.key_up("ArrowRight")
    found = score(page)
    assert (
        found["return"][0]
        == found["steps"][0]
        == float(page.text(".now").split(",")[0].removeprefix("step "))
    )
    policy = load_policy(a_run, settings={"max_episode_steps": 30})
    with puffervec.make(
        "cartpole", env_kwargs={"max_episode_steps": 30}, backend="serial", num_envs=1
    ) as vec:
        observations, _ = vec.reset(seed=2)
        steps = 0
        while True:
            observations, _, terminals, truncations, _ = vec.step(policy.act(observations, vec))
            steps += 1
            if terminals[0] or truncations[0]:
                break
    assert found["return"][1] == found["steps"][1] == steps
    other = browser.open(served.url)
    other.wait("document.getElementById('app').dataset.state === 'gone'")
    assert (
        other.text(".words") == "Another page is playing: close it, then reload this one."
        and other.errors == []
    )
    other.close()
    page.click(".next")
    page.wait("document.querySelector('h1').innerText === 'cartpole, seed 3'")
    assert page.errors == [] and len(page.sockets) == 1
    assert [url for url in page.requests if not url.startswith((served.url, "data:"))] == []
    assert page.sockets[0].startswith(served.url.replace("http", "ws"))


@pytest.mark.slow
def test_the_command_ends_while_a_page_is_open(browser: Browser, serve: Serve) -> None:
    """The page is told at once, and does not hold the command."""
    served = serve("play", "cartpole")
    page = opened(browser, served)
    page.press("Enter")
    page.wait("document.getElementById('app').dataset.state === 'playing'")
    assert served.close()[0] == 130
    page.wait("document.getElementById('app').dataset.state === 'gone'")
    assert page.text(".words").startswith("No connection: the command has ended")


@pytest.mark.slow
def test_a_page_that_is_gone_makes_room_for_the_next(browser: Browser, serve: Serve) -> None:
    served = serve("play", "cartpole")
    first = opened(browser, served)
    first.press("Enter")
    first.wait("document.getElementById('app').dataset.state === 'playing'")
    first.go(served.url)  # Reloaded in the middle of an episode.
    first.wait("document.getElementById('app').dataset.state === 'ready'")
    first.close()
    assert opened(browser, served).text(".now").startswith("step 0")


@pytest.mark.slow  # test_the_page_is_played_by_keys is the quick one
def test_the_page_is_played_by_touch(browser: Browser, serve: Serve) -> None:
    served = serve("play", "drive", "--scenes", "generated:3", "--env.max-steps", "15")
    page = opened(browser, served, width=360, height=800, dark=True, touch=True)
    assert page.eval("document.documentElement.scrollWidth") == 360
    boxes = page.eval(
        "[...document.querySelectorAll('.key')].map(one => one.getBoundingClientRect().toJSON())"
    )
    assert len({box["top"] for box in boxes}) == len({box["left"] for box in boxes}) == 2, (
        "two by two"
    )
    assert all(box["width"] > 150 and box["height"] >= 44 for box in boxes), (
        "wide enough for thumbs"
    )
    page.tap(".start")
    page.tap('[data-key="ArrowUp"]')
    page.wait("document.getElementById('app').dataset.state === 'over'")
    found = score(page)
    assert found["steps"][0] <= 15 and len(found["return"]) == 2 and len(found) > 2
    page.tap(".again")
    page.wait("document.getElementById('app').dataset.state === 'ready'")
    assert page.errors == []


@pytest.mark.slow
def test_the_page_says_what_happens_to_you(browser: Browser, serve: Serve) -> None:
    """A car that turns left at full throttle leaves the road; its speed is in view, and what the
    colours mean.
    """
    served = serve(
        "play", "drive", "--scenes", "generated:3", "--env.max-steps", "80", "--env.metrics", "1"
    )
    page = opened(browser, served)
    assert "speed m/s" in page.text(".gauge") and {"agent", "goal", "road"} <= set(
        page.texts(".legend button")
    )
    page.press("Enter")
    for key in ("ArrowUp", "ArrowLeft"):
        page.key_down(key)
    page.wait("/^You (left|hit|were)|hit you/.test(document.querySelector('.words').innerText)")
    page.wait("document.getElementById('app').dataset.state === 'over'")
    assert page.text(".words").endswith(
        "It is over. The policy has played the same agent in the same episode."
    )
    assert page.errors == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["tag_grid"], "tag_grid cannot be played: it must define drawing and keys"),
        (["CartPole-v1"], "CartPole-v1 cannot be played"),
        (["drive", "--baseline", "log", "--scenes", "generated:1"], "drive: replay_log is 1"),
        (["cartpole", "--host", "0.0.0.0"], "only to this machine"),
    ],
)
def test_bad_input_is_one_line(
    args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["play", *args]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
