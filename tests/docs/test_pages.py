# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""tests/docs/pages.py: blocks, line numbers and figures of a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages
from tests.helpers import slow_but

PAGE = """\
Two blocks, and a command.

```python
x = 1,234
print(x, "in 2.5 ms")
```

```text
old
```

```bash
false
```

```python
print(x[0] / 0)
```
"""


def test_blocks_and_what_they_print() -> None:
    assert [block.info for block in pages.blocks(PAGE)] == ["python", "text", "bash", "python"]
    (first, shown), (second, none) = pages.examples(PAGE)
    assert first.text.startswith("x = 1,234") and second.text == "print(x[0] / 0)\n"
    assert shown is not None and shown.text == "old\n" and none is None


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](page.md#x) [b](none.md) [c](https://example.org)")
    assert pages.missing_links(page) == ["none.md"]
    here = "tests/docs/test_pages.py"
    text = f"`{here}` `{here}::test_blocks_and_what_they_print` `{here}::test_none` `tests/none.py`"
    assert pages.missing_tests(text) == [f"{here}::test_none", "tests/none.py"]


# ---- all pages -----------------------------------------------------------------------------------

DOCS = pages.ROOT / "docs"


@pytest.mark.parametrize("file", sorted(DOCS.glob("*.md")), ids=lambda file: file.stem)
def test_what_a_page_names_is_there(file: Path) -> None:
    """Links and their sections, tests, sources and examples."""
    page = file.read_text(encoding="utf-8")
    assert pages.missing_links(file) == []
    assert pages.missing_tests(page) == []
    for name in re.findall(r"`(?:python )?((?:csrc|examples|bench)/\w[\w./]*\.\w+)`", page):
        assert "NAME" in name or (pages.ROOT / name).exists(), name
    for other, section in re.findall(r"\]\(([\w-]+\.md)?#([^)]+)\)", page):
        titles = re.findall(
            r"^#+ (.*)$",
            (DOCS / other if other else file).read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        assert section in {
            re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles
        }


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    slow_but(
        ["seeing", "state"], ["debugging-a-hang", "from-gymnasium", "raster", "seeing", "state"]
    ),
)
def test_the_code_of_a_page_prints_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """debugging-a-hang.md, seeing.md, state.md; the other pages have test files of their own."""
    monkeypatch.setenv("PUFFERVEC_CACHE", str(tmp_path / "cache"))
    assert pages.differing((DOCS / f"{page}.md").read_text(encoding="utf-8"), tmp_path) == []


def test_the_index_lists_all_pages_and_examples() -> None:
    index = DOCS / "README.md"
    text = index.read_text(encoding="utf-8")
    unlisted = [
        path.name
        for folder, endings in (("docs", (".md", ".ipynb")), ("examples", (".py",)))
        for path in (pages.ROOT / folder).iterdir()
        if path.suffix in endings and path != index and f"{path.name})" not in text
    ]
    assert unlisted == []
