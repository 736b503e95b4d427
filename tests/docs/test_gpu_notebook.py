# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/gpu-notebook.ipynb: runs from top to bottom with its small settings, and is stored without
outputs.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs import pages

FILE = pages.ROOT / "docs" / "gpu-notebook.ipynb"


def test_it_is_stored_without_outputs_and_without_paths() -> None:
    text = FILE.read_text(encoding="utf-8")
    for cell in json.loads(text)["cells"]:
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None
    assert re.findall(r"(?<![\w.])/(?:home|root|tmp|work|usr|content)\b", text) == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder whose kernel imports what this process imports, and draws inline."""
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv(
        "PYTHONPATH",
        os.pathsep.join([str(pages.ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    )
    return tmp_path


def printed(cell: Any) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


@pytest.mark.slow
def test_it_runs(place: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the packages of a notebook")
    nbclient = pytest.importorskip("nbclient", reason="needs the packages of a notebook")
    pytest.importorskip("ipykernel", reason="needs the packages of a notebook")
    pytest.importorskip("matplotlib", reason="the notebook draws")
    notebook = nbformat.read(FILE, as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    assert cells["settings"].source.count("SMALL = False\n") == 1
    cells["settings"].source = cells["settings"].source.replace("SMALL = False\n", "SMALL = True\n")
    nbclient.NotebookClient(
        notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": place}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = [output.text for output in outputs if output.get("name") == "stderr"]
    assert [
        text for text in said if not text.startswith("drive: compiling")
    ] == []  # where no scenes are in the cache
    drawn = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(drawn) == 4
    assert "usable" in printed(cells["machine"])
    assert "rows" in printed(cells["train"]) and "update" in printed(cells["tag-curve"])
    assert re.findall(r"(\w+) +(\d+) cars", printed(cells["evaluation"])) == [
        ("trained", "725"),
        ("random", "725"),
    ]
    assert (
        printed(cells["cartpole"]).count("steps/s") == 3
        and printed(cells["double"]).count("steps/s") == 2
    )
    assert sorted(path.name.split("-")[0] for path in (place / "runs").iterdir()) == [
        "drive",
        "tag_grid",
    ]
