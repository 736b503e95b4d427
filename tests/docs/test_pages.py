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


def test_a_traceback_leads_to_the_line_of_the_page(tmp_path: Path) -> None:
    line = PAGE.splitlines().index("print(x[0] / 0)") + 1
    with pytest.raises(AssertionError, match=rf"line {line}, in <module>[\s\S]*ZeroDivisionError"):
        pages.printed(PAGE, tmp_path)
    assert pages.printed(PAGE.replace(" / 0", ""), tmp_path) == ["(1, 234) in 2.5 ms\n", "1\n"]


def test_medians_go_into_the_page() -> None:
    runs = [
        [f"{a:,} at {b:4.1f} us, (1, 2)\n", ""] for a, b in ((999, 1.5), (2000, 22.5), (1500, 9.0))
    ]
    changed = pages.with_medians(PAGE, runs)
    assert changed == PAGE.replace("old\n", "1,500 at  9.0 us, (1, 2)\n")


def test_a_page_says_where_its_figures_come_from() -> None:
    table = "<!-- table t -->\nrow\n<!-- end -->"
    page = f"above\n\n<!-- measured -->\n<!-- end -->\n\n{table}\nbelow\n"
    once = pages.with_origin(page, [["1 us\n"], ["2 us\n"], ["3 us\n"]], 0.02)
    head, line, tail = once.partition("*Medians of 3 runs: ")
    assert head == "above\n\n<!-- measured -->\n"
    assert tail.endswith(page[page.index("<!-- end -->") :])
    spread = "half the distance of the quartiles is 25 % in the median of the figures"
    assert f"other programs took 2 %; {spread}" in tail
    assert pages.with_origin(once, [["1 us\n"], ["2 us\n"], ["3 us\n"]], 0.02).count(line) == 1


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](page.md#x) [b](none.md) [c](https://example.org)")
    assert pages.missing_links(page) == ["none.md"]
    here = "tests/docs/test_pages.py"
    text = f"`{here}` `{here}::test_medians_go_into_the_page` `{here}::test_none` `tests/none.py`"
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
