# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`puffer-train profile` (puffervec/wings/profile/door.py), puffervec.profile, the case study of
examples/flow_policy.py, and Chrome traces (puffervec/wings/profile/trace.py).
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import puffervec
from puffervec import profile
from puffervec.train import TrainConfig, Trainer
from puffervec.train.device.syncs import Syncs
from puffervec.wings import plan
from puffervec.wings.profile import ablation
from tests.commands.test_cli import run
from tests.docs import pages
from tests.wings.profile.test_nsys import ALL, written

SMALL = [
    "--vec.backend",
    "serial",
    "--vec.num-envs",
    "4",
    "--policy.hidden",
    "8",
    "--train.horizon",
    "4",
]
SMALL += ["--train.precision", "fp32", "--train.compile", "off", "--train.threads", "1"]
FAST = ["--iterations", "3", "--warmup", "1"]
N = 10


@pytest.fixture(scope="module")
def flow() -> Iterator[ModuleType]:
    """The example, as `puffer-train profile flow_policy:NAME` imports it in its folder."""
    spec = importlib.util.spec_from_file_location(
        "flow_policy", pages.ROOT / "examples" / "flow_policy.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["flow_policy"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["flow_policy"]


# ---- the case study ------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 4, N])
def test_the_loop_on_tensors_waits_once_more_than_it_has_steps(
    steps: int, flow: ModuleType
) -> None:
    """And the loop on the host never: exactly N + 1 against 0, by the operations and by proof."""
    by_while, by_range = (
        functools.partial(make, num_steps=steps) for make in (flow.by_while, flow.by_range)
    )
    found = profile.find_syncs(by_while())
    assert len(found.found) == steps + 1
    assert {sync.line for sync in found.found} == {"while time >= -dt / 2:"} and found.found[
        0
    ].file == "flow_policy.py"
    assert profile.find_syncs(by_range()).found == ()
    proof = profile.prove_no_syncs(functools.partial(by_while, device="cuda"))
    assert not proof.ended and proof.found[0].line == "while time >= -dt / 2:"
    proof = profile.prove_no_syncs(functools.partial(by_range, device="cuda"))
    assert proof.ended and proof.found == ()


def test_the_actions_of_both_loops_are_equal(flow: ModuleType) -> None:
    before, after = (
        profile.Report({}, (profile.latency(make(N), iterations=1, warmup=0),))
        for make in (flow.by_while, flow.by_range)
    )
    changes = {change.key: change for change in profile.compare(before, after).changes}
    assert changes["actions"].after == 0.0
    assert (changes["synchronisations"].before, changes["synchronisations"].after) == (N + 1, 0)
    assert (changes["copies"].before, changes["copies"].after) == (N + 1, 0)
    assert changes["launches"].after < changes["launches"].before


@pytest.mark.slow
def test_slope_and_intercept_of_both_loops(flow: ModuleType) -> None:
    """On a clock by which an operation takes a millisecond, as it does on every machine."""
    lines = {}
    for name, make in (("while", flow.by_while), ("range", flow.by_range)):
        with Syncs() as done:
            timing = profile.Timing(
                2, 1, counts=False, now=lambda done=done: done.operations / 1000
            )
            swept = profile.sweep(make, "num_steps", (1, 2, 4, 8), timing)
        lines[name] = swept.fit
        assert swept.fit.r2 == pytest.approx(1.0) and swept.fit.residuals == pytest.approx(
            [0.0] * 4, abs=1e-6
        )
    assert (lines["range"].a, lines["range"].b) == pytest.approx((18, 9)), (
        "the prefix and the noise; a step"
    )
    assert (lines["while"].a, lines["while"].b) == pytest.approx((21, 12)), (
        "and the condition, once more than there are steps"
    )


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path) -> None:
    arguments = ["--steps", "1", "2", "--iterations", "2", "--out", str(tmp_path)]
    out = pages.run_script(pages.ROOT / "examples" / "flow_policy.py", *arguments, folder=tmp_path)
    assert "operations: 11 synchronisations" in out and "fake CUDA: no synchronisation" in out
    assert "num_steps" in out and (tmp_path / "flow_policy.png").read_bytes().startswith(b"\x89PNG")
    assert profile.read_report(tmp_path / "while.json").sweep is not None


# ---- the command line ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_walk_on_the_command_line(
    flow: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As docs/profile.md goes: what waits, what it costs, before against after, with limits."""
    monkeypatch.chdir(tmp_path)
    code, out, err = run(
        ["profile", "--syncs", "flow_policy:by_while", "--json", "syncs.json"], capsys
    )
    assert json.loads((tmp_path / "syncs.json").read_text())["call"][0]["count"] == 11
    assert (
        code == 1
        and "11 x aten::_local_scalar_dense  flow_policy.py:" in out
        and "while time >= -dt / 2:" in out
    )
    assert err.startswith("puffer-train: 11 synchronisations in a call")
    assert run(["profile", "--syncs", "flow_policy:by_range"], capsys)[0] == 0
    for name in ("while", "range"):
        words = [
            f"flow_policy:by_{name}",
            "--set",
            "num_steps=4",
            "--sweep",
            "num_steps=1,2,3",
            "--json",
            f"{name}.json",
        ]
        code, out, err = run(["profile", *words, *FAST], capsys)
        assert (code, err) == (0, "") and "T = " in out and "R2" in out
    before = json.loads((tmp_path / "while.json").read_text())["latencies"][0]["counts"]
    assert (before["synchronisations"], before["copies"]) == (5, 5)
    limits = ["--limit", "synchronisations=0", "--limit", "actions=0", "--out", "both.svg"]
    code, out, err = run(["profile", "--compare", "while.json", "range.json", *limits], capsys)
    assert (
        (code, err) == (0, "")
        and "largest difference of the actions" in out
        and (tmp_path / "both.svg").exists()
    )
    code, _, err = run(
        ["profile", "--compare", "range.json", "while.json", "--limit", "synchronisations=0"],
        capsys,
    )
    assert code == 1 and "synchronisations: 5 more per call, the limit is 0" in err


def test_a_policy_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"--json": "a.json", "--trace": "trace.json"}
    words = [word for flag, name in files.items() for word in (flag, str(tmp_path / name))]
    words += ["--batch", "6", "--nvtx"]
    code, out, err = run(["profile", "tag_grid", *SMALL, *FAST, *words], capsys)
    assert code == 0 and "nsys profile --trace=cuda,nvtx" in out and "enqueue" not in err
    assert "this machine has no GPU" in err or torch.cuda.is_available()
    events = [
        event.get("name")
        for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ]
    assert events.count("inference") == 3 and events.count("aten::linear") > 0
    assert json.loads((tmp_path / "a.json").read_text())["about"]["batch"] == 6
    assert run(["profile", "--syncs", "tag_grid", *SMALL], capsys)[0] == 0


@pytest.mark.slow
def test_a_run_on_the_command_line(
    small: Callable[..., TrainConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its trained policy, and in Python the phases of a trainer that goes on afterwards."""
    with Trainer(small("cartpole")) as trainer:
        found = profile.phases(trainer, iterations=2, warmup=0)
        assert "rest of iteration" in profile.table(found)
        folder = trainer.save()
        trainer.collect()
    code, out, err = run(
        ["profile", str(folder), *FAST, "--sweep", "batch=1,2", "--device", "cpu"], capsys
    )
    assert (code, err) == (0, "") and "cartpole, policy on cpu" in out and "T = " in out
    assert run(["profile", "--syncs", str(folder), "--device", "cpu"], capsys)[0] == 0


@pytest.mark.slow
def test_a_loop_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--mode", "loop", *SMALL, *FAST, "--device", "cpu", "--json", str(tmp_path / "a.json")]
    code, out, err = run(["profile", "cartpole", *words], capsys)
    assert (code, err) == (0, "")
    phases = {
        "iteration",
        "recv",
        "host-to-device",
        "policy",
        "device-to-host",
        "send",
        "advantages",
        "update",
    }
    assert phases <= set(out.split())
    assert {one.name for one in profile.read_report(tmp_path / "a.json").latencies} >= phases


@pytest.mark.slow
def test_a_loop_swept_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--mode",
        "loop",
        *SMALL,
        *FAST,
        "--device",
        "cpu",
        "--sweep",
        "horizon=4,8",
        "--json",
        str(tmp_path / "a.json"),
    ]
    code, out, err = run(["profile", "cartpole", *words], capsys)
    swept = profile.read_report(tmp_path / "a.json").sweep
    assert (code, err) == (0, "") and "ms x horizon" in out
    assert swept is not None and [point.name for point in swept.points] == [
        "horizon=4",
        "horizon=8",
    ]


def test_ablation_on_the_command_line(
    flow: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the compiler, which takes its time."""
    kept = {name: mode for name, mode in profile.MODES.items() if name == "eager" or mode.cuda}
    monkeypatch.setattr(ablation, "MODES", kept)
    monkeypatch.setattr(plan, "MODES", ("eager", "cudagraph"))
    words = ["--ablation", "--device", "cpu", "--json", str(tmp_path / "modes.json")]
    code, out, _ = run(["profile", "flow_policy:by_range", *words, *FAST], capsys)
    eager, *others = json.loads((tmp_path / "modes.json").read_text())["call"]
    assert eager["speed"] == 1.0 and all(
        entry["speed"] is None and entry["why"] == "needs a GPU" for entry in others
    )
    assert code == 0 and "eager" in out and "CUDA graph: needs a GPU" in out and "plan" not in out
    code, out, _ = run(
        ["profile", "cartpole", "--ablation", "--device", "cpu", *SMALL, *FAST], capsys
    )
    assert code == 0 and "plan, cudagraph: PlanError: mode cudagraph needs a GPU" in out


def test_summaries_of_nsys_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = written(tmp_path, **ALL)
    code, out, err = run(["profile", "--nsys-csv", *files], capsys)
    assert (
        (code, err) == (0, "")
        and "11 copies from the device to the host" in out
        and "note: NVTX ranges show" in out
    )
    files = written(
        tmp_path, strange=ALL["api"].replace("cudaGraphLaunch_v10000", "\x1b]0;title\x07")
    )
    _, out, _ = run(["profile", "--nsys-csv", *files, "--iterations", "5"], capsys)
    assert "\x1b" not in out and "\\x1b]0;title" in out
    code, _, err = run(["profile", "--nsys-csv", str(tmp_path)], capsys)
    assert code == 2 and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--syncs", "which env?"),
        ("tag_grid --mode fast", "'policy', 'model', 'loop'"),
        ("tag_grid --sweep batch=4", "at least two"),
        ("tag_grid --sweep batch=1,x", "whole number"), ("tag_grid --batch 0", "at least 1"),
        ("mlp", "is a kind of policy"), ("tag_grid --set a", "NAME=VALUE"),
        ("tag_grid --set a=1", "MODULE:FUNCTION"), ("none", "none does not exist"),
        ("tag_grid --out a.txt", ".png or .svg"),
        ("tag_grid --json none/a.json", "there is no folder"),
        ("tag_grid --mode loop --syncs", "are for --mode policy"),
        ("latest --mode loop", "give an env"), ("tag_grid --syncs --out a.png", "leave --out out"),
        ("tag_grid --sweep horizon=1,2", "can be batch, agents, layers"),
        ("tag_grid --nvtx --sweep batch=1,2", "leave --sweep out"),
        ("--compare a.json", "expected 2 arguments"),
        ("--compare a.json b.json", "a.json: No such file"),
        ("--compare a.json b.json --limit fast=1", "can be a, b"),
        ("--compare a b --limit a", "NAME=VALUE"),
        ("--compare a b --limit a=x", "must be a number"),
        ("--nsys-csv", "expected at least one argument"), ("--nsys-csv a --foo", "--foo"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(
    words: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(["profile", *words.split()], capsys)
    assert code == 2 and said in err and len(err.splitlines()) == 1, err


# ---- the module ----------------------------------------------------------------------------------


def test_the_module_does_not_load_torch() -> None:
    script = (
        "import sys, puffervec\nmodule = puffervec.profile\nfrom puffervec import profile\n"
        "print(module is profile, 'latency' in dir(profile), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["True", "True", "False"], "")


def test_every_name_is_there() -> None:
    assert all(getattr(profile, name) is not None for name in profile.__all__)
    assert "profile" in dir(puffervec)
    with pytest.raises(AttributeError, match="no attribute 'none'"):
        profile.none  # noqa: B018
