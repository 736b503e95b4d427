# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The files of an env of PufferLib: recognized by what they include, not by their names.

| generation | the file that is compiled | what it includes |
|---|---|---|
| 3 | a binding | `env_binding.h` |
| 4 | a binding | `vecenv.h` |
| 5 | the env's header | `pufferenv.h`, directly or through another header |
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from puffervec.errors import ConfigError
from puffervec.wings.ocean import ini

GENERATIONS = {"env_binding": 3, "vecenv": 4, "pufferenv": 5}
LEVELS = 5  # How many folders above the env are searched for its includes and settings.
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_COMMENT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL
)
_DICT = re.compile(r"\bmy_init\s*\([^)]*\bDict\s*\*")
_SOURCES = (".h", ".c")


@dataclass(frozen=True)
class Source:
    """The files of one env.

    Attributes:
        name: name of the env, an identifier.
        generation: 3, 4 or 5.
        main: the file that is compiled.
        files: `main` and the author's files that it includes, also indirectly.
        settings: the sections of its .ini file, whose keys replace those of default.ini; empty if
            there is no file.
        ini: the .ini file, or None.
        python_class: the module with its Python class (3.0), or None.
    """

    name: str
    generation: int
    main: Path
    files: tuple[Path, ...]
    settings: ini.Sections
    ini: Path | None
    python_class: Path | None

    @property
    def folder(self) -> Path:
        """The folder of the compiled file."""
        return self.main.parent

    @functools.cached_property
    def code(self) -> str:
        """The text of all files, without comments."""
        return "\n".join(without_comments(read(path)) for path in self.files)

    @functools.cached_property
    def expanded(self) -> str:
        """Return the text of `main` with the author's includes expanded, without comments."""
        return _expand(self.main, self.main, {self.main})


def read(path: Path) -> str:
    """Return the text of a source file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def without_comments(code: str) -> str:
    """Return C code without comments; the number of lines stays the same."""
    return _COMMENT.sub(lambda match: match[1] or "\n" * match[0].count("\n") or " ", code)


def includes(code: str) -> list[str]:
    """Return the paths that C code includes."""
    return _INCLUDE.findall(without_comments(code))


def generation_of(code: str) -> int | None:
    """Return the generation whose header C code includes, or None."""
    for path in includes(code):
        if (generation := GENERATIONS.get(Path(path).stem)) and path.endswith(".h"):
            # The first bindings of 4.0 include their header by its name in 3.0.
            return 4 if generation == 3 and _DICT.search(without_comments(code)) else generation
    return None


def _generation_at(path: Path) -> int | None:
    """Return the generation of a file, or None.

    A header of 5.0 may include pufferenv.h only through another header of its author.
    """
    found = generation_of(read(path))
    if found is None and path.suffix == ".h":
        deeper = (generation_of(read(included)) for included in _own_files(path))
        return 5 if 5 in deeper else None
    return found


def locate(path: str | Path) -> Source:
    """Return the source of the env at `path`, a folder, a binding or a header.

    Raises:
        ConfigError: nothing is at the path, or no env of PufferLib.
    """
    given = Path(path).expanduser().resolve()
    if not given.exists():
        raise ConfigError(f"ocean:{path}: there is no such file or folder")
    main = _main_file(given)
    if main is None:
        raise ConfigError(
            f"ocean:{path} is no env of PufferLib: nothing there includes env_binding.h (3.0), "
            "vecenv.h (4.0) or pufferenv.h (5.0); give the folder with its binding.c, or its "
            "header"
        )
    generation = _generation_at(main)
    assert generation is not None
    name = main.stem if generation == 5 else main.parent.name
    files = tuple(_own_files(main))
    found = _ini_file(main.parent, name)
    return Source(
        name=re.sub(r"\W|^(?=\d)", "_", name),
        generation=generation,
        main=main,
        files=files,
        settings=_sections(found),
        ini=found,
        python_class=_python_class(main.parent) if generation == 3 else None,
    )


def _main_file(given: Path) -> Path | None:
    """Return the file to compile, or None."""
    if given.is_file() and generation_of(read(given)) is not None:
        return given
    folder = given if given.is_dir() else given.parent
    found = {
        path: generation
        for path in sorted(folder.iterdir())
        if path.suffix in _SOURCES and path.is_file()
        if (generation := _generation_at(path)) is not None
        # For 5.0 only headers count: a .c file there is a demo.
        if generation != 5 or path.suffix == ".h"
    }
    if given.is_file():  # A header: its binding includes it.
        found = {path: g for path, g in found.items() if given in _own_files(path)}

    parts = {part for path in found for part in _own_files(path) if part != path}

    def rank(path: Path) -> tuple[bool, bool, bool, bool]:
        named = path.stem == folder.name
        return found[path] != 5, not named, path.name != "binding.c", path in parts

    return min(found, key=rank, default=None)


def _own_files(main: Path) -> Iterator[Path]:
    """Yield `main` and the files near it that it includes, each once."""
    seen, waiting = {main}, [main]
    while waiting:
        path = waiting.pop()
        yield path
        for name in includes(read(path)):
            included = _own_file(name, path, main)
            if included is not None and included not in seen:
                seen.add(included)
                waiting.append(included)


def _own_file(name: str, path: Path, main: Path) -> Path | None:
    """Return the author's file that `path` includes as `name`, or None."""
    if Path(name).stem in GENERATIONS:
        return None
    folders = (path.parent, main.parent, *main.parent.parents[:LEVELS])
    near = ((folder / name).resolve() for folder in folders)
    return next((file for file in near if file.is_file() and not file.is_relative_to("/usr")), None)


def _expand(path: Path, main: Path, seen: set[Path]) -> str:
    """Return the text of a file with the author's files that it includes, each once."""

    def place(match: re.Match[str]) -> str:
        included = _own_file(match[1], path, main)
        if included is None or included in seen:
            return match[0]
        seen.add(included)
        return _expand(included, main, seen)

    return _INCLUDE.sub(place, without_comments(read(path)))


def _ini_file(folder: Path, name: str) -> Path | None:
    """Return the .ini file of an env: next to it, or in a config folder above it."""
    own = sorted(folder.glob("*.ini"))
    near = [folder / f"{name}.ini", *(own if len(own) == 1 else ())]
    above = [
        parent / config / f"{name}.ini"
        for parent in (folder, *folder.parents[:LEVELS])
        for config in ("config", "config/ocean")
    ]
    return next((path for path in (*near, *above) if path.is_file()), None)


def _sections(found: Path | None) -> ini.Sections:
    """Return the sections of an .ini file; missing keys come from the default.ini it belongs to."""
    if found is None:
        return {}
    default = (found.parent / "default.ini", found.parent.parent / "default.ini")
    base = next((ini.read(path) for path in default if path.is_file() and path != found), {})
    return ini.over(base, ini.read(found))


def _python_class(folder: Path) -> Path | None:
    """Return the module of the folder that uses its binding, or None."""
    found = [path for path in sorted(folder.glob("*.py")) if re.search(r"\bbinding\.", read(path))]
    return min(found, key=lambda path: path.stem != folder.name, default=None)
