# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a script defines is known in its workers (puffervec/workers/python/travel.py), which do not
import the script.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from puffervec.workers.python import travel
from tests.helpers import thinned

pytestmark = pytest.mark.usefixtures("no_leaks")

MAIN = """
class Outer:
    class Inner:
        pass
    def make(self):
        return helper()
def helper():
    return Made()
class Made:
    pass
class NotNeeded:
    pass
def heavy():
    return [lambda: Made(), NotNeeded]
"""


def as_main(monkeypatch: pytest.MonkeyPatch, text: str = "", name: str = "__main__") -> Any:
    """Put a module in the place of the main module. name: `__mp_main__` in a process that
    multiprocessing has spawned.
    """
    module = types.ModuleType(name)
    exec(text, vars(module))
    monkeypatch.setitem(sys.modules, "__main__", module)
    if name != "__main__":
        monkeypatch.setitem(sys.modules, name, module)
    else:
        monkeypatch.delitem(sys.modules, "__mp_main__", raising=False)
    return module


def names(module: Any) -> set[str]:
    return {name for name in vars(module) if not name.startswith("__")}


@pytest.mark.parametrize("name", travel.MAIN_MODULES)
def test_what_travels_has_its_name_in_the_main_module_of_the_worker(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = as_main(monkeypatch, MAIN, name)
    data = travel.dumps([script.Outer(), script.Outer.Inner()])
    worker = as_main(monkeypatch)
    outer, inner = travel.loads(data)
    assert names(worker) == {
        "Outer",
        "helper",
        "Made",
    }  # all that is needed, and nothing else of the script
    assert (
        type(outer) is worker.Outer
        and type(inner) is worker.Outer.Inner
        and type(outer.make()) is worker.Made
    )
    assert type(pickle.loads(pickle.dumps(outer.make()))) is worker.Made
    monkeypatch.delitem(sys.modules, "__mp_main__", raising=False)


def test_a_function_inside_of_a_function_brings_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a script's `main` would travel with all that it uses."""
    script = as_main(monkeypatch, MAIN)
    data = travel.dumps(script.heavy()[0])
    worker = as_main(monkeypatch)
    assert type(travel.loads(data)()) is worker.Made and names(worker) == {"Made"}
    monkeypatch.delitem(sys.modules, "__mp_main__", raising=False)


SCRIPT = """
import multiprocessing, pickle, sys
import gymnasium, numpy, puffervec, puffervec.gym
class Config: pass
class MyEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-9, 9, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(2, numpy.float32), {}
    def step(self, action):
        info = {"config": pickle.loads(pickle.dumps(Config()))}
        return numpy.zeros(2, numpy.float32), 1.0, False, False, info
gymnasium.register("script/MyEnv-v0", entry_point="__main__:MyEnv")
OWN = MyEnv.step
def use(what):
    with puffervec.make(what, num_envs=2, num_workers=1) as vec:
        vec.reset(seed=0)
        kinds = {type(info["config"]) for info in vec.step([0, 0])[4].per_env(2)}
    return kinds == {Config} and MyEnv.step is OWN
"""


def run(folder: Path, text: str, *arguments: str) -> str:
    """Run a script that has no main guard where it needs none; it must end well and say nothing on
    stderr.
    """
    (folder / "script.py").write_text(SCRIPT + text)
    done = subprocess.run(
        [sys.executable, "script.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.strip()


@pytest.mark.slow
def test_entry_points_of_the_script_and_envs_that_pickle_its_classes(tmp_path: Path) -> None:
    text = """
print(use(MyEnv), use("script/MyEnv-v0"), use([lambda: gymnasium.make("script/MyEnv-v0")] * 2))
envs = puffervec.make_vec("script/MyEnv-v0", 2)
envs.reset()
print(type(envs.step([0, 0])[4]["config"][0]) is Config)
envs.close()
"""
    assert run(tmp_path, text) == "True True True\nTrue"


CHILDREN = """
def child(pipe):
    pipe.send(use("script/MyEnv-v0"))
if __name__ == "__main__":
    use(MyEnv)  # so that there is a fork server
    context = multiprocessing.get_context(sys.argv[1])
    near, far = context.Pipe()
    process = context.Process(target=child, args=(far,), daemon=sys.argv[2] == "daemon")
    process.start()
    print(near.poll(60) and near.recv())
    process.join()
    print(process.exitcode)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("method", "kind"), thinned(2, [("spawn", "daemon"), ("fork", "")]))
def test_a_child_of_multiprocessing_makes_vec_envs_of_its_own(
    method: str, kind: str, tmp_path: Path
) -> None:
    """Also a daemonic one, such as those of a pool."""
    assert run(tmp_path, CHILDREN, method, kind) == "True\n0"
