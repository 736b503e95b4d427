# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Convert rollouts of scenes to those of a submission to the sim agents challenge.

Runs in the learner.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drive_env.evaluate.submission import CHALLENGE_ROLLOUTS, HISTORY, STEPS, ScenarioRollouts
from drive_env.scenes.schema import Floats
from drive_env.scenes.stored import StoredScene
from drive_env.sources import id_of

if TYPE_CHECKING:
    from drive_env.evaluate.realism import SceneRollouts

SHOWN = 3  # scenes named in a remark


def scenario_id_of(scene: StoredScene) -> str:
    """Return the data set's id of a scene, or its name if the data set has none."""
    own_id = scene.text.get("scenario_id")
    return own_id if isinstance(own_id, str) and own_id else id_of(scene.name)


class Sent:
    """The scenes of a submission, counted while it is written."""

    def __init__(self) -> None:
        self.written = 0
        self.objects = 0
        self.logged = 0  # number of the objects that follow their log
        self.left_out: list[str] = []

    def take(self, scene: StoredScene, rolled: SceneRollouts) -> ScenarioRollouts | None:
        """Return the rollouts of all objects that are present at the current frame.

        An object that is absent later stands at its last place. Returns None if the scene is too
        short for the challenge, or its objects have no ids of their own.
        """
        own = np.flatnonzero(rolled.log.valid[:, HISTORY])
        ids = scene.sections["objects"]["id"][own].astype(np.int64)
        frames = rolled.log.x.shape[1]
        if frames < HISTORY + 1 + STEPS or (ids < 0).any() or len(np.unique(ids)) < len(ids):
            self.left_out.append(scene.name)
            return None
        assert rolled.height is not None
        boxes, shift = rolled.rollouts, [*scene.origin_m, 0.0]
        columns = [
            _hold(values[:, own])[..., HISTORY + 1 :] + offset
            for values, offset in zip(
                (boxes.x, boxes.y, rolled.height, boxes.heading), shift, strict=True
            )
        ]
        self.written += 1
        self.objects += len(own)
        self.logged += len(np.setdiff1d(own, rolled.evaluated))
        return ScenarioRollouts(scenario_id_of(scene), ids, np.stack(columns, axis=2))

    def remarks(self, path: Path, rollouts: int) -> list[str]:
        """Return remarks on the file, and on anything in it that the challenge would refuse."""
        lines = [f"{path}: the rollouts of {self.written} scenes, as a submission"]
        if rollouts != CHALLENGE_ROLLOUTS:
            lines.append(
                f"{path}: {rollouts} rollouts of a scene; the challenge takes {CHALLENGE_ROLLOUTS}"
            )
        if self.logged:
            lines.append(
                f"{path}: {self.logged} of the {self.objects} objects follow their log, which the "
                "challenge does not allow (--env.control all drives more of them)"
            )
        if self.left_out:
            more = ", ..." if len(self.left_out) > SHOWN else ""
            lines.append(
                f"NOT WRITTEN: {len(self.left_out)} scenes with fewer than {HISTORY + 1 + STEPS} "
                f"frames, or with objects without ids: {', '.join(self.left_out[:SHOWN])}{more}"
            )
        return lines


def _hold(values: Floats) -> Floats:
    """Return values over time (..., T) in which NaN is replaced by the last number before it."""
    times = np.where(np.isfinite(values), np.arange(values.shape[-1]), 0)
    return np.take_along_axis(values, np.maximum.accumulate(times, axis=-1), axis=-1)
