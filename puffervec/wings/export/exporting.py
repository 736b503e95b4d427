# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Policies of a run as ONNX files or torch.export archives, for programs without this package.

    tensors by name  --  the policy, float32  --  logits or mean and log_std, value, action,
                                                  next_state.<i>

The number of rows is not fixed. A recurrent policy has the additional inputs `state.<i>` and
`reset`, a policy with masked actions `action_mask`. A file gets its name only after it has been
read back and compared with the policy on random rows. Runs in the learner, on a CPU.

    C env with rows of one dtype     obs (rows, F); a picture is (rows, *shape)
    other C envs                     obs.<field> (rows, *shape) each
    Python env                       obs (rows, *shape) of a plain Box, else obs.<key>
                                     (rows, *shape) per leaf of the space

Users of a file pass what the env returns; they need not know how the trainer stores its rows.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import logging
import re
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from puffervec.commands.outputs import check_output
from puffervec.core.spec import Field, GroupSpec
from puffervec.errors import ConfigError, PuffervecError
from puffervec.system import extras
from puffervec.system.folder import folder_of
from puffervec.train.act.evaluate import load_policies
from puffervec.train.config.sections import TrainConfig
from puffervec.train.policies.convolution import ConvolutionPolicy, MixedPolicy
from puffervec.train.policies.distributions import ActionMap, ActionSpec, greedy
from puffervec.train.policies.leaves import (
    ROW,
    TORCH_DTYPES,
    EntryView,
    Observations,
    flat_rows,
    stored_dtype,
)
from puffervec.train.policies.mapping import PolicyRows
from puffervec.train.policies.memory import State
from puffervec.train.policies.mlp import MLPPolicy
from puffervec.train.policies.protocol import Policy, forward
from puffervec.train.run.find import read_newest
from puffervec.train.run.rundir import CHECKPOINTS

FORMATS = {"onnx": ".onnx", "pt2": ".pt2"}
TOLERANCE = 1e-4  # Largest difference, relative to the largest number of an output, at least 1.
CHECKED_ROWS = (1, 64)
METADATA = "puffervec"  # Key under which a file has a JSON text that describes it.
WIDEST = 10.0  # How far random numbers may be from 0 if the bounds are further apart.

Arrays = dict[str, np.ndarray]
Evaluate = Callable[[Arrays], Arrays]


class ExportError(PuffervecError):
    """The policy cannot become a graph, or the file's outputs differ from the policy's."""


@dataclasses.dataclass(frozen=True)
class Exported:
    """A file that was written.

    Attributes:
        policy: name of the policy.
        path: path of the file.
        inputs, outputs: shape and dtype by name.
        difference: the largest difference that the check measured.
        engine: the program that ran the file for the check.
    """

    policy: str
    path: Path
    inputs: dict[str, str]
    outputs: dict[str, str]
    difference: float
    engine: str

    def text(self) -> str:
        """Return a description of the file in lines."""
        parts = [f"{self.path}: policy {self.policy}"]
        parts += [f"  in   {name}: {what}" for name, what in self.inputs.items()]
        parts += [f"  out  {name}: {what}" for name, what in self.outputs.items()]
        rows = " and ".join(map(str, CHECKED_ROWS))
        return "\n".join(
            [
                *parts,
                f"  largest difference from the policy {self.difference:.1e} ({self.engine}, "
                f"{rows} random rows)",
            ]
        )


def check_request(kind: str | None, out: Path | None) -> str:
    """Check the format and the file's name before anything is loaded; return the format.

    Args:
        kind: onnx or pt2; None: as the name of `out` ends, otherwise onnx.
        out: the file; None for the default.

    Raises:
        ConfigError, MissingExtraError: bad input.
    """
    by_name = next(
        (name for name, suffix in FORMATS.items() if out is not None and out.suffix == suffix), None
    )
    kind = kind or by_name or "onnx"
    if kind not in FORMATS:
        raise ConfigError(f"--format is {kind!r}: use {' or '.join(FORMATS)}")
    if out is not None:
        check_output("--out", out, FORMATS[kind])
    if kind == "onnx":
        extras.require("--format onnx (unlike --format pt2)", "onnx", "onnxscript")
    return kind


def export_run(
    run: str,
    kind: str | None = None,
    out: Path | None = None,
    note: Callable[[str], None] | None = None,
    trusted: Collection[str | None] = (),
) -> list[Exported]:
    """Write the policies of a run, each into its own file.

    Args:
        run: run folder, checkpoint or latest.
        kind: onnx or pt2.
        out: the file. With several policies, their names are inserted before its ending. None is
            policy.<kind> in the run folder.
        note: called with notes for people.
        trusted: see load_policies.

    Raises:
        ConfigError, CheckpointError, MissingExtraError: bad input.
        ExportError: the export failed; no file was left or replaced.
    """
    kind = check_request(kind, out)
    path, (loaded, policies) = read_newest(
        run, Path("runs"), lambda p: load_policies(p, torch.device("cpu"), trusted), note
    )
    folder = path.parent.parent if path.parent.name == CHECKPOINTS else path
    first = out or folder / f"policy{FORMATS[kind]}"
    return [
        _export(
            loaded.config,
            path,
            name,
            policy,
            loaded.rows[name],
            kind,
            first if len(policies) == 1 else first.with_stem(f"{first.stem}-{name}"),
        )
        for name, policy in policies.items()
    ]


def _export(
    config: TrainConfig,
    checkpoint: Path,
    name: str,
    policy: nn.Module,
    rows: PolicyRows,
    kind: str,
    file: Path,
) -> Exported:
    check_output("--out", file)
    acting = ActingPolicy(policy, rows.group, rows.section.joint)
    graph = exported_program(acting)
    metadata = {
        "env": config.target,
        "policy": name,
        "checkpoint": str(checkpoint.name),
        "action": acting.spec.kind,
    }
    write, load, engine = (
        (_write_onnx, _load_onnx, _onnx_engine())
        if kind == "onnx"
        else (_write_pt2, _load_pt2, "torch")
    )
    try:
        with (
            folder_of(file) as (folder, last),
            tempfile.TemporaryDirectory(prefix="puffer-train-") as scratch,
        ):
            # Third-party code writes the file, so let it write into a new, private folder.
            fresh = Path(scratch) / last
            write(acting, graph, fresh, json.dumps(metadata))
            difference = check(acting, policy, load(fresh))
            folder.replace(last, [fresh.read_bytes()])
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from error
    drawn = acting.random(1, np.random.default_rng(0))
    return Exported(
        name, file, _shapes(drawn), _shapes(_reference(acting, policy, drawn)), difference, engine
    )


def _shapes(arrays: Arrays) -> dict[str, str]:
    return {
        name: f"({', '.join(['rows', *map(str, array.shape[1:])])}) {array.dtype}"
        for name, array in arrays.items()
    }


# ------------------------------------------------------------------------------------ observations


@dataclasses.dataclass(frozen=True)
class Input:
    """One observation tensor: (rows, *shape)."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class GraphInputs:
    """The observation tensors of one group's policy, by name."""

    def __init__(self, group: GroupSpec) -> None:
        """Args: group: the group of rows for which the policy acts."""
        self._group, self._plan = group, group.observation_plan
        if self._plan is not None:
            self._leaves = [leaf for leaf in self._plan.leaves if leaf.size]
            single = self._plan.is_flat
            names = ["obs"] if single else _unique([_leaf_name(leaf.path) for leaf in self._leaves])
            self.inputs = [
                Input(n, tuple(leaf.shape), leaf.dtype)
                for n, leaf in zip(names, self._leaves, strict=True)
            ]
        elif group.flat_dtype is not None:
            self.inputs = [Input("obs", group.flat_shape, group.flat_dtype)]
        else:
            self.inputs = [
                Input(f"obs.{field.name}", tuple(field.shape), field.dtype)
                for field in group.fields
            ]

    @property
    def one_dtype(self) -> bool:
        """Whether all leaves of a Python env share the dtype of its rows."""
        assert self._plan is not None
        return all(leaf.dtype == self._plan.row_dtype for leaf in self._leaves)

    def assemble(self, inputs: dict[str, Tensor]) -> Observations:
        """Return the input of the policy from `adapt`, computed with operations a graph can hold.

        Args:
            inputs: tensors by input name.
        """
        if self._plan is None:
            named = {
                i.name.removeprefix("obs").removeprefix("."): inputs[i.name] for i in self.inputs
            }
            return {
                key: part.flatten(1) if key == ROW and part.dim() > 2 else part
                for key, part in named.items()
            }
        if not self.one_dtype:
            return {i.name: inputs[i.name] for i in self.inputs}
        parts = [
            inputs[i.name].flatten(1) if i.shape else inputs[i.name].unsqueeze(1)
            for i in self.inputs
        ]
        rows = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return {ROW: rows.to(stored_dtype(self._plan))}

    def adapt(self, policy: nn.Module) -> nn.Module:
        """Return a copy of the policy whose input is what `assemble` returns.

        If the trainer passes rows of bytes to the policy, the input of the copy is a dict of the
        leaves by name.

        Raises:
            ConfigError: the policy is the user's own and reads bytes.
        """
        policy = copy.deepcopy(policy)
        if self._plan is None or self.one_dtype:
            return policy
        if not isinstance(policy, (MLPPolicy, ConvolutionPolicy, MixedPolicy)):
            raise ConfigError(
                f"cannot export a {type(policy).__name__} over observations of several dtypes: "
                "only policy.kind mlp and cnn read them in a form that graphs can hold"
            )
        entries = {
            leaf.path: EntryView(leaf, i.name)
            for leaf, i in zip(self._leaves, self.inputs, strict=True)
        }
        policy.use_entries(entries)
        return policy

    def random(self, rows: int, generator: np.random.Generator) -> Arrays:
        """Return random observations by name, within the env's bounds.

        Half the objects of an object set are empty.
        """
        if self._plan is not None:
            drawn = [random_values(leaf.space, rows, generator) for leaf in self._leaves]
            return {
                i.name: part.astype(i.dtype) for i, part in zip(self.inputs, drawn, strict=True)
            }
        fields = {field.name: _random_field(field, rows, generator) for field in self._group.fields}
        if self._group.flat_dtype is not None:
            row = np.concatenate([part.reshape(rows, -1) for part in fields.values()], axis=1)
            return {"obs": row.reshape(rows, *self._group.flat_shape)}
        return {f"obs.{name}": part for name, part in fields.items()}

    def trainer_observations(self, arrays: Arrays) -> Observations:
        """Return observations in the form that the trainer passes. arrays: see `random`."""
        plan = self._plan
        if plan is None:
            return self.assemble({name: torch.from_numpy(part) for name, part in arrays.items()})
        count = len(next(iter(arrays.values())))
        raw = np.zeros((count, plan.row_bytes), np.uint8)
        for leaf, i in zip(self._leaves, self.inputs, strict=True):
            values = np.ascontiguousarray(arrays[i.name]).reshape(count, -1).view(np.uint8)
            raw[:, leaf.offset : leaf.offset + values.shape[1]] = values
        return {ROW: flat_rows(plan, raw.view(plan.row_dtype).reshape(count, *plan.row_shape))}


def _leaf_name(path: Sequence[Any]) -> str:
    """Return the path of a leaf as a name: ("camera", 0) becomes obs.camera.0."""
    return ".".join(["obs", *(re.sub(r"\W+", "_", str(key)) for key in path)])


def _unique(names: list[str]) -> list[str]:
    """Append to each name that occurs more than once its index."""
    return [name if names.count(name) == 1 else f"{name}.{at}" for at, name in enumerate(names)]


def _random_field(field: Field, rows: int, generator: np.random.Generator) -> np.ndarray:
    values = random_values(field.space, rows, generator)
    if values.ndim == 3:  # Object sets; an empty slot is all zero.
        values[generator.random(values.shape[:2]) < 0.5] = 0
    return values


def random_values(space: Any, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Return (rows, *shape) random values of a space of numbers.

    Values of a wide float Box are near 0, because policies that scale their inputs would clip
    larger ones anyway.
    """
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        own = copy.deepcopy(space)  # The copy has a random generator of its own.
        own.seed(int(generator.integers(2**31)))
        return np.stack([np.asarray(own.sample(), space.dtype) for _ in range(rows)])
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    wide = high - low > 2 * WIDEST
    least = np.where(wide, np.clip(0.0, low, high) - WIDEST, low).clip(low, high)
    most = np.where(wide, np.clip(0.0, low, high) + WIDEST, high).clip(low, high)
    return generator.uniform(least, most, (rows, *space.shape)).astype(space.dtype)


# --------------------------------------------------------------------------------------- the graph


class ActingPolicy(nn.Module):
    """A policy as a graph from a dict of tensors to a dict of tensors; see the module docstring."""

    def __init__(self, policy: nn.Module, group: GroupSpec, joint: bool = False) -> None:
        """Copy a policy into the graph.

        Args:
            policy: policy on the CPU, with float32 weights.
            group: the group of rows for which it acts.
            joint: `policy.joint` of its run.
        """
        super().__init__()
        self.group, self.observations, self.spec = (
            group,
            GraphInputs(group),
            ActionSpec.of(group, joint),
        )
        self.policy = self.observations.adapt(policy).eval().requires_grad_(False)
        self.states = len(self.initial_state(1))
        self.action_map = ActionMap(
            self.spec, torch.device("cpu"), TORCH_DTYPES[group.action_dtype]
        )

    def initial_state(self, rows: int) -> State:
        """Return the policy's initial state."""
        state: State = cast(Policy, self.policy).initial_state(rows)
        return state

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the policy's outputs by name. inputs: by name, see `random`."""
        state = tuple(inputs[f"state.{i}"] for i in range(self.states))
        obs = self.observations.assemble(inputs)
        heads, value, state = forward(
            self.policy, obs, state, inputs.get("reset"), inputs.get("action_mask")
        )
        return self.outputs(heads, value, state)

    def outputs(
        self, heads: tuple[Tensor, ...], value: Tensor, state: tuple[Tensor, ...]
    ) -> dict[str, Tensor]:
        """Return a policy's outputs by name, with the likeliest action in the env's form."""
        if self.spec.discrete:
            out = {
                "logits" if len(heads) == 1 else f"logits.{i}": head for i, head in enumerate(heads)
            }
        else:
            out = dict(zip(("mean", "log_std"), heads[0].chunk(2, dim=-1), strict=True))
        action = self.action_map(greedy(self.spec, heads)).to(TORCH_DTYPES[self.group.action_dtype])
        out |= {"value": value, "action": action.reshape(-1, *self.group.action_shape)}
        return out | {f"next_state.{i}": part for i, part in enumerate(state)}

    def random(self, rows: int, generator: np.random.Generator) -> Arrays:
        """Return random inputs by name.

        These are observations; for a recurrent policy state.<i> (float32) and reset (bool); and
        action_mask (bool), which allows at least one choice of each action.
        """
        drawn = self.observations.random(rows, generator)
        for i, part in enumerate(self.initial_state(rows)):
            drawn[f"state.{i}"] = generator.standard_normal(part.shape).astype(np.float32)
        if self.states:
            drawn["reset"] = generator.random(rows) < 0.3
        if self.group.action_mask_size:
            parts = []
            for size in self.spec.parts or self.spec.sizes:
                allowed = generator.random((rows, size)) < 0.6
                allowed[np.arange(rows), generator.integers(0, size, rows)] = True
                parts.append(allowed)
            drawn["action_mask"] = np.concatenate(parts, axis=1)
        return drawn


def _tensors(arrays: Arrays) -> dict[str, Tensor]:
    return {
        name: torch.from_numpy(array).to(TORCH_DTYPES[array.dtype])
        for name, array in arrays.items()
    }


def exported_program(acting: ActingPolicy) -> torch.export.ExportedProgram:
    """Return the graph, which has only operations of torch and works for any number of rows.

    Raises:
        ExportError: the policy does something that a graph cannot hold.
    """
    example = _tensors(acting.random(3, np.random.default_rng(0)))
    rows = torch.export.Dim("rows", min=1)
    try:
        with torch.no_grad(), _quiet():
            free = ({name: {0: rows} for name in example},)
            graph: torch.export.ExportedProgram = torch.export.export(
                acting, (example,), dynamic_shapes=free
            ).run_decompositions({})
    except Exception as error:  # The tracer may raise anything for a user's policy.
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ExportError(
            f"{type(acting.policy).__name__} cannot be made a graph: {lines[0]}"
        ) from error
    targets = {node.target for node in graph.graph.nodes if node.op == "call_function"}
    # All programs support the operations of torch, and those of Python (sizes).
    custom = [
        t
        for t in targets
        if isinstance(t, torch._ops.OpOverload) and t.namespace not in ("aten", "prims")
    ]
    if custom:
        names = ", ".join(sorted(map(str, custom)))
        raise ExportError(
            f"{type(acting.policy).__name__} uses operations that other programs lack: {names}"
        )
    return graph


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporters, which warn about their own internals."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)


# ------------------------------------------------------------------------------------------- files


def _write_pt2(
    acting: ActingPolicy, graph: torch.export.ExportedProgram, path: Path, metadata: str
) -> None:
    with _quiet():
        torch.export.save(graph, path, extra_files={f"{METADATA}.json": metadata})


def _load_pt2(path: Path) -> Evaluate:
    with _quiet():
        module = torch.export.load(path).module()

    def evaluate(inputs: Arrays) -> Arrays:
        with torch.no_grad():
            return {name: part.numpy() for name, part in module(_tensors(inputs)).items()}

    return evaluate


def _write_onnx(
    acting: ActingPolicy, graph: torch.export.ExportedProgram, path: Path, metadata: str
) -> None:
    example = _tensors(acting.random(3, np.random.default_rng(0)))
    with torch.no_grad(), _quiet():
        outputs = list(acting(example))
        program = torch.onnx.export(
            graph,
            (example,),
            input_names=list(example),
            output_names=outputs,
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        program.model.metadata_props[METADATA] = metadata
        program.save(path, external_data=False)


def _onnx_engine() -> str:
    return "onnxruntime" if extras.installed("onnxruntime") else "onnx.reference"


def _load_onnx(path: Path) -> Evaluate:
    """Load with onnxruntime where it is installed, otherwise with onnx's reference evaluator."""
    if _onnx_engine() == "onnxruntime":
        import onnxruntime

        session: Any = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        inputs, outputs = (
            [node.name for node in nodes] for nodes in (session.get_inputs(), session.get_outputs())
        )
    else:
        from onnx.reference import ReferenceEvaluator

        session = ReferenceEvaluator(str(path))
        inputs, outputs = session.input_names, session.output_names
    # The file lacks inputs that the policy does not use, such as the state of a policy that resets
    # it in every step.
    return lambda arrays: dict(
        zip(outputs, session.run(None, {name: arrays[name] for name in inputs}), strict=True)
    )


# --------------------------------------------------------------------------------------- the check


def _reference(acting: ActingPolicy, policy: Any, inputs: Arrays) -> Arrays:
    """Return the outputs of the policy itself, called as the trainer calls it."""
    extra = _tensors({name: inputs[name] for name in inputs if not name.startswith("obs")})
    state = tuple(extra[f"state.{i}"] for i in range(acting.states))
    observations = acting.observations.trainer_observations(
        {name: inputs[name] for name in inputs if name.startswith("obs")}
    )
    with torch.no_grad():
        heads, value, state = forward(
            policy, observations, state, extra.get("reset"), extra.get("action_mask")
        )
        return {name: part.numpy() for name, part in acting.outputs(heads, value, state).items()}


def check(acting: ActingPolicy, policy: nn.Module, evaluate: Evaluate) -> float:
    """Compare a file with the policy on random rows and return the largest difference.

    Actions are compared with the choices that the file's own logits give, because the last bit may
    decide between two nearly equal logits.

    Raises:
        ExportError: the outputs differ.
    """
    generator, largest = np.random.default_rng(1), 0.0
    for rows in CHECKED_ROWS:
        inputs = acting.random(rows, generator)
        wanted, got = _reference(acting, policy, inputs), evaluate(inputs)
        if list(got) != list(wanted):
            raise ExportError(
                f"the file's outputs are {', '.join(got)}: must be {', '.join(wanted)}"
            )
        for name, array in wanted.items():
            if got[name].shape != array.shape or got[name].dtype != array.dtype:
                raise ExportError(
                    f"{name} of the file is {_shapes(got)[name]}: must be {_shapes(wanted)[name]}"
                )
            if name != "action" or not acting.spec.discrete:
                # A small number may be the sum of large ones, and then has their rounding errors.
                size = np.maximum(1.0, np.abs(array).max(initial=0.0))
                away = np.abs(got[name].astype(np.float64) - array).max(initial=0.0) / size
                largest = float(np.maximum(largest, away))  # NaN stays NaN.
        if not largest <= TOLERANCE:
            raise ExportError(
                f"the file differs from the policy by {largest:.1e}, more than {TOLERANCE:g}"
            )
        if acting.spec.discrete:
            heads = tuple(torch.from_numpy(got[name]) for name in got if name.startswith("logits"))
            likeliest = acting.outputs(heads, torch.zeros(rows), ())["action"].numpy()
            if not np.array_equal(got["action"], likeliest):
                raise ExportError("the file's actions are not the likeliest ones of its logits")
    return largest
