# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Submission files of the sim agents challenge: what is written is what is read, files that are
encoded by hand, damaged ones, and the challenge's own example.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drive_env.evaluate.submission import (
    FIELDS,
    STEPS,
    ScenarioRollouts,
    head_bytes,
    read_submission,
    scenario_bytes,
)
from puffervec.errors import SceneError
from tests.drive_env.womd_files import block, integer, single, varint

pytest.importorskip("google.protobuf")

EXAMPLE = "PUFFERVEC_WOSAC_SUBMISSION"  # the path of the challenge's test_submission.binproto


def floats(number: int, values: Sequence[float]) -> bytes:
    """A packed field of floats."""
    return block(number, struct.pack(f"<{len(values)}f", *values))


def trajectory(own_id: int, first: float = 0.0, steps: int = STEPS, heading: float = 0.5) -> bytes:
    x = [first + 0.5 * step for step in range(steps)]
    rest = floats(3, [2.0] * steps) + floats(4, [30.0] * steps) + floats(5, [heading] * steps)
    return floats(2, x) + rest + integer(6, own_id)


def joint(*trajectories: bytes) -> bytes:
    return b"".join(block(1, item) for item in trajectories)


def scenario(own_id: str, *scenes: bytes) -> bytes:
    return block(1, block(1, own_id.encode()) + b"".join(block(2, item) for item in scenes))


def read(data: bytes, folder: Path) -> list[ScenarioRollouts]:
    (folder / "file.binproto").write_bytes(data)
    return list(read_submission(folder / "file.binproto"))


def test_a_file_by_hand(tmp_path: Path) -> None:
    """Objects in another order in each rollout, one that the second lacks, unknown fields, and
    numbers that are not packed.
    """
    loose = b"".join(single(2, 7.0) for _ in range(STEPS))
    loose += trajectory(4)[len(floats(2, [0.0] * STEPS)) :]
    data = integer(2, 1) + block(4, b"somebody") + single(99, 1.0)
    data += scenario("abc", joint(trajectory(9), trajectory(4, 100.0), trajectory(7)),
                     joint(loose, trajectory(9, -3.0), trajectory(8)))  # fmt: skip
    data += scenario("empty", joint()) + block(5, b"author") + integer(14, 1)
    first, second = read(data, tmp_path)
    assert first.scenario_id == "abc" and first.ids.tolist() == [4, 9] and first.partly == (7, 8)
    assert first.poses.shape == (2, 2, 4, STEPS)
    np.testing.assert_array_equal(first.poses[0, 0, 0], 100 + 0.5 * np.arange(STEPS))
    np.testing.assert_array_equal(first.poses[1, 0, 0], 7.0)
    np.testing.assert_array_equal(first.poses[1, 1, 0], -3 + 0.5 * np.arange(STEPS))
    assert (first.poses[..., 1:, :] == np.array([2.0, 30.0, 0.5])[:, None]).all()
    assert second.scenario_id == "empty" and second.poses.shape == (1, 0, 4, STEPS)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    poses = rng.normal(0, 3, (3, 5, 4, STEPS)).astype(np.float32).astype(np.float64)
    sent = ScenarioRollouts("0123456789abcdef", np.array([3, 5, 2, 70_000, 1]), poses)
    other = ScenarioRollouts("other", np.array([8]), poses[:2, :1])
    data = head_bytes() + scenario_bytes(sent) + scenario_bytes(other)
    found, second = read(data, tmp_path)
    order = np.argsort(sent.ids)
    assert found.scenario_id == sent.scenario_id and found.partly == ()
    np.testing.assert_array_equal(found.ids, sent.ids[order])
    np.testing.assert_array_equal(found.poses, poses[:, order])
    np.testing.assert_array_equal(second.poses, poses[:2, :1])


def test_what_is_written_is_as_by_hand() -> None:
    """Byte for byte: fields by their published numbers, floats packed."""
    poses = np.stack([0.5 * np.arange(STEPS), np.full(STEPS, 2.0), np.full(STEPS, 30.0),
                      np.full(STEPS, 0.5)])  # fmt: skip
    sent = ScenarioRollouts("abc", np.array([7]), poses[None, None])
    assert scenario_bytes(sent) == scenario("abc", joint(trajectory(7)))
    assert head_bytes() == integer(2, 1) + block(4, b"puffervec")


GOOD = scenario("abc", joint(trajectory(1), trajectory(2)))
KEY = "scenario_rollouts[0]"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "expected a submission with scenarios, got none"),
        (integer(2, 1), "expected a submission with scenarios, got none"),
        (b"\x1f\x8b\x08rest", "it is compressed: unpack it"),
        (GOOD[:-1], f"byte 0: field 1 needs {len(GOOD) - 3} bytes, the file ends at byte"),
        (integer(2, 1) + GOOD + b"\x0a", f"byte {2 + len(GOOD)}: expected a field"),
        (GOOD + b"\x0b", f"byte {len(GOOD)}: expected a field of a SimAgentsChallengeSubmission"),
        (GOOD + b"\x00\x00", f"byte {len(GOOD)}: expected a field"),
        (integer(1, 5), "byte 0: expected a field"),
        (b"\xff" * 40, "byte 0: expected a field"),
        (varint(1 << 3 | 2) + varint(2**63), "byte 0: field 1 needs 9223372036854775808 bytes"),
        (block(1, b"\x0a\xff"), f"byte 0: {KEY}: expected rollouts of a scenario, got 2 bytes"),
        (block(1, block(2, joint(trajectory(1)))), f"byte 0: {KEY}.scenario_id: expected an id"),
        (scenario("abc"), f"{KEY}.joint_scenes: expected 1 to 1024 rollouts, got 0"),
        (
            integer(2, 1) + scenario("abc", joint(trajectory(1)), joint(trajectory(1, steps=79))),
            f"byte 2: {KEY}.joint_scenes[1].simulated_trajectories[0].center_x: "
            "expected 80 numbers, got 79",
        ),
        (
            scenario("abc", joint(trajectory(1), floats(2, [0.0] * STEPS) + integer(6, 2))),
            f"{KEY}.joint_scenes[0].simulated_trajectories[1].center_y: expected 80 numbers, got 0",
        ),
        (
            scenario("abc", joint(trajectory(1, float("nan")))),
            "simulated_trajectories[0].center_x[0]: expected a number between -100000 and 100000",
        ),
        (
            scenario("abc", joint(trajectory(1, heading=float("inf")))),
            "simulated_trajectories[0].heading[0]: expected a number between -1000 and 1000",
        ),
        (
            scenario("abc", joint(trajectory(1), trajectory(1))),
            "simulated_trajectories[1].object_id: expected an id that no other trajectory has, "
            "got 1",
        ),
        (
            scenario("abc", joint(trajectory(1)[: -len(integer(6, 1))])),
            "simulated_trajectories[0].object_id: expected an id",
        ),
        (
            GOOD + scenario("abc", joint(trajectory(1))),
            f"byte {len(GOOD)}: scenario_rollouts[1].scenario_id: expected an id that "
            "scenario_rollouts[0] does not have",
        ),
    ],
)  # fmt: skip
def test_damaged_files(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(SceneError) as caught:
        read(data, tmp_path)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'file.binproto'}: ") and words in text, text
    assert "\n" not in text


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, tmp_path / "a\0b"):
        with pytest.raises(SceneError, match="no such file|cannot be read"):
            list(read_submission(path))


@pytest.mark.parametrize("seed", range(3))
def test_any_damaged_byte_is_an_error_or_another_value(seed: int, tmp_path: Path) -> None:
    """Nothing else may come of it: no other exception, and no endless loop."""
    rng, data = (
        np.random.default_rng(seed),
        integer(2, 1) + GOOD + scenario("b", joint(trajectory(3))),
    )
    for _ in range(150):
        bad = bytearray(data)
        for at in rng.integers(0, len(bad), rng.integers(1, 4)):
            bad[at] = rng.integers(256)
        if rng.random() < 0.3:
            bad = bad[: rng.integers(len(bad))]
        try:
            found = read(bytes(bad), tmp_path)
        except SceneError:
            continue
        assert all(item.poses.shape[2:] == (4, STEPS) for item in found)


@pytest.mark.slow
def test_the_example_of_the_challenge(tmp_path: Path) -> None:
    """32 rollouts of a scenario in which all objects keep their velocity."""
    if not os.environ.get(EXAMPLE):
        pytest.skip(f"{EXAMPLE} names no test_submission.binproto of waymo_open_dataset")
    (found,) = read_submission(Path(os.environ[EXAMPLE]))
    assert found.scenario_id == "637f20cafde22ff8" and found.partly == ()
    assert found.poses.shape == (32, len(found.ids), 4, STEPS) and len(set(found.ids.tolist())) > 10
    again = read(head_bytes() + scenario_bytes(found), tmp_path)
    np.testing.assert_array_equal(again[0].poses, found.poses)
    assert again[0].scenario_id == found.scenario_id and FIELDS[3] == "heading"


def of_message(name: str) -> Callable[..., Any]:
    """A message class of the challenge's own module."""
    module = pytest.importorskip("waymo_open_dataset.protos.sim_agents_submission_pb2")
    return getattr(module, name)


@pytest.mark.slow
def test_the_message_of_the_challenge_reads_what_is_written() -> None:
    poses = np.random.default_rng(1).normal(0, 3, (2, 3, 4, STEPS)).astype(np.float32)
    sent = ScenarioRollouts("abc", np.array([5, 6, 7]), poses.astype(np.float64))
    message = of_message("SimAgentsChallengeSubmission")()
    message.ParseFromString(head_bytes() + scenario_bytes(sent))
    assert message.submission_type == message.SIM_AGENTS_SUBMISSION
    (rollouts,) = message.scenario_rollouts
    assert rollouts.scenario_id == "abc" and len(rollouts.joint_scenes) == 2
    for joint_scene, expected in zip(rollouts.joint_scenes, poses, strict=True):
        for item, values in zip(joint_scene.simulated_trajectories, expected, strict=True):
            np.testing.assert_array_equal([getattr(item, field) for field in FIELDS], values)
