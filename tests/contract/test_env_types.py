# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Where C tables come from (puffervec/contract/env_types.py, csrc/contract/env_helpers.c,
csrc/contract/pv_env.h): libraries that fit and that do not.
"""

from __future__ import annotations

import importlib.machinery
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from puffervec._ffi import ffi, lib
from puffervec.contract import env_types
from puffervec.contract.native import EnvData, NativeEnv
from puffervec.errors import ConfigError
from tests.builds import ROOT, source_folder
from tests.libraries import compile_library, environment

TABLE = """
#include "pv_env.h"
static int describe(const pv_context* context, pv_spec* spec, char* text) {{
    (void)context, (void)spec;
    return pv_describe_error(text, PV_ERROR_CONFIG, "a helper was called");
}}
PV_ENV_TYPE(tiny) = {{
    .abi = {abi}, .struct_bytes = {size}, .name = "{name}", .describe = describe,
}};
"""


def build(
    folder: Path, abi: str = "PV_ABI", size: str = "sizeof(pv_env_type)", name: str = "tiny"
) -> str:
    """Compile a library with one table; returns its path."""
    source = folder / "tiny.c"
    source.write_text(TABLE.format(abi=abi, size=size, name=name))
    return str(compile_library(source, folder / "tiny.so"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("tiny"))


def test_a_type_of_the_core_is_found_by_name() -> None:
    assert env_types.find("probe") == lib.pv_env_find(b"probe")
    with pytest.raises(ConfigError, match="'chess'"):
        env_types.find("chess")


def test_a_type_of_a_library_is_found_by_path(tiny: str) -> None:
    table = env_types.find("tiny", tiny)
    assert ffi.string(table.name) == b"tiny"
    assert table == env_types.find("tiny", tiny)


def test_the_helpers_are_in_the_library_itself(tiny: str) -> None:
    """Nothing of the core is visible to it."""
    text = ffi.new("char[]", lib.PV_ERROR_TEXT)
    assert env_types.find("tiny", tiny).describe(ffi.NULL, ffi.NULL, text) == lib.PV_ERROR_CONFIG
    assert ffi.string(text) == b"a helper was called"


@dataclass(frozen=True)
class Config:
    """No settings."""


def describing(folder: Path, code: str) -> NativeEnv:
    """Return an env type whose `describe` is this C code."""
    source = folder / "tiny.c"
    table = TABLE.format(abi="PV_ABI", size="sizeof(pv_env_type)", name="tiny")
    own = f"static int own(const pv_context* context, pv_spec* spec, char* text) {{{code}}}\n"
    source.write_text(
        table.replace(".describe = describe", ".describe = own").replace(
            "PV_ENV_TYPE", own + "PV_ENV_TYPE"
        )
    )
    path = compile_library(source, folder / "tiny.so")
    return NativeEnv(
        name="tiny", config=Config, build=lambda config: EnvData(), shared_library=str(path)
    )


def test_fields_beyond_the_limit_are_refused_by_name(tmp_path: Path) -> None:
    """And not written over what lies behind."""
    env = describing(
        tmp_path,
        """
    (void)context, (void)text, (void)describe;
    spec->group_count = 1;
    for (int i = 0; i < PV_MAX_FIELDS + 3; i++)
        pv_add_field(spec->state_fields, &spec->state_count, &spec->state_bytes, "a", "", PV_F32, 0,
                     0, 0.0f, 1.0f, 1.0f);
    return PV_OK;
""",
    )
    with pytest.raises(
        ConfigError,
        match=rf"^tiny: the state has {lib.PV_MAX_FIELDS + 3} fields: at most {lib.PV_MAX_FIELDS}",
    ):
        env.describe(b"", b"", None, "next_step")


@pytest.mark.parametrize("choices", [6, 7])
def test_axes_of_choices_must_fit_the_choices(tmp_path: Path, choices: int) -> None:
    env = describing(
        tmp_path,
        f"""
    (void)context, (void)text, (void)describe;
    spec->group_count = 1;
    pv_group_spec* group = &spec->groups[0];
    strcpy(group->name, "cars");
    group->action_dims = 1;
    group->action_sizes[0] = {choices};
    group->axis_count = 2;
    group->axis_sizes[0] = 2;
    group->axis_sizes[1] = 3;
    for (int i = 0; i < 5; i++)
        group->axis_values[i] = (float)i;
    return PV_OK;
""",
    )
    if choices == 6:
        _, spec = env.describe(b"", b"", None, "next_step")
        assert spec.groups[0].action_axes == ((0.0, 1.0), (2.0, 3.0, 4.0))
        return
    with pytest.raises(
        ConfigError, match=r"^tiny: axis_sizes of 'cars' are \[2, 3\] for action_sizes \[7\]: give"
    ):
        env.describe(b"", b"", None, "next_step")


def test_several_c_files_share_the_helpers(tmp_path: Path) -> None:
    other = tmp_path / "other.c"
    other.write_text(
        '#include "pv_env.h"\nuint32_t other(void);\nuint32_t other(void) { return '
        "pv_dtype_bytes(PV_F64); }\n"
    )
    source = tmp_path / "tiny.c"
    source.write_text(TABLE.format(abi="PV_ABI", size="sizeof(pv_env_type)", name="tiny"))
    path = compile_library(source, tmp_path / "tiny.so", str(other))
    assert ffi.string(env_types.find("tiny", str(path)).name) == b"tiny"


def test_a_type_of_a_library_is_found_by_module_name(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library is no Python module; only its file's name looks like one."""
    package = tmp_path / "tiny_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    file = package / f"_core{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    shutil.copy2(tiny, file)
    monkeypatch.syspath_prepend(tmp_path)
    assert env_types.locate("tiny_package._core") == str(file)
    assert ffi.string(env_types.find("tiny", "tiny_package._core").name) == b"tiny"
    assert "tiny_package._core" not in sys.modules
    with pytest.raises(ConfigError, match=f"'tiny_package._other' was found in {package}: install"):
        env_types.locate("tiny_package._other")


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("/nowhere/tiny.so", ["/nowhere/tiny.so", "not a file"]),
        ("no_such_package._core", ["no_such_package", "installed?"]),
        ("no_such_module", ["no_such_module", "pip install"]),
        ("", ["''"]),
        ("sys", ["'sys'"]),
    ],
)
def test_a_library_that_is_not_there_is_refused(library: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        env_types.locate(library)
    for word in words:
        assert word in str(caught.value)


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.so"
    file.write_text("no library")
    with pytest.raises(ConfigError, match=r"text\.so cannot be loaded.*rebuild"):
        env_types.find("tiny", str(file))


def test_a_library_without_the_table_is_refused(tiny: str) -> None:
    with pytest.raises(ConfigError, match=r"exports no pv_env_type_other.*PV_ENV_TYPE\(other\)"):
        env_types.find("other", tiny)


def test_another_abi_is_refused_with_both_numbers(tmp_path: Path) -> None:
    library = build(tmp_path, abi="999")
    with pytest.raises(ConfigError, match=rf"ABI 999 .* has ABI {lib.PV_ABI} .* rebuild"):
        env_types.find("tiny", library)


def test_another_struct_size_is_refused_with_both_numbers(tmp_path: Path) -> None:
    """Nothing behind the first two numbers is read: here the struct ends there."""
    source = tmp_path / "old.c"
    source.write_text(
        "#include <stdint.h>\n"
        'extern __attribute__((visibility("default"))) const uint32_t pv_env_type_tiny[2];\n'
        f"const uint32_t pv_env_type_tiny[2] = {{{lib.PV_ABI}, 24}};\n"
    )
    library = compile_library(source, tmp_path / "old.so")
    with pytest.raises(ConfigError, match=rf"\(24 bytes\).*\({ffi.sizeof('pv_env_type')} bytes\)"):
        env_types.find("tiny", str(library))


def test_a_table_of_another_name_is_refused(tmp_path: Path) -> None:
    library = build(tmp_path, name="tidy")
    with pytest.raises(ConfigError, match="pv_env_type_tiny .* is called 'tidy'"):
        env_types.find("tiny", library)


def test_finding_needs_no_numpy(tiny: str) -> None:
    """Workers look up the table again, and import next to nothing."""
    script = (
        "import sys\nfrom puffervec.contract.env_types import find\n"
        "find('probe'), find('tiny', sys.argv[1])\n"
        "heavy = {'numpy', 'torch', 'gymnasium', 'puffervec.contract.native'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tiny],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_headers_of_an_editable_install_and_of_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path(env_types.get_include()).samefile(ROOT / "csrc/contract")
    package = tmp_path / "puffervec"
    package.mkdir()
    monkeypatch.setattr(env_types, "__file__", str(package / "contract" / "env_types.py"))
    with pytest.raises(ConfigError, match="no C headers"):
        env_types.get_include()
    (package / "include").mkdir()
    (package / "include" / "pv_env.h").write_text("")
    assert env_types.get_include() == str(package / "include")


def test_the_public_headers_need_no_other_header(tiny: str, tmp_path: Path) -> None:
    """As in a wheel: only the headers of csrc/contract are there."""
    include = tmp_path / "include"
    include.mkdir()
    for header in (ROOT / "csrc/contract").glob("*.h"):
        shutil.copy2(header, include)
    compile_library(Path(tiny).parent / "tiny.c", tmp_path / "tiny.so", include=str(include))


def test_types_elsewhere_are_compiled_like_the_core() -> None:
    """Flags on which results depend are the same in csrc/build_ffi.py."""
    core = (ROOT / "csrc" / "build_ffi.py").read_text()
    for flag in env_types.compile_args():
        assert flag in core or flag in ("-std=gnu11", "-Werror=implicit-function-declaration"), flag


def test_a_function_that_was_never_declared_does_not_compile(tmp_path: Path) -> None:
    """In C it would compile with a warning, and the library could not be loaded."""
    source_folder()
    source = tmp_path / "typo.c"
    source.write_text(
        '#include "pv_env.h"\nfloat draw(void) { return pv_rng_float(0, 0, 0, 0); }\n'
    )
    command = [
        os.environ.get("CC", "cc"),
        "-c",
        *env_types.compile_args(),
        f"-I{env_types.get_include()}",
        str(source),
    ]
    done = subprocess.run([*command, "-o", "/dev/null"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "pv_rng_float" in done.stderr


def test_a_debug_build_has_assertions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "-O3" in env_types.compile_args() and "-DPV_DEBUG" not in env_types.compile_args()
    monkeypatch.setenv("PUFFERVEC_DEBUG", "1")
    assert "-O3" not in env_types.compile_args() and {"-DPV_DEBUG", "-g"} <= set(
        env_types.compile_args()
    )


def test_languages() -> None:
    assert "-std=gnu++20" in env_types.compile_args(
        "c++"
    ) and "-ffp-contract=off" in env_types.compile_args("c++")
    with pytest.raises(ConfigError, match="'rust': use 'c' or 'c\\+\\+'"):
        env_types.compile_args("rust")
