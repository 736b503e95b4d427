# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/system/extras.py: without the trainer's packages the vector env works, and all else
names its pip install.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from puffervec.errors import MissingExtraError
from puffervec.system import extras

ROOT = Path(__file__).resolve().parents[2]
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
ATTEMPT = """
from puffervec.commands.cli import main

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
"""
LOOKS = (
    ATTEMPT
    + """
attempt("TorchView", name_of("puffervec", "TorchView"))
attempt("Trainer", name_of("puffervec.train", "Trainer"))
attempt("models", name_of("puffervec.compat.pufferlib", "models"))
attempt("pytorch", name_of("puffervec.compat.pufferlib", "pytorch"))
attempt("pytorch itself", name_of("puffervec.compat.pufferlib.pytorch", "sample_logits"))
attempt("sharded", name_of("puffervec.wings.sharded", "shard_cnn"))
attempt("plan", name_of("puffervec.wings.plan", "compile_policy"))
attempt("latency", name_of("puffervec.profile", "latency"))
attempt("sb3", name_of("puffervec.sb3", "make_vec_env"))
attempt("pettingzoo", name_of("puffervec.pettingzoo", "parallel_env"))
for line in ("list", "drive", "CartPole-v1", "train drive", "eval latest",
             "eval drive --baseline stop", "export latest", "sweep drive", "bench drive",
             "drive --resume latest", "render latest", "report latest", "play latest",
             "profile drive", "plan drive", "drive --warpdrive a.yaml"):
    attempt(line, lambda: main(line.split()))
"""
)
# What needs neither a run nor the trainer, or says what is missing before it looks for a run.
SINGLE = {
    "plot .": "plot needs matplotlib: pip install 'puffervec[plot]'",
    "watch watched": "a page in the browser needs aiohttp: pip install 'puffervec[watch]'",
    "sweep tag_grid": "sweep needs optuna: pip install 'puffervec[sweep]'",
    "tag_grid --log.tensorboard": "--log.tensorboard needs tensorboard: "
    "pip install 'puffervec[tensorboard]'",
    "tag_grid --log.wandb offline": "--log.wandb offline needs wandb: "
    "pip install 'puffervec[wandb]'",
}
SCENES = {
    "draw made --out pictures": "drawing needs PIL: pip install 'puffervec[video]'",
    "download gpudrive-mini --out set": "puffer-scenes download needs huggingface_hub: "
    "pip install 'puffervec[scenes]'",
}


def bare(script: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BARE + script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_the_vector_env_needs_no_extra(tmp_path: Path) -> None:
    assert bare(ENVS, tmp_path).splitlines() == ["tag_grid 22", "CartPole-v1 2", "tag_grid False"]


def test_every_entry_point_names_the_install_in_one_line(tmp_path: Path) -> None:
    said = bare(LOOKS, tmp_path).splitlines()
    trainer = "torch, rich, safetensors: pip install 'puffervec[train]'"
    refused = "MissingExtraError: "
    assert said[:10] == [
        f"TorchView: {refused}puffervec.TorchView needs torch: pip install 'puffervec[train]'",
        f"Trainer: {refused}puffervec.train.Trainer needs {trainer}",
        f"models: {refused}pufferlib.models needs torch: pip install 'puffervec[train]'",
        f"pytorch: {refused}pufferlib.pytorch needs torch: pip install 'puffervec[train]'",
        f"pytorch itself: {refused}pufferlib.pytorch needs torch: pip install 'puffervec[train]'",
        f"sharded: {refused}puffervec.wings.sharded.shard_cnn needs {trainer}",
        f"plan: {refused}puffervec.wings.plan.compile_policy needs {trainer}",
        f"latency: {refused}puffervec.profile.latency needs {trainer}",
        f"sb3: {refused}puffervec.sb3 needs stable_baselines3: pip install 'puffervec[sb3]'",
        f"pettingzoo: {refused}puffervec.pettingzoo needs pettingzoo: pip install "
        "'puffervec[pettingzoo]'",
    ]
    assert set(said[10::2]) == {f"puffer-train: the trainer needs {trainer}"}
    assert len(said[11::2]) == 16 and all(line.endswith(": 2") for line in said[11::2])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_each_other_extra_is_named_where_the_trainer_is_there(tmp_path: Path) -> None:
    """Modules that cannot be imported because sys.modules says so: torch asks for some of them
    itself.
    """
    (tmp_path / "watched").mkdir()
    (tmp_path / "watched" / "metrics.jsonl").write_text("{}\n")
    others = sorted({module for module, extra in extras.EXTRA_OF.items() if extra != "train"})
    script = f"import importlib, sys\nsys.modules |= dict.fromkeys({others})\n{ATTEMPT}"
    script += "".join(f"main({line.split()})\n" for line in SINGLE)
    script += "from drive_env.cli import main\nmain('generate --out made --count 1'.split())\n"
    script += "".join(f"main({line.split()})\n" for line in SCENES)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    expected = [*(f"puffer-train: {line}" for line in SINGLE.values()), "1 scenes written to made"]
    assert done.stdout.splitlines() == expected + [
        f"puffer-scenes: {line}" for line in SCENES.values()
    ], done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "watched"]


@pytest.mark.slow
def test_help_needs_no_extra(tmp_path: Path) -> None:
    said = bare(
        "from puffervec.commands.cli import main\nmain(['--help']), main(['drive', '--help'])",
        tmp_path,
    )
    assert "usage: puffer-train" in said and "total-timesteps" in said


def test_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder called wandb, as Weights & Biases itself leaves one, is not the package."""
    (tmp_path / "only_a_folder").mkdir()
    (tmp_path / "a_module.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    names = ("only_a_folder", "a_module", "not_there", "not.there")
    assert [extras.installed(name) for name in names] == [False, True, False, False]


def test_only_optional_packages_are_translated() -> None:
    with (
        pytest.raises(ModuleNotFoundError, match="no_such_module") as raised,
        extras.required("this"),
    ):
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401
    assert not isinstance(raised.value, MissingExtraError)


def test_extras_of_the_metadata_are_those_that_the_code_uses() -> None:
    """`gpu` is torch's: torch.cuda.utilization imports pynvml (train/metrics/usage.py)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["optional-dependencies"]
    assert set(declared) == {*extras.EXTRA_OF.values(), "gpu"}
    for module, extra in extras.EXTRA_OF.items():
        names = [
            re.split(r"[>=\[]", requirement)[0].replace("-", "_") for requirement in declared[extra]
        ]
        package = {"PIL": "pillow", "yaml": "PyYAML", "google.protobuf": "protobuf"}
        brings = package.get(module, module) in names
        assert brings, f"puffervec[{extra}] does not bring {module}"
    base = {re.split(r"[>=]", requirement)[0] for requirement in project["dependencies"]}
    assert base == {"numpy", "cffi", "gymnasium", "psutil", "cloudpickle"}
