# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Planned cars: no contact with each other or an edge, motion that the env's bicycle can do, and
traffic that gives way.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from drive_env.generate import traffic
from drive_env.generate.generate import NARROW, WIDE
from drive_env.generate.layouts import Layout, Trip, draw_layout, line
from drive_env.generate.traffic import FRAMES, PARKED, Car, edge_segments, plan_cars
from drive_env.scenes.geometry import box_crosses_segment, boxes_overlap

SCENES = [(family, seed) for family in ("straight", "curve", "tee", "cross") for seed in range(4)]


@pytest.fixture(scope="module")
def planned() -> list[tuple[Layout, list[Car]]]:
    """Cars of sixteen layouts."""
    result = []
    for family, seed in SCENES:
        rng = np.random.default_rng([9, seed, len(family)])
        ranges = WIDE if seed % 2 else NARROW
        layout = draw_layout(rng, family, ranges)
        result.append((layout, plan_cars(rng, layout, ranges)))
    return result


def frames_of(car: Car) -> slice:
    return slice(car.first, car.last + 1)


def moving(cars: list[Car]) -> list[Car]:
    return [car for car in cars if car.turn != PARKED]


@pytest.mark.slow
def test_no_two_logs_touch(planned: list[tuple[Layout, list[Car]]]) -> None:
    for _, cars in planned:
        for one, other in itertools.combinations(cars, 2):
            span = slice(max(one.first, other.first), min(one.last, other.last) + 1)
            gap = np.stack(
                [other.x_m[span] - one.x_m[span], other.y_m[span] - one.y_m[span]], axis=-1
            )
            half = (np.array(one.length_m / 2 + 0.1), np.array(one.width_m / 2 + 0.1))
            other_half = (np.array(other.length_m / 2), np.array(other.width_m / 2))
            assert not boxes_overlap(
                gap, one.heading_rad[span], other.heading_rad[span], half, other_half
            ).any()


@pytest.mark.slow
def test_no_log_touches_an_edge_even_if_it_is_simplified(
    planned: list[tuple[Layout, list[Car]]],
) -> None:
    for layout, cars in planned:
        start, end = edge_segments(layout)
        for car in cars:
            span = frames_of(car)
            centre = np.stack([car.x_m[span], car.y_m[span]], axis=-1)
            half = (car.length_m / 2 + 0.2, car.width_m / 2 + 0.2)
            assert not box_crosses_segment(centre, car.heading_rad[span], *half, start, end).any()


@pytest.mark.slow
def test_motion_is_within_what_the_bicycle_can_do(planned: list[tuple[Layout, list[Car]]]) -> None:
    differences = []
    for _, cars in planned:
        for car in moving(cars):
            span = frames_of(car)
            x, y, heading = car.x_m[span], car.y_m[span], car.heading_rad[span]
            speed = np.hypot(np.diff(x), np.diff(y)) / 0.1
            acceleration = np.diff(speed) / 0.1
            assert acceleration.max() < 2.2 and acceleration.min() > -4.0
            rolling = speed > 1.0
            slip = np.arctan2(np.diff(y), np.diff(x)) - (heading[:-1] + heading[1:]) / 2
            slip = ((slip + np.pi) % (2 * np.pi) - np.pi)[rolling]
            steering = np.arctan(2 * np.tan(slip))
            assert np.abs(steering).max(initial=0.0) < 0.8
            # The bicycle's own turning rate under that steering is the log's.
            turning = speed[rolling] * np.cos(slip) * np.tan(steering) / (0.6 * car.length_m)
            logged = (np.diff(np.unwrap(heading)) / 0.1)[rolling]
            differences.append(np.abs(turning - logged))
    assert len(differences) > 60
    together = np.concatenate(differences)
    # Paths are sampled every 0.5 m, so curvature is stepwise within a sample; 0.3 rad/s over one
    # step are 2 degrees.
    assert np.percentile(together, 90) < 0.06 and together.max() < 0.3


def test_logs_are_long_enough_to_be_goals_and_end_in_time(
    planned: list[tuple[Layout, list[Car]]],
) -> None:
    for _, cars in planned:
        for car in moving(cars):
            assert car.displacement_m >= 9.0
            assert car.last <= 76 < FRAMES - 10


def test_parked_cars_stand_still_at_the_kerb(planned: list[tuple[Layout, list[Car]]]) -> None:
    parked = [(layout, car) for layout, cars in planned for car in cars if car.turn == PARKED]
    assert parked
    for layout, car in parked:
        assert np.ptp(car.x_m) == np.ptp(car.y_m) == np.ptp(car.heading_rad) == 0
        assert (car.x_m[0], car.y_m[0]) in {(x, y) for x, y, _ in layout.parking}


def straight_trip() -> Trip:
    return Trip(
        line(np.array([0.0, 0.0]), np.array([150.0, 0.0])),
        "straight",
        True,
        (5.0, 6.0),
        0.0,
        (),
        (),
    )


def crossing_car(at_x_m: float, arrives_frame: int) -> Car:
    """A car that drives along x = at_x_m from below at 8 m/s; it is at y = 0 in the given frame."""
    frames = np.arange(FRAMES)
    still = np.zeros(FRAMES)
    y = (frames - arrives_frame) * 0.8
    return Car(
        4.5,
        1.9,
        1.5,
        np.full(FRAMES, at_x_m),
        y,
        np.full(FRAMES, np.pi / 2),
        still,
        still + 8.0,
        0,
        90,
        False,
        "straight",
    )


def test_a_car_waits_for_one_that_crosses() -> None:
    no_edges = (np.zeros((0, 2)), np.zeros((0, 2)))
    free, yielding = [], []
    for seed in range(12):
        for cars, found in (([], free), ([crossing_car(45.0, 40)], yielding)):
            car = traffic.plan_car(
                np.random.default_rng(seed), straight_trip(), cars, no_edges, NARROW
            )
            if car is not None:
                found.append((car, np.hypot(car.vx_mps, car.vy_mps)[frames_of(car)]))
    assert len(free) == 12 and len(yielding) >= 8
    slowed = [speed for car, speed in yielding if speed[5:].min() < 0.6 * speed[:30].max()]
    assert slowed  # somebody brakes
    assert all(not traffic.touches(car, [crossing_car(45.0, 40)]) for car, _ in yielding)
    assert any(
        car.displacement_m > 42 for car, _ in yielding
    )  # and goes on afterwards, or passes in front


def test_a_blocked_start_means_no_car() -> None:
    still = np.zeros(FRAMES)
    standing = Car(4.5, 1.9, 1.5, still + 6.0, still, still, still, still, 0, 90, False, PARKED)
    no_edges = (np.zeros((0, 2)), np.zeros((0, 2)))
    assert all(
        traffic.plan_car(np.random.default_rng(seed), straight_trip(), [standing], no_edges, NARROW)
        is None
        for seed in range(5)
    )
