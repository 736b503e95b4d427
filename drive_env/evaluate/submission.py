# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Submission files of the Waymo Open Sim Agents Challenge: writes and reads rollouts.

A file is one protobuf message, SimAgentsChallengeSubmission. SCHEMA lists the fields that are
used, with their published numbers (waymo_open_dataset/protos/sim_agents_submission.proto). Reading
and writing hold one scenario at a time: protobuf reads consecutive messages of one type as one
message, so a file can be written in pieces, and `_walk` splits it at its outermost fields. Lengths
are compared with the size of the file before anything is read. Needs the extra `womd`; runs in the
learner.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drive_env.scenes.check import (
    COORDINATE_LIMIT_M,
    HEADING_LIMIT_RAD,
    MAX_OBJECTS,
    MISSING,
    Checker,
    parse_message,
)
from drive_env.scenes.schema import Floats
from drive_env.scenes.tfrecord import opened
from drive_env.scenes.wire import message_class
from puffervec.errors import SceneError
from puffervec.system import extras

# See `message_class`. An id is bytes, so that text that is not UTF-8 is just an unknown scenario.
SCHEMA = {
    "SimAgentsChallengeSubmission": (
        "1 ScenarioRollouts[] scenario_rollouts, 2 int32 submission_type, 3 string account_name, "
        "4 string unique_method_name"
    ),
    "ScenarioRollouts": "1 bytes scenario_id, 2 JointScene[] joint_scenes",
    "JointScene": "1 SimulatedTrajectory[] simulated_trajectories",
    "SimulatedTrajectory": (
        "2 float[packed] center_x, 3 float[packed] center_y, 4 float[packed] center_z, "
        "5 float[packed] heading, 6 int32 object_id"
    ),
}
FIELDS = ("center_x", "center_y", "center_z", "heading")
LIMITS = np.array([COORDINATE_LIMIT_M] * 3 + [HEADING_LIMIT_RAD])[:, None]
SCENARIO = 1  # field of the outermost message
SIM_AGENTS = 1  # its submission_type
HISTORY = 10  # the current frame: there are ten before it
STEPS = 80  # of each trajectory, 0.1 s apart; the first is the one after the current frame
CHALLENGE_ROLLOUTS = 32
MOST_ROLLOUTS = 1024
MOST_SCENARIO_BYTES = 1 << 28
VARINT_BYTES = 10
# Bytes after the tag of a field, by its wire type; fields of types 0 and 2 encode their length.
FIXED_BYTES = {1: 8, 5: 4}
GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class ScenarioRollouts:
    """The rollouts of one scenario.

    Attributes:
        scenario_id: id of the scenario in the data set.
        ids: (K,) track ids of the objects; ascending where they were read.
        poses: (R, K, 4, STEPS) x, y, z and heading, as FIELDS, in the data set's frame.
        partly: ids of objects that only some of the rollouts have; `ids` does not have them.
    """

    scenario_id: str
    ids: NDArray[np.int64]
    poses: Floats
    partly: tuple[int, ...] = ()


def require_protobuf() -> None:
    """Raise MissingExtraError if protobuf is not installed."""
    extras.require("a submission to the sim agents challenge", "google.protobuf")


@functools.cache
def _message(name: str) -> Any:
    return message_class(SCHEMA, "puffervec.submission", name)


# ---- writing -------------------------------------------------------------------------------------


def head_bytes() -> bytes:
    """Return the piece of a file that tells what it is; the user adds names of authors."""
    return bytes(
        _message("SimAgentsChallengeSubmission")(
            submission_type=SIM_AGENTS, unique_method_name="puffervec"
        ).SerializeToString()
    )


def scenario_bytes(rollouts: ScenarioRollouts) -> bytes:
    """Return the piece of a file with the rollouts of a scenario."""
    submission = _message("SimAgentsChallengeSubmission")()
    scenario = submission.scenario_rollouts.add(scenario_id=rollouts.scenario_id.encode())
    for rollout in rollouts.poses.astype(np.float32):
        joint = scenario.joint_scenes.add()
        for own_id, poses in zip(rollouts.ids.tolist(), rollout, strict=True):
            columns = dict(zip(FIELDS, poses.tolist(), strict=True))
            joint.simulated_trajectories.add(object_id=own_id, **columns)
    return bytes(submission.SerializeToString())


# ---- reading -------------------------------------------------------------------------------------


def read_submission(path: Path) -> Iterator[ScenarioRollouts]:
    """Yield the rollouts of each scenario of a file.

    Raises:
        SceneError: the file cannot be read, is cut off, or a value is missing or wrong. The message
            reads `file: byte N: field: expected ..., got ...`; N is where the scenario begins.
        MissingExtraError: protobuf is not installed.
    """
    require_protobuf()
    seen: dict[str, int] = {}
    for number, (at, data) in enumerate(_scenarios(path)):
        check = Checker(f"{path}: byte {at}")
        key = f"scenario_rollouts[{number}]"
        where, what = f"{check.source}: {key}", "rollouts of a scenario"
        message = parse_message(_message("ScenarioRollouts"), data, where, what)
        found = _rollouts(check, key, message)
        if found.scenario_id in seen:
            other = f"an id that scenario_rollouts[{seen[found.scenario_id]}] does not have"
            check.fail(f"{key}.scenario_id", other, found.scenario_id)
        seen[found.scenario_id] = number
        yield found
    if not seen:
        raise SceneError(f"{path}: expected a submission with scenarios, got none")


def _rollouts(check: Checker, key: str, message: Any) -> ScenarioRollouts:
    if not message.HasField("scenario_id"):
        check.fail(f"{key}.scenario_id", "an id", MISSING)
    joint_scenes = message.joint_scenes
    if not 1 <= len(joint_scenes) <= MOST_ROLLOUTS:
        check.fail(f"{key}.joint_scenes", f"1 to {MOST_ROLLOUTS} rollouts", len(joint_scenes))
    scenes = [
        _joint_scene(check, f"{key}.joint_scenes[{index}]", joint.simulated_trajectories)
        for index, joint in enumerate(joint_scenes)
    ]
    every: set[int] = set().union(*scenes)
    whole = sorted(every.intersection(*scenes))
    shape = (len(scenes), len(whole), len(FIELDS), STEPS)
    poses = np.array([[scene[own_id] for own_id in whole] for scene in scenes]).reshape(shape)
    return ScenarioRollouts(
        bytes(message.scenario_id).decode("utf-8", "replace"),
        np.array(whole, np.int64),
        poses,
        tuple(sorted(every.difference(whole))),
    )


def _joint_scene(check: Checker, key: str, trajectories: Any) -> dict[int, Floats]:
    """Return the poses of each object by its id, (4, STEPS)."""
    check.limit(len(trajectories), MAX_OBJECTS, key, "trajectories")
    poses: dict[int, Floats] = {}
    for index, item in enumerate(trajectories):
        own = f"{key}.simulated_trajectories[{index}]"
        if not item.HasField("object_id"):
            check.fail(f"{own}.object_id", "an id", MISSING)
        if item.object_id in poses:
            check.fail(f"{own}.object_id", "an id that no other trajectory has", item.object_id)
        poses[item.object_id] = _poses(check, own, item)
    return poses


def _poses(check: Checker, key: str, item: Any) -> Floats:
    for field in FIELDS:
        count = len(getattr(item, field))
        if count != STEPS:
            check.fail(f"{key}.{field}", f"{STEPS} numbers", count)
    values = np.array([getattr(item, field) for field in FIELDS], np.float64)
    check.within(values, LIMITS, lambda row, step: f"{key}.{FIELDS[row]}[{step}]")
    return values


def _scenarios(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the offset of each scenario's field, and its content."""
    with opened(path, "file") as file:
        yield from _walk(path, file, os.fstat(file).st_size)


def _walk(path: Path, file: int, size: int) -> Iterator[tuple[int, bytes]]:
    at = 0
    if os.pread(file, len(GZIP), 0) == GZIP:
        raise SceneError(f"{path}: it is compressed: unpack it, and name the files inside")
    while at < size:
        head = os.pread(file, 2 * VARINT_BYTES, at)
        tag, used = _varint(head, 0)
        wire, length = tag & 7, 0
        if wire == 0:
            used = _varint(head, used)[1] if used else 0
        elif wire == 2:
            length, used = _varint(head, used) if used else (0, 0)
        else:
            length = FIXED_BYTES.get(wire, -1)
        if not used or length < 0 or not tag >> 3 or (tag >> 3 == SCENARIO and wire != 2):
            raise SceneError(
                f"{path}: byte {at}: expected a field of a SimAgentsChallengeSubmission, got "
                f"{head[:VARINT_BYTES].hex(' ')}"
            )
        begin, end = at + used, at + used + length
        if end > size:
            raise SceneError(
                f"{path}: byte {at}: field {tag >> 3} needs {length} bytes, the file ends at byte "
                f"{size}: it is cut off"
            )
        if tag >> 3 == SCENARIO:
            if length > MOST_SCENARIO_BYTES:
                raise SceneError(
                    f"{path}: byte {at}: expected a scenario of at most {MOST_SCENARIO_BYTES} "
                    f"bytes, got {length}"
                )
            yield at, os.pread(file, length, begin)
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length and the offset after it; (0, 0) if it does not end."""
    value = 0
    for index, byte in enumerate(data[at : at + VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    return 0, 0
