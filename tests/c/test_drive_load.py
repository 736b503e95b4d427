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


@pytest.mark.parametrize(("name", "most"), [("speed", 400.0), ("heading", 3.2)])
def test_numbers_are_taken_up_to_their_bounds(vec: VectorEnv, name: str, most: float) -> None:
    state = saved_state(vec)
    numbers = state.view(np.float32)
    now = vec.peek(0)[name][0]
    (place,) = np.flatnonzero(numbers == now)[:1]
    for sign in (1, -1):
        numbers[place] = sign * most * 0.999
        assert load(vec, state) == lib.PV_OK and vec.peek(0)[name][0] == numbers[place]
        numbers[place] = sign * most * 1.001
        assert load(vec, state) == lib.PV_ERROR_STATE


def test_numbers_of_followers_are_taken_up_to_their_bounds(tmp_path: Path) -> None:
    """A distance along a lane of 2e5 m would lead out of the map."""
    write_world(tmp_path / "set", [random_scene(seed, objects=8, roads=9) for seed in (1, 2)])
    with make_env(tmp_path / "set", num_agents=AGENTS, others="idm", control="sdc") as vec:
        vec.reset(seed=3)
        for _ in range(5):
            vec.step(None)
        state, shown = saved_state(vec), vec.peek(0)
        for name, wrong in {"along": -1.0, "speed": 2e5, "from_x": 2e7, "from_y": -2e7}.items():
            number = next(float(n) for n in shown[f"follower_{name}"] if n != 0.0)
            places = np.flatnonzero(state.view(np.float32) == np.float32(number))
            codes = []
            for place in places:
                broken = state.copy()
                broken.view(np.float32)[place] = wrong
                codes.append(load(vec, broken))
            assert lib.PV_ERROR_STATE in codes, name
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
