# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""docs/c-env-helpers.md: it names what the public headers declare, and nothing else; its C
compiles.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from puffervec._ffi import lib
from puffervec.contract import env_types
from tests.builds import source_folder
from tests.docs import pages
from tests.libraries import STRICT

FILE = pages.ROOT / "docs" / "c-env-helpers.md"
PAGE = FILE.read_text(encoding="utf-8")
HEADERS = "\n".join(
    (pages.ROOT / "csrc/contract" / f"{name}.h").read_text()
    for name in ("base", "env", "env_helpers", "rng", "pv_env")
)
# Of the core alone, or what the helpers consist of.
NOT_FOR_ENVS = {"pv_philox", "pv_philox_inline"}


def test_all_helpers_are_listed() -> None:
    declared = (
        set(
            re.findall(
                r"^(?:static inline |PV_HELPER )?[\w ]+?[ *]+(pv_\w+)\(", HEADERS, re.MULTILINE
            )
        )
        - NOT_FOR_ENVS
    )
    listed = set(re.findall(r"^\| `(pv_\w+)\(", PAGE, re.MULTILINE))
    assert len(declared) >= 11
    assert listed == declared


def test_every_name_on_the_page_is_in_the_headers() -> None:
    unknown = {
        name
        for name in re.findall(r"\b(?:pv|PV)_\w+", PAGE)
        if not re.search(rf"\b{name}\b", HEADERS)
    }
    assert unknown == set()


def test_the_limits_are_those_of_the_headers() -> None:
    rows = re.findall(r"^\| (`PV_[^|]*) \| ([\d, ]+) \|", PAGE, re.MULTILINE)
    shown = {
        name: int(value)
        for names, values in rows
        for name, value in zip(re.findall(r"PV_\w+", names), values.split(", "), strict=True)
    }
    assert len(shown) == 10
    assert shown == {name: getattr(lib, name) for name in shown}


def test_the_code_compiles(tmp_path: Path) -> None:
    source_folder()
    found = [block for block in pages.blocks(PAGE) if block.info == "c"]
    assert len(found) == 2
    for number, block in enumerate(found):
        file = tmp_path / f"{number}.c"
        file.write_text(block.text)
        flags = [
            *env_types.compile_args(),
            *STRICT,
            "-Wno-missing-prototypes",
            "-Wno-unused-function",
        ]
        command = [
            os.environ.get("CC", "cc"),
            "-c",
            *flags,
            f"-I{env_types.get_include()}",
            str(file),
            "-o",
            "/dev/null",
        ]
        assert subprocess.run(command, capture_output=True, text=True, timeout=60).stderr == ""
