# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Hooks of mkdocs for the site of `make docs`: mkdocs.yml names this file.

The pages in the repository are not changed, since they are also read there. The hooks add the pages
outside docs/ (OTHERS), the scripts and the notebook, the help of the commands, and a replay. They
rewrite links to files of the repository that have no page, and generate the navigation from
docs/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sysconfig
import tempfile
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
INDEX = "docs/README.md"
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w+) ([^\n]+)$", re.MULTILINE)
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
# Pages outside docs/, and their paths on the site.
OTHERS = {
    "README.md": "index.md",
    INDEX: "pages.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "bench.md",
}
BACKGROUND = ("ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md", "CHANGELOG.md")
REPLAY = "replay.html"


# ---- hooks ---------------------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation."""
    config.nav = navigation(places())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/."""
    index = files.get_file_from_path("README.md")
    assert index is not None
    files.remove(index)
    pages = {
        place: page_of(file)
        for file, place in places().items()
        if not (ROOT / "docs" / place).exists()
    }
    pages |= {
        "reference/commands.md": commands(),
        "reference/settings.md": settings(),
        REPLAY: replay(),
    }
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page to pages of the site, else to the repository."""
    where = places()
    for file, place in where.items():
        if place == page.file.src_uri:
            return rewrite_links(FENCE.sub(_fence, markdown), file, where)
    return markdown


# ---- pages ---------------------------------------------------------------------------------------


@cache
def places() -> dict[str, str]:
    """Return the pages of the site by file of the repository."""
    docs = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.*")}
    pages = {f"docs/{path.as_posix()}": path.as_posix() for path in sorted(docs)}
    pages["docs/gpu-notebook.ipynb"] = "gpu-notebook.md"
    for path in sorted((ROOT / "examples").glob("*.py")):
        pages[f"examples/{path.name}"] = f"examples/{path.stem}.md"
    return pages | OTHERS


def rewrite_links(text: str, file: str, where: Mapping[str, str]) -> str:
    """Return a page with links to pages of the site, else to the repository.

    Args:
        text: the page.
        file: its path in the repository.
        where: the pages of the site by file.
    """
    code = [match.span() for match in CODE.finditer(text)]
    home = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"]

    def link(match: re.Match[str]) -> str:
        target, mark, part = match[2].partition("#")
        in_code = any(a <= match.start() < b for a, b in code)
        if not target or "://" in target or target.startswith("mailto:") or in_code:
            return match[0]
        name = os.path.normpath(os.path.join(os.path.dirname(file), target))
        if name in where:
            to = os.path.relpath(where[name], os.path.dirname(where[file]) or ".")
        else:
            to = f"{home}/{'tree' if (ROOT / name).is_dir() else 'blob'}/main/{name}"
        return f"{match[1]}{to}{mark}{part}{match[3]}"

    return LINK.sub(link, text)


def page_of(file: str) -> str:
    """Return the Markdown of a file of the repository: a page, a script or a notebook."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith(".py"):
        return f"# {Path(file).name}\n\n```python\n{text}```\n"
    if file.endswith(".ipynb"):
        parts = []
        for cell in json.loads(text)["cells"]:
            source = "".join(cell["source"])
            parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        name = Path(file).name
        return "\n\n".join([parts[0], f"[The notebook as a file]({name})", *parts[1:]]) + "\n"
    return text


def _fence(match: re.Match[str]) -> str:
    """Remove the notes after the language of a fence, which are for tests, except titles."""
    title = re.search(r'title="[^"]*"', match[2])
    return f"```{match[1]}{' ' + title[0] if title else ''}"


@cache
def replay() -> str:
    """Return the replay of a baseline of drive as a page."""
    train = Path(sysconfig.get_path("scripts")) / "puffer-train"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / REPLAY
        command = [train, "render", "drive", "--baseline", "idm", "--draw", "worst:3", "--out", out]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
        return out.read_text(encoding="utf-8")


def commands() -> str:
    """Return the page with the help of the commands."""
    os.environ["COLUMNS"] = "120"  # The width at which argparse wraps lines.
    from drive_env.cli import parser
    from puffervec.commands import cli

    top = parser()
    (parts,) = (action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    helps = {"puffer-train": cli.usage()}
    helps |= {f"puffer-train {name}": verb.usage for name, verb in cli.VERBS.items()}
    helps |= {f"puffer-scenes {name}": part.format_help() for name, part in parts.choices.items()}
    return "# Commands\n\nWhat `--help` prints.\n\n" + "".join(
        map(_show_text, helps, helps.values())
    )


def settings() -> str:
    """Return the page with all settings."""
    from puffervec.commands import settings_help
    from puffervec.train import TrainConfig

    helps = {env: settings_help.full_help(TrainConfig.of(env)) for env in ("drive", "CartPole-v1")}
    about = (
        "What `puffer-train ENV --help-all` prints: all settings with the defaults that the env "
        "gives them."
    )
    return f"# Settings\n\n{about}\n\n" + "".join(map(_show_text, helps, helps.values()))


def _show_text(title: str, text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).strip("\n")
    return f"## {title}\n\n```text\n{plain}\n```\n\n"


# ---- navigation ----------------------------------------------------------------------------------


def navigation(where: Mapping[str, str]) -> list[Any]:
    """Return the navigation of mkdocs.

    It has the sections of docs/README.md, the reference, and the pages outside docs/.
    """
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    home = [{"Overview": "index.md"}, {"All pages": "pages.md"}, {"A replay": REPLAY}]
    sections: list[Any] = [{"Home": home}]
    for part in text.split("\n## ")[1:]:
        title, _, rest = part.partition("\n")
        links = re.findall(r"^\| \[([^\]]+)\]\(([^)#]+)\)", rest, re.MULTILINE)
        pages = [{name: where[os.path.normpath(f"docs/{target}")]} for name, target in links]
        if title == "Reference":
            generated = [file for file in where if file.startswith("docs/reference/")]
            pages += [{_title(file): where[file]} for file in generated]
            pages += [{"Commands": "reference/commands.md"}, {"Settings": "reference/settings.md"}]
        if title == "Background":
            pages += [{_title(file): where[file]} for file in BACKGROUND]
        if title == "Scripts to begin with":
            sections[1]["Tutorials"] += pages
        else:
            sections.append({title: pages})
    return sections


def _title(file: str) -> str:
    match = TITLE.search((ROOT / file).read_text(encoding="utf-8"))
    assert match is not None
    return match[1]
