# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/train/run/checkpoint.py and folder.py on a disk that loses power: at every moment of a
save, with every part of what was not synced lost, an old or the new checkpoint loads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from puffervec.train.run import checkpoint as ckpt
from tests.faults.disk import Operation, Recorder, after_power_loss, lay_out, snapshot
from tests.train.saved import some, value_of


class Case:
    """A folder of runs before a save, and what the save does."""

    def __init__(self, tmp_path: Path, earlier: int, keep: int) -> None:
        self.scratch = tmp_path
        self.root = tmp_path / "runs"
        self.root.mkdir()
        self.folder = self.root / "run" / "checkpoints"
        for step in range(1, earlier + 1):
            ckpt.write(self.folder, some(step, float(step)), keep=keep)
        self.disk = snapshot(self.root)
        with Recorder() as recorder:
            ckpt.write(self.folder, some(100, 100.0), keep=keep)
        self.operations = recorder.operations

    def values(self, operations: list[Operation]) -> Iterator[tuple[bool, float | None]]:
        """Yield (the save had returned, the value that loads or None) of every content after a loss
        of power.
        """
        numbers = itertools.count()
        for done, tree in after_power_loss(self.disk, operations):
            root = lay_out(tree, self.scratch / f"after-{next(numbers)}")
            path = ckpt.newest(root / "run" / "checkpoints")
            yield done == len(operations), None if path is None else value_of(path)


@pytest.mark.parametrize(("earlier", "keep"), [(1, 1), (2, 2)])
def test_old_or_new_always_loads(tmp_path: Path, earlier: int, keep: int) -> None:
    case = Case(tmp_path, earlier, keep)
    found = list(case.values(case.operations))
    assert len(found) > 50
    assert {value for returned, value in found if returned} == {
        100.0
    }  # What was said to be saved is saved.
    assert {value for _, value in found} == {float(earlier), 100.0}


def test_the_first_one_is_safe_when_saved(tmp_path: Path) -> None:
    """Its folder, and the run's, are new: their names must be on the disk too."""
    case = Case(tmp_path, 0, 1)
    found = list(case.values(case.operations))
    assert {value for returned, value in found if returned} == {100.0}
    assert {value for _, value in found} == {None, 100.0}


@pytest.mark.parametrize("skipped", ["files", "the new folder", "its parent"])
def test_the_model_sees_a_missing_sync(tmp_path: Path, skipped: str) -> None:
    case = Case(tmp_path, 1, 1)

    def is_skipped(operation: Operation) -> bool:
        path = Path(operation[1])
        kind = (
            "files"
            if path.suffix
            else "the new folder"
            if path.name.startswith(".partial")
            else "its parent"
        )
        return operation[0] == "sync" and kind == skipped

    left = [operation for operation in case.operations if not is_skipped(operation)]
    assert len(left) < len(case.operations)
    assert any(value is None for _, value in case.values(left))  # Nothing loads.
