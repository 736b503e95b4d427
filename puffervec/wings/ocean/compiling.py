# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Compile an env of PufferLib to a shared library, once per content of its files.

The library is kept in the cache folder under a hash of all that its bytes depend on: the env's own
files, the headers of csrc/contract, the compiler and its flags. The env's text is compiled as part
of a generated file, with #line directives, so that errors and crashes show the author's lines.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from puffervec.contract.env_types import compile_args, get_include
from puffervec.errors import ConfigError
from puffervec.system.cache import LIBRARIES, cache_folder, key_of, write_atomically
from puffervec.wings.ocean.source import LEVELS, Source, includes, read

FLAGS_VARIABLE = "PUFFERVEC_OCEAN_FLAGS"  # Flags to add, such as those of a library.
RAYLIB_VARIABLE = "PUFFERVEC_OCEAN_RAYLIB"  # The folder of a raylib with which envs draw.
SECONDS = 300  # Time limit of a compilation.
# Headers of PufferLib and raylib that puffervec's own replace, wherever an env expects them.
STAND_INS = (
    "env_binding", "vecenv", "pufferenv", "ini", "tensor", "bf16", "raylib", "raymath", "rlgl",
    "rlights", "puffer_os",
)  # fmt: skip
_INCLUDE = re.compile(
    rf'^([ \t]*#[ \t]*include[ \t]*)["<](?:[^">\n]*/)?({"|".join(STAND_INS)})\.h[">]', re.MULTILINE
)
# A declaration of the member rng, alone or with others, but not a parameter, pointer or array.
_RNG = re.compile(r"\b(?:unsigned|long|size_t|u?int\w*)\b[^;{}()*=]*\brng\b[^;{}()*=\[]*;")
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)
_ERROR = re.compile(r"^([^:\n]+:\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)
_UNDEFINED = re.compile(
    r"(?:^(?:\S*ld(?:\.\w+)?: )?([^\s:]+:\d+))?[^\n]*"
    r"undefined (?:reference to|symbol:?) [`']?(\w+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Tools:
    """The tools with which envs are compiled.

    Attributes:
        compiler: the command of the C compiler.
        flags: additional flags, such as those of a library that envs need.
        raylib: the folder of the raylib with which envs draw, or None: they draw nothing.
    """

    compiler: tuple[str, ...]
    flags: tuple[str, ...]
    raylib: Path | None

    @classmethod
    def from_environment(cls) -> Tools:
        """Return the tools that the environment variables name now.

        Raises:
            ConfigError: the folder that the user names has no raylib.
        """
        compiler = shlex.split(os.environ.get("CC") or "cc")
        flags = shlex.split(os.environ.get(FLAGS_VARIABLE, ""))
        return cls(tuple(compiler), tuple(flags), _raylib_folder())

    def raylib_headers(self) -> dict[str, Path]:
        """Return the headers of raylib by the macro that names them; empty without a raylib."""
        if self.raylib is None:
            return {}
        names = ("raylib", "raymath", "rlgl")
        headers = {f"OCEAN_{name.upper()}": self.raylib / "include" / f"{name}.h" for name in names}
        return {name: path for name, path in headers.items() if path.is_file()}

    def libraries(self) -> list[str]:
        """Return the flags that follow the input, such as those of libraries."""
        folder = f"{self.raylib}/lib"
        raylib = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lraylib", "-ldl"] if self.raylib else []
        return [*self.flags, *raylib]


def library_of(source: Source, tools: Tools) -> Path:
    """Return the compiled library of an env, from the cache or new.

    Raises:
        ConfigError: there is no compiler, or the env does not compile; the message names the file
            and line of the first error.
        SceneError: the cache folder cannot be written.
    """
    glue, command, libraries = _glue(source, tools), _command(source, tools), tools.libraries()
    files = [*source.files, *tools.raylib_headers().values()]
    content = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    key = key_of(glue, content, _headers(), command, libraries, _compiler_version(command[0]))
    path = cache_folder() / LIBRARIES / f"{source.name}-{key}.so"
    if not path.is_file():
        write_atomically(path, [_compile(source, glue, command, libraries)], durable=False)
    return path


def _raylib_folder() -> Path | None:
    """Return the folder of the raylib with which envs draw, or None: they draw nothing.

    Raises:
        ConfigError: the folder that the user names has no raylib.
    """
    text = os.environ.get(RAYLIB_VARIABLE, "")
    if not text:
        return None
    folder = Path(text).expanduser().resolve()
    if not (folder / "include" / "raylib.h").is_file():
        raise ConfigError(
            f"{RAYLIB_VARIABLE} is {text}: it must be a folder with include/raylib.h and "
            "lib/libraylib.so, such as /usr/local"
        )
    return folder


def _glue(source: Source, tools: Tools) -> str:
    """Return the C file that turns the env into an env type."""
    code = source.code
    defines = {
        "OCEAN_NAME": source.name,
        "OCEAN_GENERATION": str(source.generation),
        "OCEAN_FOLDER": _quoted(source.folder),
        "PUFFER_CPU_ENV": "",  # Selects the CPU step of envs that also have a CUDA step.
        "main": "ocean_main",
        **{name: _quoted(path) for name, path in tools.raylib_headers().items()},
    }
    if _RNG.search(code):
        defines["OCEAN_HAS_RNG"] = ""
    if re.search(r"\brandom\(\s*\)", code):
        defines["OCEAN_RANDOM"] = ""
    if source.generation == 5:
        # The first headers of 5.0 define obs_t below the include, and cast observations to it.
        include = r"#\s*include\s*[<\"][^>\"]*pufferenv\.h"
        below = re.split(include, source.expanded, maxsplit=1)[-1]
        if not re.search(r"\bobs_t\s*;|#\s*define\s+obs_t\b", below):
            defines["OCEAN_OBS_T"] = "obs_t"
        # An env that only sets the pointer action_mask to NULL has no masks.
        if re.search(r"\baction_mask\b(?!\s*=\s*NULL)", code):
            defines["OCEAN_MASKS"] = ""
    if _comes_again(source):
        body = [f"#include {_quoted(source.main)}"]
    else:
        text = _INCLUDE.sub(r"\1<\2.h>", read(source.main))
        if source.generation == 4:
            text = text.replace("<env_binding.h>", "<vecenv.h>")
        body = [f"#line 1 {_quoted(source.main)}", text]
    return "\n".join(
        [
            *(f"#define {name} {value}".rstrip() for name, value in defines.items()),
            "#include <assert.h>",
            *body,
            '#line 1 "glue.c"',
            "#include <pv_ocean_generated.h>",
            "",
        ]
    )


def _comes_again(source: Source) -> bool:
    """Return whether the compiled file is a header with #pragma once that its headers include.

    The compiler recognizes by the file, not by its text, that it was included before.
    """
    others = (read(path) for path in source.files if path != source.main)
    return bool(_ONCE.search(read(source.main))) and any(
        Path(found).name == source.main.name for code in others for found in includes(code)
    )


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _command(source: Source, tools: Tools) -> list[str]:
    """Return the compiler's command, without input, output and libraries."""
    include = get_include()
    above = source.folder.parents[:LEVELS]
    return [
        *tools.compiler,
        "-shared",
        "-fPIC",
        *compile_args(),
        "-g",
        # The compiler flags of 3.0 and 4.0 allow these.
        "-Wno-error=incompatible-pointer-types",
        "-Wno-error=int-conversion",
        f"-I{include}/ocean",
        f"-I{include}",
        "-iquote",  # Searched before ours, where names may be equal; gcc drops repeated folders.
        str(source.folder),
        *(part for folder in above for part in ("-idirafter", str(folder))),
        "-Wl,--no-undefined",
    ]


@functools.cache
def _headers() -> str:
    """Return a hash of the headers that envs are compiled on."""
    folder = Path(get_include())
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.h")):
        found.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


@functools.cache
def _compiler_version(compiler: str) -> str:
    """Return the first line of the compiler's version.

    Raises:
        ConfigError: the compiler cannot be started.
    """
    if shutil.which(compiler) is None:
        raise ConfigError(
            f"there is no C compiler {compiler!r}, which envs of PufferLib are compiled with: "
            "install gcc or clang, or set CC"
        )
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]


def _compile(source: Source, glue: str, command: list[str], libraries: list[str]) -> bytes:
    """Return the bytes of the library."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "glue.c").write_text(glue, encoding="utf-8")
        library = folder / "library.so"
        files = [str(folder / "glue.c"), "-o", str(library)]
        whole = [*command, *files, *libraries, "-lm", "-pthread"]
        try:
            done = subprocess.run(
                whole,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                env={**os.environ, "LC_ALL": "C"},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ConfigError(
                f"{source.main}: the compiler takes longer than {SECONDS} s"
            ) from None
        if done.returncode:
            raise ConfigError(_first_error(source, done.stderr))
        return library.read_bytes()


def _first_error(source: Source, text: str) -> str:
    """Return one line for the first error in the output of the compiler and linker."""
    if match := _ERROR.search(text):
        return f"{match[1]}: {match[2]}"
    if match := _UNDEFINED.search(text):
        return (
            f"{match[1] or source.main}: {match[2]} is called but defined nowhere: add the file or "
            f"library that defines it to {FLAGS_VARIABLE}"
        )
    return f"{source.main}: {' '.join(text.split())[-300:] or 'the compiler failed'}"
