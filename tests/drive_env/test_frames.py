# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Frames of a drive env (drive_env/render/frames.py) have one size, whatever the cars do and whichever scene it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puffervec
from drive_env.render.frames import FrameRecorder
from puffervec.errors import CallOrderError


def test_one_size(tiny_tree: Callable[..., dict[str, Any]], tmp_path: Path, cache: Path) -> None:
    pytest.importorskip("matplotlib")
    trees = {"short": tiny_tree(cars=1), "long": tiny_tree(frames=90, cars=2, speed_mps=15.0)}
    for name, tree in trees.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(tree))
    with puffervec.make("drive", env_kwargs={"scenes": str(tmp_path), "num_agents": 2}, backend="serial", num_envs=1) as vec:
        recorder = FrameRecorder(vec)
        with pytest.raises(CallOrderError, match="call reset first"):
            recorder.picture()
        pictures = []
        for task in (0, 1):
            vec.set_tasks([0], [task])
            vec.reset(seed=0)
            recorder.begin()
            pictures.append(recorder.picture())
            for _ in range(12):
                vec.step(np.full(vec.num_agents, 6 * 13 + 12))  # full speed, hard to the left
                recorder.add()
            pictures.append(recorder.picture())
    assert len({picture.shape for picture in pictures}) == 1
    assert (pictures[2] != pictures[3]).any() and (pictures[0] != pictures[2]).any()
