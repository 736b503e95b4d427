# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from puffervec.errors import ConfigError, MissingExtraError
from puffervec.train import TrainConfig, Trainer
from puffervec.train.config.target import env_spec
from puffervec.train.policies.registry import build_policy
from puffervec.wings.export import exporting as export

Small = Callable[..., TrainConfig]


class Mixed(gymnasium.Env[dict[str, Any], np.ndarray]):
    """Observations of several dtypes, continuous actions with bounds."""

    observation_space = spaces.Dict(
        {
            "far away": spaces.Box(-np.inf, np.inf, (2,), np.float64),
            "gear": spaces.Discrete(5, start=-2),
            "picture": spaces.Box(0, 255, (3, 2), np.uint8),
            "levers": spaces.MultiDiscrete([3, 4]),
        }
    )
    action_space = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))


class Forgetful(nn.Module):
    """A policy of one's own, which reads a value back to the CPU."""

    def __init__(self, group: Any, section: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
        return ()

    def forward(self, obs: Any, state: Any = (), reset: Any = None, action_mask: Any = None) -> Any:
        x = self.layer(obs)
        if float(x.sum()) > 0:
            x = x + 1
        return (x,), x.sum(-1), ()


def acting(config: TrainConfig, group: int = 0) -> tuple[export.ActingPolicy, nn.Module]:
    found = env_spec(config).groups[group]
    torch.manual_seed(1)  # By some weights the same sums in another order differ by more than 1e-5.
    policy = build_policy(found, config.policy).eval()
    with torch.no_grad():  # Heads begin with weights near 0, which would hide differences.
        for weight in policy.parameters():
            weight.mul_(1.5).add_(0.05 * torch.randn_like(weight))
    return export.ActingPolicy(policy, found, config.policy.joint), policy


def both_ways(config: TrainConfig, kind: str, tmp_path: Path, group: int = 0) -> float:
    graph, policy = acting(config, group)
    write, load = (
        (export._write_onnx, export._load_onnx)
        if kind == "onnx"
        else (export._write_pt2, export._load_pt2)
    )
    path = tmp_path / f"policy.{kind}"
    write(graph, export.exported_program(graph), path, "{}")
    return export.check(graph, policy, load(path))


@pytest.mark.slow
def test_a_run_with_two_policies_and_a_mask(small: Small, tmp_path: Path) -> None:
    with Trainer(small(env={"mode": 1})) as trainer:
        trainer.train()
        folder = trainer.folder
    done = export.export_run(str(folder), "pt2")
    assert [e.path for e in done] == [folder / "policy-scouts.pt2", folder / "policy-towers.pt2"]
    assert done[0].inputs == {"obs": "(rows, 6) float32", "action_mask": "(rows, 3) bool"}
    assert done[1].inputs == {"obs.lights": "(rows, 4) uint8", "obs.gauges": "(rows, 3) float32"}
    assert list(done[1].outputs) == ["logits.0", "logits.1", "value", "action"]
    assert all(e.difference < 1e-5 for e in done) and "largest difference" in done[0].text()
    assert not [p for p in folder.iterdir() if p.name.startswith(".") and "policy" in p.name]
    about = {f"{export.METADATA}.json": ""}
    module = torch.export.load(folder / "policy-scouts.pt2", extra_files=about).module()
    mask = torch.tensor([[False, True, False]] * 5)
    out = module({"obs": torch.zeros(5, 6), "action_mask": mask})
    assert (
        out["action"].tolist() == [1] * 5
        and '"policy": "scouts"' in about[f"{export.METADATA}.json"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pt2", "onnx"])
def test_a_joint_choice_leaves_as_the_parts_of_the_envs_action(
    small: Small, tmp_path: Path, kind: str
) -> None:
    pytest.importorskip("onnxscript")
    config = small(env={"mode": 1}, policy={"joint": True})
    assert both_ways(config, kind, tmp_path, group=1) < 1e-5
    graph, _ = acting(config, group=1)
    out = graph(export._tensors(graph.random(64, np.random.default_rng(3))))
    sizes = graph.group.action_sizes
    assert out["logits"].shape == (64, np.prod(sizes)) and out["action"].shape == (64, len(sizes))
    assert (
        out["action"].tolist()
        == np.stack(np.unravel_index(out["logits"].argmax(-1).numpy(), sizes), axis=-1).tolist()
    )


@pytest.mark.slow
def test_memory_is_carried_by_the_caller(small: Small, tmp_path: Path) -> None:
    """Step by step through the file, with resets, gives what the policy gives for the whole
    sequence.
    """
    pytest.importorskip("onnxscript")
    graph, policy = acting(small("cartpole", policy={"memory": "mingru", "hidden": (8,)}))
    path = tmp_path / "policy.onnx"
    export._write_onnx(graph, export.exported_program(graph), path, "{}")
    run = export._load_onnx(path)
    obs, reset = torch.randn(6, 3, 4), torch.rand(6, 3) < 0.4
    state = {f"state.{i}": np.zeros((3, 8), np.float32) for i in range(2)}
    logits = []
    for step, begins in zip(obs.numpy(), reset.numpy(), strict=True):
        out = run({"obs": step, "reset": begins, **state})
        state = {name: out[f"next_{name}"] for name in state}
        logits.append(out["logits"])
    with torch.no_grad():
        (wanted,), _, last = policy(obs, policy.initial_state(3), reset, None)  # type: ignore[operator]
    np.testing.assert_allclose(np.stack(logits), wanted, atol=1e-5)
    for found, part in zip(state.values(), last, strict=True):
        np.testing.assert_allclose(found, part, atol=1e-5)


@pytest.mark.slow
def test_the_graph_of_an_object_set_is_torchs_own(small: Small) -> None:
    """The fused kernel of object_set.py is for this package only."""
    config = small("drive")
    group = env_spec(config).groups[0]
    graph = export.exported_program(export.ActingPolicy(build_policy(group, config.policy), group))
    targets = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    sets = sum(len(field.shape) == 2 for field in group.fields)
    assert sum(target.startswith("aten.amax") for target in targets) == sets > 0
    kinds = {target.partition(".")[0] for target in targets}
    assert kinds <= {"aten", "wrap_with_autocast", "<built-in function getitem>"}


@pytest.mark.slow
def test_leaves_of_several_dtypes_are_inputs_of_their_own(tmp_path: Path) -> None:
    config = TrainConfig.of(Mixed, policy={"hidden": (8,), "memory": "lstm"})
    assert both_ways(config, "pt2", tmp_path) < 1e-5
    graph, _ = acting(config)
    named = {i.name: (i.shape, i.dtype.name) for i in graph.observations.inputs}
    assert named == {
        "obs.far_away": ((2,), "float64"),
        "obs.gear": ((), "int64"),
        "obs.levers": ((2,), "int64"),
        "obs.picture": ((3, 2), "uint8"),
    }
    actions = graph(export._tensors(graph.random(64, np.random.default_rng(3))))["action"]
    assert bool(((actions >= torch.tensor([-2, 0])) & (actions <= torch.tensor([2, 10]))).all())


def test_a_policy_that_no_graph_can_hold(small: Small) -> None:
    config = small(policy={"kind": f"{__name__}:Forgetful"})
    graph, _ = acting(config)
    with pytest.raises(export.ExportError, match="Forgetful cannot be made a graph"):
        export.exported_program(graph)
    mixed = TrainConfig.of(Mixed, policy={"kind": f"{__name__}:Forgetful"})
    with pytest.raises(ConfigError, match="Forgetful over observations of several dtypes"):
        acting(mixed)


def test_other_numbers_are_seen(small: Small) -> None:
    graph, policy = acting(small())
    changes: list[tuple[Callable[[export.Arrays], Any], str]] = [
        (lambda found: found["value"].__iadd__(0.01), "differs from the policy by"),
        (lambda found: found["value"].__imul__(np.nan), "differs from the policy by nan"),
        (lambda found: found["action"].__iadd__(1), "not the likeliest"),
        (lambda found: found.pop("value"), "the file's outputs are logits, action: must be"),
        (
            lambda found: found.update(value=found["value"][:1, None]),
            r"value of the file is \(rows, 1\)",
        ),
    ]
    for change, words in changes:

        def evaluate(
            given: export.Arrays, change: Callable[[export.Arrays], Any] = change
        ) -> export.Arrays:
            found = {
                name: part.numpy().copy() for name, part in graph(export._tensors(given)).items()
            }
            change(found)
            return found

        with pytest.raises(export.ExportError, match=words):
            export.check(graph, policy, evaluate)


def test_a_file_that_fails_the_check_replaces_nothing(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Trainer(small()) as trainer:
        trainer.save()
        folder = trainer.folder
    (folder / "policy.pt2").write_bytes(b"an older one")
    monkeypatch.setattr(export, "exported_program", lambda acting: None)
    monkeypatch.setattr(
        export, "_write_pt2", lambda acting, graph, path, about: path.write_bytes(b"fresh")
    )
    monkeypatch.setattr(
        export, "_load_pt2", lambda path: lambda given: {"value": np.zeros(len(given["obs"]))}
    )
    with pytest.raises(
        export.ExportError, match="the file's outputs are value: must be logits, value, action"
    ):
        export.export_run(str(folder), "pt2")
    assert (folder / "policy.pt2").read_bytes() == b"an older one"
    assert not list(folder.glob(".*policy*"))


def test_bad_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert export.check_request(None, tmp_path / "a.pt2") == "pt2"
    for kind, out, words in (
        ("jit", None, "'jit': use onnx or pt2"),
        ("pt2", tmp_path / "a.onnx", "must end in .pt2"),
        ("pt2", tmp_path / "none" / "a.pt2", "there is no folder .*none"),
    ):
        with pytest.raises(ConfigError, match=words):
            export.check_request(kind, out)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'puffervec\[onnx\]'"):
        export.check_request(None, None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pt2", "onnx"])
@pytest.mark.parametrize(
    ("target", "memory", "group"),
    [
        ("probe", "none", 0),
        ("probe", "none", 1),
        ("tag_grid", "lstm", 0),
        ("drive", "none", 0),
        ("drive", "mingru", 0),
        ("CartPole-v1", "none", 0),
        ("Pendulum-v1", "mingru", 0),
        ("mixed", "none", 0),
    ],
)
def test_files_of_all_kinds(
    target: str, memory: str, group: int, kind: str, tmp_path: Path
) -> None:
    pytest.importorskip("onnxscript")
    made = TrainConfig.of(Mixed if target == "mixed" else target, policy={"memory": memory})
    config = made.merged(
        {"env": {"probe": {"mode": 1}, "drive": {"scenes": "generated:2"}}.get(target, {})}
    )
    assert both_ways(config, kind, tmp_path, group) < 1e-4


@pytest.mark.slow
def test_onnx_without_onnxruntime(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read by onnx's own evaluator."""
    pytest.importorskip("onnxscript")
    monkeypatch.setattr(export, "_onnx_engine", lambda: "onnx.reference")
    assert both_ways(small("cartpole", policy={"memory": "lstm"}), "onnx", tmp_path) < 1e-5
