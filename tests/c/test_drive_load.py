# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""States of a driving env (csrc/drive/block/saved.c): what was saved comes back; what is broken is
refused or harmless, no crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.scenes import packed
from puffervec._ffi import ffi, lib
from puffervec.contract.env_types import find as env_type
from puffervec.errors import ConfigError
from puffervec.vec.vector_env import VectorEnv
from tests.drive_env.worlds import make_env, random_scene, write_world
from tests.helpers import raw_rows

AGENTS = 12


JUDGED = {"metrics": 1, "reward_ranges": "jerk=-0.1:0 collision=-2:-1"}


@pytest.fixture(params=[{}, JUDGED], ids=["default", "judged"])
def vec(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[VectorEnv]:
    """An env that has run for a while."""
    write_world(tmp_path / "set", [random_scene(seed, objects=8, roads=9) for seed in (1, 2)])
    with make_env(tmp_path / "set", num_agents=AGENTS, **request.param) as made:
        made.reset(seed=3)
        for _ in range(25):
            made.step(np.full(AGENTS, 80))
        yield made


def block_of(vec: VectorEnv) -> Any:
    """The serial backend's only block."""
    return vec.workers.opened[0].blocks + 0


def saved_state(vec: VectorEnv) -> np.ndarray:
    """The env's own bytes, without rows."""
    block = block_of(vec)
    out = np.zeros(block.spec.save_bytes, np.uint8)
    assert env_type("drive").save(block, 0, ffi.from_buffer("uint8_t[]", out)) == lib.PV_OK
    return out


def load(vec: VectorEnv, state: np.ndarray) -> int:
    return int(env_type("drive").load(block_of(vec), 0, ffi.from_buffer("uint8_t[]", state)))


def run(vec: VectorEnv, steps: int) -> bytes:
    """Step without any channel; returns the rows."""
    actions = np.random.default_rng(0).integers(0, 91, (4, AGENTS)).astype(np.int32)
    assert (
        lib.pv_bench_steps(
            vec.workers.opened, ffi.cast("int32_t*", ffi.from_buffer(actions)), 4, steps
        )
        >= 0
    )
    return bytes(vec.halves[0].block)


def test_a_loaded_state_goes_on_as_if_never_saved(vec: VectorEnv) -> None:
    state = saved_state(vec)
    expected = run(vec, 40)
    after = saved_state(vec)
    assert load(vec, state) == lib.PV_OK
    assert run(vec, 40) == expected and (saved_state(vec) == after).all()


# What an env's bytes begin with: drive_env and its slots, and then DRIVE_AGENT_FIELDS (state.h).
HEAD = np.dtype(
    [("seed", "u8"), ("episode", "u8"), ("drawn", "u8"), ("task", "i8"), ("step", "u4"),
     ("slots", "u4"), ("rows", "u4"), ("over", "u4"), ("poked", "u8")]
)  # fmt: skip
SLOT = np.dtype([(name, "u4") for name in ("scene", "row", "count", "clock", "over", "follower",
                                           "follower_count", "failed", "repeats")])  # fmt: skip
ROWS = ("x", "y", "heading", "cosine", "sine", "speed", "goal_distance", "flags", "length", "width",
        "goal_x", "goal_y", "ground", "surface", "object", "slot", "episode_return",
        "progress")  # fmt: skip


def rows_of(vec: VectorEnv, state: np.ndarray) -> dict[str, np.ndarray]:
    """Return views of the arrays over the rows in an env's bytes, as float32."""
    numbers, shown = state.view(np.float32), vec.peek(0)
    (first,) = np.flatnonzero(numbers == shown["x"][0])[:1]
    stride = -(-AGENTS // 16) * 16 + 16
    rows = {
        name: numbers[first + k * stride : first + k * stride + AGENTS]
        for k, name in enumerate(ROWS)
    }
    for name in ("y", "heading", "speed", "length", "width", "goal_x", "goal_y"):
        assert (rows[name] == shown[name]).all()
    assert (rows["object"].view(np.int32) == shown["object"]).all()
    return rows


def test_numbers_are_taken_up_to_their_bounds(vec: VectorEnv) -> None:
    """Return those of the first and last row, and weights and sums, if any."""
    state = saved_state(vec)
    rows, shown = rows_of(vec, state), vec.peek(0)
    most = {"x": 1e7, "y": 1e7, "heading": 3.2, "cosine": 1.001, "sine": 1.001, "speed": 400.0,
            "goal_distance": 1e8, "ground": 1e7, "progress": 1e9,
            "episode_return": 1e30}  # fmt: skip
    last = int((shown["slot"] >= 0).sum()) - 1
    numbers = [(rows[name], at, high) for name, high in most.items() for at in (0, last)]
    if "peak_jerk" in shown:
        for name, high in (("reward_weights", 1000.0), ("peak_jerk", 1e7)):
            value = next(of for of in shown[name].ravel() if of % 1)
            (place,) = np.flatnonzero(state.view(np.float32) == value)[-1:]
            numbers.append((state.view(np.float32), int(place), high))
    for array, at, high in numbers:
        before, end = array[at], np.float32(high)
        for sign in (1, -1):
            array[at] = sign * end
            assert load(vec, state) == lib.PV_OK, (at, high)
            array[at] = sign * np.nextafter(end, np.float32(np.inf))
            assert load(vec, state) == lib.PV_ERROR_STATE, (at, high)
        array[at] = np.nan
        assert load(vec, state) == lib.PV_ERROR_STATE
        array[at] = before
    assert load(vec, state) == lib.PV_OK


def test_scenes_and_rows_of_a_saved_state_belong_together(vec: VectorEnv) -> None:
    """Each number that the scenes determine is refused if it differs."""
    state = saved_state(vec)
    head = state[: HEAD.itemsize].view(HEAD)
    slots = state[64 : 64 + SLOT.itemsize * int(head["slots"][0])].view(SLOT)
    rows, shown = rows_of(vec, state), vec.peek(0)
    used = int((shown["slot"] >= 0).sum())
    assert (head["rows"][0], slots["count"].sum()) == (used, used) and slots["row"][0] == 0
    assert slots["scene"].tolist() == shown["slot_scene"][: len(slots)].tolist()
    changes: list[tuple[np.ndarray, Any, Any]] = [
        (head["slots"], 0, head["slots"][0] + 1), (head["slots"], 0, 99),
        (head["slots"], 0, head["slots"][0] - 1), (head["rows"], 0, used + 1),
        (head["rows"], 0, used - 1), (slots["scene"], 0, 2), (slots["row"], 0, 1),
        (slots["count"], 0, slots["count"][0] + 1), (slots["count"], 0, slots["count"][0] - 1),
        (slots["follower"], -1, 1), (slots["follower_count"], -1, 1),
    ]  # fmt: skip
    for at in (0, used - 1):
        changes += [(rows[name], at, rows[name][at] + 0.5) for name in
                    ("length", "width", "goal_x", "goal_y")]  # fmt: skip
        for name in ("object", "slot"):
            whole = rows[name].view(np.uint32)
            changes.append((whole, at, whole[at] + 1))
    for array, at, value in changes:
        before = array[at].copy()
        array[at] = value
        assert load(vec, state) == lib.PV_ERROR_STATE, (at, before, value)
        array[at] = before
        assert load(vec, state) == lib.PV_OK
    flags = rows["flags"].view(np.uint32)
    flags |= 1 << 12  # all agents drive by their logs
    assert load(vec, state) == lib.PV_ERROR_STATE


# DRIVE_FOLLOWER_FIELDS and DRIVE_FOLLOWER_CONSTANTS (state.h); the first eight are shown.
FOLLOWERS = ("phase", "to", "served", "from_x", "from_y", "from_heading", "along", "speed",
             "object", "join", "wanted")  # fmt: skip
WAITS, LOG, LANE, GONE = range(4)


def test_numbers_of_followers_are_taken_up_to_their_bounds(tmp_path: Path) -> None:
    """Refuse paths on a frame or a segment that does not exist."""
    write_world(tmp_path / "set", [random_scene(seed, objects=8, roads=9) for seed in (1, 2)])
    data = (tmp_path / "set").read_bytes()
    with make_env(tmp_path / "set", num_agents=AGENTS, others="idm", control="sdc") as vec:
        vec.reset(seed=3)
        for _ in range(5):
            vec.step(None)
        state, shown = saved_state(vec), vec.peek(0)
        numbers, room = state.view(np.float32), len(shown["follower_phase"])
        (first,) = np.flatnonzero(numbers == next(x for x in shown["follower_from_x"] if x))[:1]
        first -= int(np.flatnonzero(shown["follower_from_x"])[0]) + 3 * room
        arrays = {name: numbers[first + k * room :][:room] for k, name in enumerate(FOLLOWERS)}
        for name in FOLLOWERS[:8]:
            values = shown[f"follower_{name}"]
            assert (arrays[name].view(values.dtype) == values).all()
        words = {name: arrays[name].view(np.uint32) for name in FOLLOWERS}
        entry = np.frombuffer(data, packed.ENTRY, 2, packed.SET.itemsize)[shown["slot_scene"][0]]
        lanes = int(np.frombuffer(data, packed.SCENE, 1, entry["offset"])["segment_count"][0, 0])

        def loads(at: int, **changes: Any) -> bool:
            before = {name: words[name][at] for name in changes}
            for name, value in changes.items():
                (words if isinstance(value, int) else arrays)[name][at] = value
            code = load(vec, state)
            for name, value in before.items():
                words[name][at] = value
            assert code in (lib.PV_OK, lib.PV_ERROR_STATE)
            return bool(code == lib.PV_OK)

        high = {"from_x": 1e7, "from_y": 1e7, "from_heading": 3.2, "along": 1e5, "speed": 1e5,
                "wanted": 1e5}  # fmt: skip
        low = {"along": 0.0, "speed": 0.0, "wanted": 0.1}
        inf = np.float32(np.inf)
        for name, most in high.items():
            least, end = np.float32(low.get(name, -most)), np.float32(most)
            assert loads(0, **{name: end}) and loads(0, **{name: least}), name
            for value in (np.nextafter(end, inf), np.nextafter(least, -inf), np.float32(np.nan)):
                assert not loads(0, **{name: value}), (name, value)
        assert not loads(0, object=int(words["object"][0]) + 1)
        assert loads(0, join=lanes - 1) and loads(0, join=2**32 - 1) and not loads(0, join=lanes)
        assert loads(0, phase=WAITS, to=0) and not loads(0, phase=WAITS, to=1)
        assert loads(0, phase=GONE, to=0) and not loads(0, phase=GONE, to=1)
        assert loads(0, phase=LANE, to=lanes - 1) and not loads(0, phase=LANE, to=lanes)
        assert not loads(0, phase=LOG, to=65535) and not loads(0, phase=GONE + 1, to=0)
        assert load(vec, state) == lib.PV_OK


def test_unaligned_bytes_load_too(vec: VectorEnv) -> None:
    state = saved_state(vec)
    shifted = np.zeros(len(state) + 1, np.uint8)
    shifted[1:] = state
    assert load(vec, shifted[1:]) == lib.PV_OK and (saved_state(vec) == state).all()


def test_broken_states_are_refused_or_harmless(vec: VectorEnv) -> None:
    state = saved_state(vec)
    rng = np.random.default_rng(5)
    words = np.array(
        [0, 1, 77, 2**31 - 1, 2**31, 2**32 - 1, 0x7F800000, 0x7FC00000, 0x4B800000], np.uint32
    )
    codes = []
    for _ in range(600):
        broken = state.copy()
        places = rng.integers(0, len(state) // 4, rng.integers(1, 4))
        broken.view(np.uint32)[places] = rng.choice(words, len(places))
        codes.append(load(vec, broken))
        run(vec, 3)
        observations = vec.halves[0].groups["agents"].observations
        assert np.isfinite(observations.view(np.float32)).all()
    assert codes.count(lib.PV_OK) > 10 and codes.count(lib.PV_ERROR_STATE) > 100
    assert set(codes) == {lib.PV_OK, lib.PV_ERROR_STATE}


# ---- poke ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        ("length", 0, 9.0, r"length\[0\] is 9: it cannot be changed and must stay"),
        ("goal_x", 1, 9.0, r"goal_x\[1\] is 9: it cannot be changed"),
        ("object", 0, 5, r"object\[0\] is 5: it cannot be changed"),
        ("slot", 0, 1, r"slot\[0\] is 1: it cannot be changed"),
        ("slot_scene", 0, 7, r"slot_scene\[0\] is 7: it cannot be changed"),
        ("slot_clock", 0, 20, r"slot_clock\[0\] is 20: episodes of its scene have 0 to 19 steps"),
        ("slot_clock", 0, -1, r"slot_clock\[0\] is -1: episodes"),
        ("slot_clock", -1, 0, r"slot_clock\[\d+\] is 0: it cannot be changed and must stay -1"),
        ("active", 0, 0, r"active\[0\] is 0: an agent leaves its scene when its row has ended"),
        ("step", (), 10**6, "step is 1000000: a bundle of scenes stays for 0 to"),
        ("heading", 0, 3.2, r"heading\[0\] is 3.20\d+: it must be from -3.14"),
        ("speed", 0, np.nan, r"speed\[0\] is nan: it must be from -400 to 400"),
    ],
)
def test_what_scenes_decide_cannot_be_set(
    vec: VectorEnv, name: str, place: Any, value: Any, words: str
) -> None:
    before = vec.save()
    wrong = vec.peek(0)[name]
    wrong[place] = value
    with pytest.raises(ConfigError, match=f"poke: env 0 of drive is unchanged, since {words}"):
        vec.poke(0, {name: wrong})
    assert vec.save() == before


def test_a_row_without_an_agent_stays_empty(tmp_path: Path) -> None:
    write_world(tmp_path / "set", [random_scene(1, objects=8, roads=9)])
    with make_env(tmp_path / "set", num_agents=AGENTS + 1, **JUDGED) as vec:
        vec.reset(seed=3)
        state = vec.peek(0)
        assert state["slot"][-1] == -1
        judged = (("peak_jerk", 1.0), ("contacts", 1), ("reward_weights", 1.0))
        for name, value in (("x", 1.0), ("speed", 1.0), ("active", 1), ("object", 0), *judged):
            wrong = state[name].copy()
            wrong[-1] = value
            with pytest.raises(
                ConfigError, match=rf"{name}\[12\] is {value:g}: it cannot be changed and must stay"
            ):
                vec.poke(0, {name: wrong})
        vec.poke(0, state)
        assert not vec.halves[0].groups["agents"].masks[-1]


def test_what_is_summed_and_drawn_can_be_set(tmp_path: Path) -> None:
    """An env with the state of another continues as that one, records and rewards included."""
    write_world(tmp_path / "set", [random_scene(1, objects=8, roads=9)])
    actions = np.random.default_rng(1).integers(0, 91, (30, AGENTS))
    with make_env(tmp_path / "set", num_envs=2, num_agents=AGENTS, **JUDGED) as vec:
        vec.reset(seed=3)
        for batch in actions[:9]:
            vec.step(np.concatenate([batch, batch]))
        assert (
            vec.peek(0)["acceleration"].any()
            and (vec.peek(0)["reward_weights"] != vec.peek(1)["reward_weights"]).any()
        )
        vec.poke(1, vec.peek(0))
        records = []
        for batch in actions[9:19]:
            _, rewards, _, _, infos = vec.step(np.concatenate([batch, batch]))
            assert rewards[:AGENTS].any() and (rewards[:AGENTS] == rewards[AGENTS:]).all()
            records += list(infos.episodes)
        assert all((vec.peek(0)[name] == vec.peek(1)[name]).all() for name in vec.peek(0))
        mine, its = (
            [(r["slot"], r["return"], r["values"].tolist()) for r in records if r["env"] == env]
            for env in (0, 1)
        )
        assert mine == its != []
        weights = vec.peek(0)["reward_weights"]
        weights[0, 0] = 5.0  # reward_step has no range
        with pytest.raises(
            ConfigError, match=r"reward_weights\[0\] is 5: it cannot be changed and must stay 0"
        ):
            vec.poke(0, {"reward_weights": weights})


def test_what_experts_have_played_can_be_set(tmp_path: Path) -> None:
    """The previous action in the row is the one that led to the given state."""
    write_world(tmp_path / "set", [random_scene(1, objects=8, roads=9)])
    settings = {
        "expert_actions": 1,
        "observe_previous_action": 1,
        "dynamics": "delta_local",
        "actions": "continuous",
    }
    with make_env(tmp_path / "set", num_envs=2, num_agents=AGENTS + 1, **settings) as vec:
        vec.reset(seed=3)
        idle = np.zeros((2 * (AGENTS + 1), 3), np.float32)
        for _ in range(4):
            vec.step(idle)
        rows = raw_rows(vec, 0, "observations", "agents")
        before, state = rows[: AGENTS + 1].copy(), vec.peek(0)
        assert state["played"].shape == (AGENTS + 1, 3) and state["played"][:AGENTS].all()
        vec.step(idle)
        vec.poke(1, state)
        assert rows[AGENTS + 1 :].tobytes() == before.tobytes()
        assert vec.peek(1)["played"].tobytes() == state["played"].tobytes()
        state["played"][-1] = 1.0
        with pytest.raises(
            ConfigError, match=r"played\[12\] is 1: it cannot be changed and must stay 0"
        ):
            vec.poke(0, {"played": state["played"]})


def test_an_agent_that_is_set_to_have_left_has_no_row(vec: VectorEnv) -> None:
    state = vec.peek(0)
    gone = {name: state[name].copy() for name in ("active", "reached", "collided", "offroad")}
    for name, value in (("active", 0), ("reached", 1), ("collided", 0), ("offroad", 0)):
        gone[name][2] = value
    vec.poke(0, gone)
    rows = vec.halves[0].groups["agents"]
    assert rows.masks.tolist() == [bool(agent) for agent in gone["active"]]
    assert not rows.observations[2].any() and rows.observations[1].any()
    vec.step(np.zeros(AGENTS, np.int32))
    assert not rows.masks[2] and not vec.peek(0)["active"][2]
    vec.poke(0, state)  # and back
    assert rows.masks[2] and not rows.terminals[2]


def test_an_agent_at_its_goal_leaves_after_this_row(vec: VectorEnv) -> None:
    reached = vec.peek(0)["reached"]
    reached[1] = 1
    vec.poke(0, {"reached": reached})
    rows = vec.halves[0].groups["agents"]
    assert (rows.masks[1], rows.terminals[1], rows.truncations[1]) == (True, True, False)
    vec.step(np.zeros(AGENTS, np.int32))
    assert not rows.masks[1]


def test_a_scene_at_its_last_step_is_over(vec: VectorEnv) -> None:
    """And one that was over goes on where it is given an earlier step."""
    clock = vec.peek(0)["slot_clock"]
    late = clock.copy()
    late[0] = 19
    rows, mine = vec.halves[0].groups["agents"], vec.peek(0)["slot"] == 0
    vec.poke(0, {"slot_clock": late})
    assert rows.truncations[mine].all() and not rows.truncations[~mine].any()
    vec.poke(0, {"slot_clock": clock})
    assert not rows.truncations.any()
    vec.step(np.zeros(AGENTS, np.int32))
    assert vec.peek(0)["slot_clock"].tolist() == [value + (value >= 0) for value in clock]


FLAGS = ("active", "collided", "offroad", "reached")
STATE: list[tuple[str, str, str, float, float]] = [
    ("x", "m", "rows", -1e6, 1e6), ("y", "m", "rows", -1e6, 1e6),
    ("heading", "rad", "rows", -np.pi, np.pi), ("speed", "m/s", "rows", -400, 400),
    ("length", "m", "rows", 0, 1e3), ("width", "m", "rows", 0, 1e3),
    ("goal_x", "m", "rows", -1e6, 1e6), ("goal_y", "m", "rows", -1e6, 1e6),
    ("ground", "m", "rows", -1e6, 1e6), ("surface", "", "rows", -1, 1e9),
    ("object", "", "rows", -1, 1e9), ("slot", "", "rows", -1, 1e9),
    *((name, "", "rows", 0, 1) for name in FLAGS), ("ended", "", "rows", 0, 4),
    ("alone", "", "rows", 0, 1), ("slot_scene", "", "slots", -1, 1e9),
    ("slot_clock", "", "slots", -1, 1e9), ("episode", "", "", 0, 1e9), ("drawn", "", "", 0, 1e15),
    ("bundle_seed", "", "", 0, 2.0**64), ("step", "", "", 0, 1e9),
]  # fmt: skip
MORE: list[tuple[str, str, str, float, float]] = [
    ("model_acceleration", "m/s^2", "rows", -1e4, 1e4),
    ("model_lateral", "m/s^2", "rows", -1e7, 1e7), ("steering", "rad", "rows", -10, 10),
    ("traffic", "", "rows", 0, 2), ("slot_failed", "", "slots", 0, 1),
    ("slot_repeats", "", "slots", 0, 255),
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "fields"),
    [({}, STATE), ({"observe_motion": 1, "traffic_idm": 0.3, "replay_failed": 0.5}, STATE + MORE)],
)
def test_fields_of_the_readable_state(
    tmp_path: Path, settings: dict[str, Any], fields: list[tuple[str, str, str, float, float]]
) -> None:
    """Name, unit, shape, least and most of each, as users read them in the spec."""
    write_world(tmp_path / "set", [random_scene(1, objects=8, roads=9)])
    with make_env(tmp_path / "set", num_agents=AGENTS, **settings) as vec:
        vec.reset(seed=1)
        shapes = {"rows": (AGENTS,), "slots": vec.peek(0)["slot_clock"].shape, "": ()}
        found = [field for field in vec.spec.state_fields if not field.name.startswith("follower_")]
        assert [(of.name, of.unit, of.shape) for of in found] == [
            (name, unit, shapes[kind]) for name, unit, kind, _, _ in fields
        ]
        for field, (name, _, _, low, high) in zip(found, fields, strict=True):
            assert (field.low, field.high, field.scale) == pytest.approx((low, high, 1.0)), name


def test_a_saved_state_has_no_more_room_than_it_needs(vec: VectorEnv) -> None:
    """Return the env, its slots, and per field 32 numbers: 12 rows, as whole vectors, and one
    more. Judged fields and weights of rewards are there where they are read.
    """
    shown, fields = vec.peek(0), 24
    if "reward_weights" in shown:
        judged = len(shown) - len(STATE) - 5  # and five sums
        fields += judged - 1 + shown["reward_weights"].shape[1]
    slots = -(-(64 + SLOT.itemsize * len(shown["slot_clock"])) // 64) * 64
    assert len(saved_state(vec)) == slots + 4 * 32 * fields
