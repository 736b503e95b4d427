# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/extras.py: without the trainer's packages the vector env works, and all else names its pip install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from puffervec import extras
from puffervec.errors import MissingExtraError

ROOT = Path(__file__).resolve().parents[1]
# A Python in which no optional package can be imported, as after a plain `pip install puffervec`.
BARE = f"""
import importlib, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted([*extras.EXTRA_OF, "pynvml", "onnxruntime"])}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""
ENVS = """
import numpy as np, puffervec, puffervec.gym, puffervec.compat.pufferlib, puffervec.train
from puffervec.train import TrainConfig

for env in ("tag_grid", "CartPole-v1"):
    with puffervec.make(env, num_envs=2, num_workers=1) as vec:
        vec.reset(seed=0)
        vec.step([0] * vec.num_agents)
        print(env, vec.num_agents)
envs = puffervec.make_vec("puffervec/CartPole-v1", num_envs=2)
envs.reset(seed=0)
envs.close()
print(TrainConfig.of("tag_grid").target, "torch" in sys.modules)
"""
LOOKS = """
from puffervec.train.cli import main

def attempt(what, call):
    try:
        code = call()
    except ImportError as error:
        print(f"{what}: {type(error).__name__}: {error}")
    else:
        print(f"{what}: {code}")

def name_of(module, name):
    return lambda: getattr(importlib.import_module(module), name) and 0

sys.stderr = sys.stdout
attempt("TorchView", name_of("puffervec", "TorchView"))
attempt("Trainer", name_of("puffervec.train", "Trainer"))
attempt("models", name_of("puffervec.compat.pufferlib", "models"))
attempt("pytorch", name_of("puffervec.compat.pufferlib", "pytorch"))
attempt("sb3", name_of("puffervec.sb3", "make_vec_env"))
attempt("pettingzoo", name_of("puffervec.pettingzoo", "parallel_env"))
for line in ("list", "drive", "CartPole-v1", "train drive", "eval latest", "eval drive --baseline stop", "export latest",
             "sweep drive", "bench drive", "drive --resume latest"):
    attempt(line, lambda: main(line.split()))
attempt("plot", lambda: main(["plot", ".", "--out", "a.png"]))
"""


def bare(script: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", BARE + script], cwd=folder, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_the_vector_env_needs_no_extra(tmp_path: Path) -> None:
    assert bare(ENVS, tmp_path).splitlines() == ["tag_grid 22", "CartPole-v1 2", "tag_grid False"]


def test_every_entry_point_names_the_install_in_one_line(tmp_path: Path) -> None:
    said = bare(LOOKS, tmp_path).splitlines()
    trainer = "torch, rich, tyro, safetensors: pip install 'puffervec[train]'"
    refused = "MissingExtraError: "
    assert said[:6] == [
        f"TorchView: {refused}puffervec.TorchView needs torch: pip install 'puffervec[train]'",
        f"Trainer: {refused}puffervec.train.Trainer needs {trainer}",
        f"models: {refused}pufferlib.models needs torch: pip install 'puffervec[train]'",
        f"pytorch: {refused}pufferlib.pytorch needs torch: pip install 'puffervec[train]'",
        f"sb3: {refused}puffervec.sb3 needs stable_baselines3: pip install 'puffervec[sb3]'",
        f"pettingzoo: {refused}puffervec.pettingzoo needs pettingzoo: pip install 'puffervec[pettingzoo]'",
    ]
    assert set(said[6:-2:2]) == {f"puffer-train: the trainer needs {trainer}"}
    assert all(line.endswith(": 2") for line in said[7::2])
    assert said[-2].endswith("pip install 'puffervec[plot]'")
    assert not list(tmp_path.iterdir())


def test_help_needs_no_extra(tmp_path: Path) -> None:
    said = bare("from puffervec.train.cli import main\nmain(['--help']), main(['drive', '--help'])", tmp_path)
    assert "usage: puffer-train" in said and "total-timesteps" in said


def test_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder called wandb, as Weights & Biases itself leaves one, is not the package."""
    (tmp_path / "only_a_folder").mkdir()
    (tmp_path / "a_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    names = ("only_a_folder", "a_module", "not_there", "not.there")
    assert [extras.installed(name) for name in names] == [False, True, False, False]


def test_only_optional_packages_are_translated() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as raised, extras.required("this"):
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401
    assert not isinstance(raised.value, MissingExtraError)


def test_extras_of_the_metadata_are_those_that_the_code_uses() -> None:
    """`gpu` is torch's: torch.cuda.utilization imports pynvml (puffervec/train/metrics/usage.py)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    assert set(declared) == {*extras.EXTRA_OF.values(), "gpu"}
    for module, extra in extras.EXTRA_OF.items():
        names = [re.split(r"[>=\[]", requirement)[0].replace("-", "_") for requirement in declared[extra]]
        assert {"PIL": "pillow", "yaml": "PyYAML"}.get(module, module) in names, f"puffervec[{extra}] does not bring {module}"
    base = {re.split(r"[>=]", requirement)[0] for requirement in project["dependencies"]}
    assert base == {"numpy", "cffi", "gymnasium", "psutil", "cloudpickle"}
