# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Planned traffic: the driver model, cars that wait for others, for lights and at signs, and who is
planned first.
"""

from __future__ import annotations

import numpy as np
import pytest

from drive_env.generate import flow
from drive_env.generate.flow import Route, Wish, plan_actor, standing_actor
from drive_env.generate.layouts import line
from drive_env.generate.traffic import FRAMES
from drive_env.scenes.schema import VEHICLE

NO_EDGES = (np.zeros((0, 2)), np.zeros((0, 2)))
SIZE = (4.6, 1.9, 1.5)


def route(stops: tuple[tuple[float, int, bool], ...] = (), rank: int = 5) -> Route:
    return Route(
        line(np.array([0.0, 0.0]), np.array([220.0, 0.0])), stops, (0,), "straight", rank, 1.0, 0
    )


def wish(at_m: float = 10.0, cruise: float = 10.0, lane: int = 0, **more: object) -> Wish:
    given = more.pop("route", None) or route()
    return Wish(lane, at_m, cruise, given, SIZE, False, **more)  # type: ignore[arg-type]


def planned(
    car: Wish, others: list[flow.Actor] | None = None, red: np.ndarray | None = None
) -> flow.Actor:
    lights = np.zeros((1, FRAMES), dtype=bool) if red is None else red
    found = plan_actor(np.random.default_rng(0), car, others or [], lights, NO_EDGES)
    assert found is not None
    return found


def speed(actor: flow.Actor) -> np.ndarray:
    return np.hypot(actor.vx_mps, actor.vy_mps)


def test_the_driver_model_keeps_its_distance() -> None:
    v = np.array([10.0])
    far, near = (flow.follow(v, np.array([12.0]), np.array([gap]), v)[0] for gap in (200.0, 6.0))
    assert 0 < far < flow.ACCELERATE_MPS2 and near < -1.0
    balance = (flow.STANDSTILL_M + flow.HEADWAY_S * 10.0) / np.sqrt(1 - (10.0 / 12.0) ** 4)
    assert flow.follow(v, np.array([12.0]), np.array([balance]), v)[0] == pytest.approx(
        0.0, abs=1e-9
    )
    assert flow.follow(v, np.array([10.0]), np.array([1e9]), v)[0] == pytest.approx(0.0, abs=1e-6)
    assert flow.follow(v, np.array([12.0]), np.array([0.1]), np.zeros(1))[0] == -flow.HARDEST_MPS2


def test_a_free_road_is_driven_at_the_speed_aimed_at() -> None:
    free = planned(wish())
    assert speed(free)[-10:].mean() == pytest.approx(10.0, abs=0.5) and free.displacement_m > 75


def test_cars_queue_behind_one_that_stands() -> None:
    first = standing_actor((60.0, 0.0, 0.0), SIZE)
    second = planned(wish(at_m=20.0), [first])
    third = planned(wish(at_m=8.0, cruise=12.0), [first, second])
    assert speed(second)[-1] < 0.3 and speed(third)[-1] < 0.3
    gaps = [first.x_m[-1] - second.x_m[-1] - 4.6, second.x_m[-1] - third.x_m[-1] - 4.6]
    assert all(2.0 < gap < 5.5 for gap in gaps)


def test_a_red_light_is_waited_for_and_green_lets_go() -> None:
    red = np.zeros((1, FRAMES), dtype=bool)
    red[0, :60] = True
    car = planned(wish(route=route(((50.0, 0, False),))), red=red)
    front = car.x_m + 2.3
    assert (front[:60] < 50.0).all() and front[-1] > 52.0 and speed(car)[:60].min() < 1.5
    red[:] = True
    assert (planned(wish(route=route(((50.0, 0, False),))), red=red).x_m + 2.3 < 50.0).all()


def test_a_sign_is_stopped_at() -> None:
    car = planned(wish(route=route(((45.0, -1, True),))))
    standing = speed(car) < 0.45
    assert (
        standing.sum() * 0.1 >= 0.8
        and (car.x_m[standing] + 2.3 < 45.6).all()
        and car.x_m[-1] + 2.3 > 46.5
    )


def test_who_crosses_is_given_way() -> None:
    frames = np.arange(FRAMES)
    zero = np.zeros(FRAMES)
    for arrives in (30, 45, 60):
        across = flow.Actor(
            *SIZE,
            zero + 50.0,
            (frames - arrives) * 0.9,
            zero + np.pi / 2,
            zero,
            zero + 9.0,
            0,
            90,
            False,
            "straight",
        )
        car = planned(wish(), [across])
        gap = np.hypot(car.x_m - across.x_m, car.y_m - across.y_m)
        assert gap.min() > 3.3


def test_other_levels_do_not_meet() -> None:
    above = flow.Actor(**{**standing_actor((40.0, 0.0, 0.0), SIZE).__dict__, "level": 1})
    from drive_env.generate.network import Streets

    found = flow.plan_traffic(
        np.random.default_rng(0),
        Streets(),
        [wish()],
        np.zeros((1, FRAMES), bool),
        [above],
        {0: NO_EDGES, 1: NO_EDGES},
    )
    assert len(found) == 1 and found[0].displacement_m > 75


def test_who_is_in_front_is_planned_first_and_then_who_has_priority() -> None:
    behind, front, minor = (
        wish(at_m=10.0, lane=1),
        wish(at_m=30.0, lane=1),
        wish(lane=2, route=route(rank=-8)),
    )
    for seed in range(5):
        found = flow.sort_wishes(np.random.default_rng(seed), [minor, behind, front])
        assert found.index(front) < found.index(behind) and found[-1] is minor


def test_cyclists_keep_right() -> None:
    cyclist = planned(Wish(0, 10.0, 4.0, route(), (1.8, 0.7, 1.75), False, kind=VEHICLE + 2))
    assert cyclist.y_m.mean() == pytest.approx(-1.0) and cyclist.kind == 2


def test_positions_between_the_steps_of_the_plan_lie_on_the_motion() -> None:
    t = np.arange(0.0, 5.0, 0.2)
    s = 3.0 * t + 0.8 * t**2
    fine = flow.refine(s, 3.0 + 1.6 * t)
    np.testing.assert_allclose(
        fine, 3.0 * np.arange(len(fine)) * 0.1 + 0.8 * (np.arange(len(fine)) * 0.1) ** 2, atol=1e-9
    )
