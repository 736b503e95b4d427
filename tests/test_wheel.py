# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The sdist and the wheel, as users get them: in new environments, used from an empty folder,
without a compiler on PATH.

`make package` runs the slow ones too: those that compile a wheel or install the dependencies from
the package index.
"""

from __future__ import annotations

import email
import email.message
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from bench import install
from tests.builds import BUILD_PRODUCTS
from tests.test_readme import BLOCKS as README_BLOCKS

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.normal_build("a wheel holds the normal build")

STEP = """
import os, shutil, sys
assert shutil.which("gcc") is None and shutil.which("cc") is None, os.environ["PATH"]
import puffervec
assert "site-packages" in puffervec.__file__, puffervec.__file__
with puffervec.make("tag_grid", num_envs=8, num_workers=2) as vec:
    observations, infos = vec.reset(seed=0)
    for _ in range(10):
        observations, rewards, terminals, truncations, infos = vec.step([0] * vec.num_agents)
print(observations.shape)
"""


def copy_source(target: Path) -> None:
    """Copy the sources, so that the source folder's own build products and lists of files stay as
    they are, and have no say.
    """
    for path in ROOT.iterdir():
        if path.is_file() and path.suffix != ".so":
            shutil.copy2(path, target / path.name)
    for folder in ("csrc", "puffervec", "drive_env", "docs", "examples"):
        shutil.copytree(ROOT / folder, target / folder, ignore=BUILD_PRODUCTS)
    (target / "tests").mkdir()
    (target / "tests" / "test_wheel.py").touch()


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("sdist")
    copy_source(source)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(out)],
        cwd=source,
        check=True,
        timeout=100,
    )
    (built,) = out.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, as an index's users without a fitting wheel do; with little
    optimization, which takes seconds.
    """
    out = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(out),
        str(sdist),
    ]
    subprocess.run(command, env={**os.environ, "PUFFERVEC_OPT": "-O1"}, check=True, timeout=300)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a new virtual environment with the wheel; what it needs is borrowed from
    the tests' own environment.
    """
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=120
    )
    lib = venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # A folder named in a .pth file comes last, and its own .pth files (an editable puffervec) are
    # not looked at.
    (lib / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(venv / "bin/python"),
        "install",
        "-q",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, timeout=200)
    return venv / "bin"


def _run(command: list[str], bin_folder: Path, folder: Path, timeout_s: int) -> str:
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    environment |= {
        "PATH": str(bin_folder),
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _metadata(wheel: Path) -> email.message.Message:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    return email.message_from_string(archive.read(name).decode())


@pytest.mark.slow  # make package runs it too
def test_the_sdist_holds_what_a_build_needs_and_no_more(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {
        str(path.relative_to(ROOT))
        for ending in ("c", "h", "py")
        for path in (ROOT / "csrc").rglob(f"*.{ending}")
    }
    needed = {
        "setup.py",
        "pyproject.toml",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        *sources,
    }
    assert needed - names == set()
    assert {name.partition("/")[0] for name in names - needed} <= {
        "", "PKG-INFO", "setup.cfg", "csrc", "drive_env", "puffervec", "puffervec.egg-info",
    }  # fmt: skip
    assert not [name for name in names if name.endswith((".so", ".o", ".pyc", "_native.c"))]


@pytest.mark.slow
def test_one_abi3_wheel_with_headers(wheel: Path) -> None:
    assert "-cp311-abi3-linux_" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    for header in (
        "base.h",
        "pv_env.h",
        "pv_ocean.h",
        "rng.h",
        "ocean/vecenv.h",
        "ocean/numpy/arrayobject.h",
    ):
        assert f"puffervec/include/{header}" in names
    assert "puffervec/include/sources.crc32" in names
    assert {"puffervec/_native.abi3.so", "puffervec/py.typed", "drive_env/py.typed"} <= {*names}
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "drive_env/trained").rglob("*.*")}
    assert len(shipped) >= 4 and shipped <= {*names}
    assert {
        str(path.relative_to(ROOT))
        for package in ("puffervec", "drive_env")
        for path in (ROOT / package).rglob("*.py")
    } <= {*names}
    assert not [name for name in names if name.startswith(("tests/", "csrc/", "bench/"))]


@pytest.mark.slow
def test_dependencies_have_lower_bounds_only_and_bring_no_trainer(wheel: Path) -> None:
    requirements = _metadata(wheel).get_all("Requires-Dist", [])
    for line in requirements:
        assert "==" not in line.split(";")[0] and "<" not in line.split(";")[0], line
    base = {re.split(r"[>=]", line)[0] for line in requirements if "extra ==" not in line}
    assert base == {"numpy", "cffi", "gymnasium", "psutil", "cloudpickle"}
    assert any(line.startswith("torch>=") and 'extra == "train"' in line for line in requirements)


@pytest.mark.slow
def test_metadata_says_who_where_and_for_which_python(wheel: Path) -> None:
    metadata = _metadata(wheel)
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith(urls["Homepage"]) for url in urls.values())
    assert metadata["Author"] == "the puffervec authors" and metadata["License-Expression"] == "MIT"
    classifiers = metadata.get_all("Classifier", [])
    assert (
        f"Programming Language :: Python :: {sys.version_info[0]}.{sys.version_info[1]}"
        in classifiers
    )
    assert metadata["Description-Content-Type"] == "text/markdown"


@pytest.mark.slow
def test_the_long_description_links_to_the_repository(wheel: Path) -> None:
    """A package index shows the text without the files beside it. Files that are linked must be
    files of the repository.
    """
    metadata = _metadata(wheel)
    home = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))["Homepage"]
    picture = r"!\[[^\]]*\]\(([^)\s]+)\)"
    text = str(metadata.get_payload())
    pictures, links = (
        re.findall(picture, text),
        re.findall(r"\]\(([^)\s]+)\)", re.sub(picture, "", text)),
    )
    assert pictures and len(links) > 10
    for prefix, targets in ((f"{home}/raw/main/", pictures), (f"{home}/blob/main/", links)):
        for target in targets:
            if target.startswith(home):
                assert (
                    target.startswith(prefix)
                    and (ROOT / target[len(prefix) :].partition("#")[0]).exists()
                ), target
            else:
                assert target.startswith(("https://", "#")), target


@pytest.mark.slow
def test_imports_and_steps(installed: Path, tmp_path: Path) -> None:
    assert _run(["python", "-c", STEP], installed, tmp_path, 60).strip() == "(88, 45)"


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_what_it_needs_is_installed_with_it(
    kind: str, sdist: Path, wheel: Path, tmp_path: Path
) -> None:
    """By a plain `pip install` into an empty environment, with build isolation; and that is the
    vector env without torch.

    The wheel without a compiler on the PATH.
    """
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=120)
    pip = [
        str(venv / "bin/python"),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "-c",
        "constraints.txt",
    ]
    environment = {
        **os.environ,
        "PATH": os.environ["PATH"] if kind == "sdist" else str(venv / "bin"),
    }
    subprocess.run(
        [*pip, str(sdist if kind == "sdist" else wheel)],
        cwd=ROOT,
        env=environment,
        check=True,
        timeout=500,
    )
    assert _run(["python", "-c", STEP], venv / "bin", tmp_path, 60).strip() == "(88, 45)"
    packages = next((venv / "lib").glob("python*/site-packages"))
    assert not (packages / "torch").exists()
    size = sum(install.sizes(packages).values())
    assert 40e6 < size < 1e6 * install.MOST_MB
    ten_lines = README_BLOCKS[0]
    assert "with puffervec.make" in ten_lines
    said = _run(
        ["python", "-c", f"{ten_lines}print('torch' in __import__('sys').modules)"],
        venv / "bin",
        tmp_path,
        60,
    )
    assert said.splitlines()[-1] == "False" and len(said.splitlines()) > 1
    assert "usage: puffer-train" in _run(["puffer-train", "--help"], venv / "bin", tmp_path, 60)
    refused = subprocess.run(
        [venv / "bin/puffer-train", "list"], capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert "pip install 'puffervec[train]'" in refused.stderr


@pytest.mark.slow
def test_it_runs_where_nothing_can_be_written_beside_it(installed: Path, tmp_path: Path) -> None:
    """From another folder, with the whole environment mounted read-only."""
    venv = installed.parent
    mount = f"mount --bind {venv} {venv} && mount -o remount,bind,ro {venv}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("mounting needs privileges (unshare -m) that this process does not have")
    script = tmp_path / "script.py"
    script.write_text(f"import os\nassert not os.access({str(venv)!r}, os.W_OK)\n{STEP}")
    inner = f"PATH=/bin:/usr/bin:/sbin; {mount} && PATH={installed} && exec python {script}"
    said = _run(
        [shutil.which("unshare") or "", "-m", "/bin/sh", "-c", inner], installed, tmp_path, 60
    )
    assert said.strip() == "(88, 45)"


@pytest.mark.slow
def test_a_core_of_other_sources_is_refused(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    (tmp_path / "puffervec/include/sources.crc32").write_text("0x12345678\n")
    done = subprocess.run(
        [sys.executable, "-c", "import puffervec._ffi"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "was built from other sources" in done.stderr and "0x12345678" in done.stderr


@pytest.mark.slow
def test_the_sdist_builds_without_a_network(sdist: Path, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        pytest.skip(
            "taking the network away needs privileges (unshare -n) that this process does not have"
        )
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(tmp_path),
        str(sdist),
    ]
    subprocess.run(
        ["unshare", "-n", *build],
        env={**os.environ, "PUFFERVEC_OPT": "-O0"},
        check=True,
        timeout=300,
    )
    assert len(list(tmp_path.glob("puffervec-*.whl"))) == 1


@pytest.mark.slow
def test_the_index_would_take_them(sdist: Path, wheel: Path) -> None:
    pytest.importorskip("twine")
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_trains_for_some_seconds(installed: Path, tmp_path: Path) -> None:
    _run(
        ["puffer-train", "tag_grid", "--train.time-limit-s", "1", "--log.folder", "out"],
        installed,
        tmp_path,
        120,
    )
    (metrics,) = (tmp_path / "out").rglob("metrics.jsonl")
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert lines[-1]["charts/agent_steps_per_s"] > 0
