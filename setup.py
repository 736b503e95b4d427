# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The extension module, the public headers and the long description; everything else stands in
pyproject.toml.

Switches of the build: csrc/build_ffi.py.
"""

import os
import re
import runpy
import shutil
import sys
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

if sys.platform == "win32":
    sys.exit(
        "puffervec runs on Linux (macOS is planned, and untested), not on Windows: use the "
        "Windows Subsystem for Linux"
    )

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)

# The headers that an env type of another package is compiled against; installed to
# puffervec/include.
CONTRACT = ROOT / "csrc" / "contract"
PUBLIC_HEADERS = sorted(CONTRACT.rglob("*.h"))


class BuildWithHeaders(build_py):
    """Puts the public headers beside the Python files of a wheel."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        include = Path(self.build_lib) / "puffervec" / "include"
        include.mkdir(parents=True, exist_ok=True)
        for header in PUBLIC_HEADERS:
            target = include / header.relative_to(CONTRACT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(header, target)
        check = runpy.run_path(str(ROOT / "csrc" / "build_ffi.py"))["source_check"]()
        (include / "sources.crc32").write_text(
            f"{check:#010x}\n"
        )  # compared at import by puffervec/_ffi.py


def long_description() -> str:
    """Return README.md with links that lead to the repository: a package index shows the text
    alone.
    """
    home = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\g<1>{home}/raw/main/", text)
    return re.sub(
        r"(\]\()(?!https?:|#)", rf"\g<1>{home}/blob/main/", text
    )  # also those whose text is a picture


options = {"bdist_wheel": {"py_limited_api": "cp311"}}
variant = (
    "sanitize"
    if os.environ.get("PUFFERVEC_SANITIZE")
    else "debug"
    if os.environ.get("PUFFERVEC_DEBUG")
    else ""
)
if variant:  # its own object files
    options["build"] = {"build_temp": f"build/temp.{variant}"}

setup(
    cffi_modules=["csrc/build_ffi.py:ffibuilder"],
    cmdclass={"build_py": BuildWithHeaders},
    options=options,
    long_description=long_description(),
    long_description_content_type="text/markdown",
)
