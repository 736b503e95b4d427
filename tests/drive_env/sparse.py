# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Scene sets of gigabytes that take a few blocks of the disk: their last scene lies, or ends,
behind a hole.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from drive_env.scenes import packed
from drive_env.scenes.sceneset import SceneSet, _sum_of_table


def with_hole(source: Path, out: Path, size: int, inside: bool = False) -> Path:
    """Write a copy of `source`, a set of one scene, with `size` bytes and sound sums of its table.

    Args: size: a multiple of 64. inside: the scene has the hole at its end; else the hole lies
        before the scene.
    """
    scenes = SceneSet(source)
    head, entries = np.zeros((), packed.SET), scenes.entries.copy()
    head[()] = scenes.head
    start, length = int(entries[0]["offset"]), int(entries[0]["bytes"])
    content = scenes.data[start : start + length]
    place = start if inside else size - length
    entries[0]["offset"], entries[0]["bytes"] = place, size - place
    head["bytes"] = size
    head["crc32"] = _sum_of_table(head, entries)
    with out.open("wb") as file:
        file.truncate(size)
        file.write(head.tobytes() + entries.tobytes())
        file.seek(place)
        file.write(content)
    assert len(entries) == 1 and place >= packed.SET.itemsize + entries.nbytes
    return out
