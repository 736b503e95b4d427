# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""scripts/docs_site.py and docs_docstrings.py: links, navigation, the reference, and what a browser
makes of the site.
"""

from __future__ import annotations

import ast
import functools
import http.server
import importlib.util
import inspect
import pkgutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs import pages
from tests.viewing.web import browser

ROOT = Path(__file__).resolve().parents[2]


def loaded(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pytest.importorskip("mkdocs")
docs_site = loaded("docs_site")
WHERE = docs_site.places()


def test_every_page_has_a_place_and_stands_in_the_navigation_once() -> None:
    sections = docs_site.navigation(WHERE)
    pages = [page for section in sections for part in section.values() for page in part]
    found = [place for page in pages for place in page.values()]
    made = {"replay.html", "reference/commands.md", "reference/settings.md"}
    assert len(found) == len(set(found))
    assert set(found) - made == {place for place in WHERE.values() if place.endswith(".md")}
    names = [name for entry in (*sections, *pages) for name in entry]
    assert [name for name in names if names.count(name) > 1] == []


def test_links() -> None:
    text = (
        "[a](training.md#sweep) [b](../README.md) [c](../examples/sb3_script.py) "
        "[d](../csrc/contract/env.h) ![e](images/tag.png) [f](#here) [g](https://example.org/x) "
        "[h](gpu-notebook.ipynb) [i](../examples/out_of_tree)\n```md\n[in](code.md)\n```\n"
    )
    home = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]
    assert docs_site.rewrite_links(text, "docs/sweeps.md", WHERE) == (
        "[a](training.md#sweep) [b](index.md) [c](examples/sb3_script.md) "
        f"[d]({home}/blob/main/csrc/contract/env.h) ![e](images/tag.png) [f](#here) "
        "[g](https://example.org/x) [h](gpu-notebook.md) "
        f"[i]({home}/tree/main/examples/out_of_tree)\n```md\n[in](code.md)\n```\n"
    )
    assert docs_site.rewrite_links(
        "[a](docs/training.md) [![b](docs/images/replay.png)](docs/seeing.md)", "README.md", WHERE
    ) == ("[a](training.md) [![b](images/replay.png)](seeing.md)")


def test_other_pages() -> None:
    script = docs_site.page_of("examples/sb3_script.py")
    assert script.startswith("# sb3_script.py\n\n```python\n# SPDX") and script.endswith("```\n")
    notebook = docs_site.page_of("docs/gpu-notebook.ipynb")
    assert (
        notebook.startswith("# ")
        and "(gpu-notebook.ipynb)" in notebook
        and notebook.count("```python\n") > 3
    )
    assert (
        docs_site.FENCE.sub(docs_site._fence, '```python fails title="a b"\n```bash fails\n')
        == '```python title="a b"\n```bash\n'
    )


DOCSTRING = """\
Do it. See also: nothing.

>>> f(1)
2

Args: a, b: two rows; True: all of them. c: (rows,) bool;
        and more of it. *rest: others.
Returns: (rows,) float32.
Raises:
    ConfigError: bad
        input.
    OSError: the disk.

Then:
    drawn = as it is
"""


def test_docstrings_become_markdown() -> None:
    pytest.importorskip("griffe")
    as_markdown = loaded("docs_docstrings").as_markdown
    assert [line for line in as_markdown(DOCSTRING).splitlines() if line] == [
        "Do it. See also: nothing.", "```pycon", ">>> f(1)", "2", "```",
        "**Args**", "- `a`, `b`: two rows; True: all of them.",
        "- `c`: (rows,) bool; and more of it.", "- `*rest`: others.",
        "**Returns:** (rows,) float32.", "**Raises**", "- `ConfigError`: bad input.",
        "- `OSError`: the disk.", "Then:", "    drawn = as it is",
    ]  # fmt: skip
    assert (
        as_markdown("Do it. Args: a: one; b: two.")
        == "Do it.\n\n\n**Args**\n\n- `a`: one\n- `b`: two."
    )
    assert as_markdown("A way:\n    a -> b\n\nAfter.") == "A way:\n\n    a -> b\n\nAfter."


# ---- the site itself -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site() -> Path:
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600)
    return ROOT / "build" / "site"


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.slow
def test_the_reference_has_what_users_import(site: Path) -> None:
    text = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    import puffervec
    import puffervec.gym
    import puffervec.train

    packages = (puffervec, puffervec.gym, puffervec.train)
    users = {name: getattr(package, name) for package in packages for name in package.__all__}
    sources = [path.read_text() for path in (ROOT / "examples").glob("*.py")]
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        sources += [
            block.text for block in pages.blocks(path.read_text()) if block.info == "python"
        ]
    for node in (
        node
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
    ):
        if (node.module or "").partition(".")[0] in ("puffervec", "drive_env"):
            users |= {
                name.name: pkgutil.resolve_name(f"{node.module}.{name.name}") for name in node.names
            }
    assert len(users) > 60
    missing = {
        name
        for name, value in users.items()
        if not inspect.ismodule(value) and f'.{name}" class="doc' not in text
    }
    assert missing <= {"BLUE", "ORANGE", "get"}  # Colours, a registry's method.


@pytest.mark.slow
@pytest.mark.needs("Chromium")
def test_pages_fetch_nothing_from_elsewhere_and_fit(address: str, tmp_path: Path) -> None:
    path = browser.find()
    assert path is not None
    opened = browser.Browser(path, tmp_path)
    try:
        for width, dark in ((360, False), (1600, True)):
            page = opened.open(f"{address}/index.html", width, 900, dark, touch=width == 360)
            for name in (
                "index",
                "pages",
                "training",
                "drive",
                "figures",
                "replay",
                "reference/puffervec",
                "reference/settings",
            ):
                page.go(f"{address}/{name}.html")
                assert page.eval("document.scrollingElement.scrollWidth <= innerWidth"), (
                    name,
                    width,
                )
                assert (
                    name == "replay" or page.eval("document.querySelectorAll('h1').length") == 1
                ), name
            assert [
                url for url in page.requests if not url.startswith((address, "data:", "blob:"))
            ] == [] and page.errors == []
    finally:
        opened.close()
