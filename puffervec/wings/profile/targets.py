# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Targets of `puffer-train profile`: policies of a run or env, callables, the trainer's loop.

    model     the network alone, on rows that are tensors on its device
    policy    from an env's rows to its actions: encoding, network, sampling (act/acting.py)
    loop      the phases of rollouts and updates, in a real trainer

Rows are those of the env's first step, repeated up to the batch. Runs in the learner.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import puffervec
from puffervec import doors
from puffervec.commands.verb import StopSignals
from puffervec.errors import ConfigError
from puffervec.train.act.acting import RowActor
from puffervec.train.act.evaluate import load_policies
from puffervec.train.config.sections import TrainConfig
from puffervec.train.config.target import env_spec
from puffervec.train.device.device import choose_device, one_torch_thread
from puffervec.train.device.syncs import SyncReport, cuda_syncs, find_syncs
from puffervec.train.metrics.dashboard import Dashboard
from puffervec.train.policies.distributions import ActionSpec, draw_noise, sample
from puffervec.train.policies.leaves import Observations, policy_input
from puffervec.train.policies.mapping import PolicyRows, places
from puffervec.train.policies.protocol import forward
from puffervec.train.policies.registry import kinds
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run.find import read_newest
from puffervec.train.run.trainer import Trainer
from puffervec.wings.profile import ablation
from puffervec.wings.profile.ablation import Entry
from puffervec.wings.profile.fake import FAKE, ProofError, prove_no_syncs
from puffervec.wings.profile.timing import ITERATION, MS, Latency, Meter, Timing, Work, no_marks
from puffervec.workers.python.creators import load, run_user_code

ENVS = 4  # Number of envs whose first rows are repeated to fill a batch.
BATCH = 64
LOOPS = (20, 5)  # Iterations and warm-up.
# Phases in the order in which they occur in a turn, then in an update.
PHASES = (
    "recv",
    "host-to-device",
    "policy",
    "graph",
    "device-to-host",
    "wait",
    "send",
    "advantages",
    "update",
)
FOR_EVER = 10**15  # Agent-steps.
Knobs = Mapping[str, int]


class Stopped(Exception):
    """A signal ended a loop before it was measured."""


@dataclasses.dataclass(frozen=True)
class Subject:
    """A target with the functions that profile it.

    Attributes:
        device: device on which it runs.
        knobs: names that a sweep may change; None: any argument of the callable.
        make: takes values of knobs, returns the works by name.
        steps: returns, by name, the works in which to search for synchronisations: a rollout's turn
            on a device, up to the drawn actions.
        fake_steps: returns functions that make these steps when tensors are on a fake GPU.
        ablate: runs the works in all modes; returns the results by name.
        about: facts for the report.
    """

    device: torch.device
    knobs: tuple[str, ...] | None
    make: Callable[[Knobs], dict[str, Work]]
    steps: Callable[[], dict[str, Work]]
    fake_steps: Callable[[], dict[str, Callable[[], Work]]]
    ablate: Callable[[Timing], dict[str, list[Entry]]]
    about: Mapping[str, Any]

    def whole(self, knobs: Knobs) -> Work:
        """Return a work that does all works in turn. Raises: ConfigError: an unknown knob."""
        if self.knobs is not None and (unknown := set(knobs) - set(self.knobs)):
            raise ConfigError(f"--sweep {min(unknown)}: can be {', '.join(self.knobs)} here")
        works = self.make(knobs)
        return functools.partial(_all, tuple(works.values()))

    def syncs(self) -> dict[str, list[SyncReport]]:
        """Return the operations that wait, by work: on this device, and on fake CUDA tensors."""
        by_work: dict[str, list[SyncReport]] = {}
        fakes = self.fake_steps()
        for name, step in self.steps().items():
            reports = [find_syncs(step)]
            if self.device.type == "cuda":
                reports.append(cuda_syncs(step))
            try:
                reports.append(prove_no_syncs(fakes[name]))
            except ProofError as error:
                reports.append(SyncReport((), FAKE, note=str(error)))
            by_work[name] = reports
        return by_work


def _all(works: Sequence[Work]) -> list[Any]:
    return [work() for work in works]


# ---- callables -----------------------------------------------------------------------------------


def callable_subject(
    target: str, settings: Mapping[str, Any], device: str, batch: int | None
) -> Subject | None:
    """Return a subject for "module:name", or None if that makes an env.

    The name refers to a function that takes knobs by name and returns a callable without arguments,
    or does the work itself.

    Args:
        target: "module:name".
        settings: further arguments by name.
        device, batch: passed if the function has parameters of these names.

    Raises:
        ConfigError: the function does not exist, or it fails.
    """
    function = load(target)
    if not callable(function):
        raise ConfigError(
            f"{target} is {type(function).__name__}: must be a function that returns what is to be "
            "called"
        )
    try:
        takes = set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        takes = set()
    where = choose_device(device)
    base = dict(settings)
    base |= {"device": where} if "device" in takes else {}
    base |= {"batch": batch} if "batch" in takes and batch is not None else {}

    first = run_user_code(
        target,
        "cannot be called (its arguments: --set NAME=VALUE; for an env: --env.NAME VALUE)",
        lambda: function(**base),
    )
    if hasattr(first, "reset") and hasattr(first, "step"):
        getattr(first, "close", lambda: None)()
        return None

    def make(knobs: Knobs, **changes: Any) -> dict[str, Work]:
        more = {**knobs, **changes}
        arguments = {**base, **more}
        work = run_user_code(target, "fails", lambda: function(**arguments)) if more else first
        return {"call": work if callable(work) else functools.partial(function, **arguments)}

    fake = {"device": torch.device("cuda")} if "device" in takes else {}

    def fakes() -> dict[str, Callable[[], Work]]:
        return {"call": lambda: make({}, **fake)["call"]}

    def ablate(timing: Timing) -> dict[str, list[Entry]]:
        return {"call": ablation.ablation(make({})["call"], timing)}

    about = {
        "target": target,
        "mode": "call",
        **{key: str(value) for key, value in settings.items()},
    }
    return Subject(where, None, make, lambda: make({}), fakes, ablate, about)


# ---- policies ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a policy from an env.

    Attributes:
        obs: (rows, ...) or a dict of such arrays.
        masks: (rows, choices); None: all choices are allowed.
        count: number of rows.
    """

    obs: Any
    masks: np.ndarray | None
    count: int

    def repeat(self, batch: int) -> Rows:
        """Return `batch` rows, by repetition."""
        at = np.arange(batch) % self.count
        obs = (
            {key: part[at] for key, part in self.obs.items()}
            if isinstance(self.obs, dict)
            else self.obs[at]
        )
        return Rows(obs, None if self.masks is None else self.masks[at], batch)


def first_rows(run: RunSpec) -> dict[str, Rows]:
    """Return the rows of each policy at the first step of some envs."""
    config = run.config
    maker, seed = config.creator or config.target, config.train.seed
    with puffervec.make(
        maker, env_kwargs=config.env, backend="serial", num_envs=ENVS, seed=seed
    ) as vec:
        obs, _ = vec.reset(seed=seed)
        groups, rows = vec.halves[0].groups, {}
        for name, own in run.rows.items():
            part = groups[own.group.name]
            count = len(part.masks)
            agents = {group.name: group.agents for group in vec.spec.groups}[own.group.name]
            at = np.arange(count) if own.agents is None else places(own.agents, agents, count)
            group_obs = obs if len(vec.spec.groups) == 1 else obs[own.group.name]
            group_obs = (
                {key: value[at] for key, value in group_obs.items()}
                if isinstance(group_obs, dict)
                else group_obs[at]
            )
            rows[name] = Rows(
                group_obs, None if part.action_masks is None else part.action_masks[at], len(at)
            )
    return rows


@dataclasses.dataclass(frozen=True)
class PolicyCall:
    """A policy with the arguments of its calls.

    Attributes:
        policy: the module.
        rows: which rows of the env the policy acts for.
        batch: the values of such rows.
        device: device on which it runs.
        seed: seed of the noise.
    """

    policy: nn.Module
    rows: PolicyRows
    batch: Rows
    device: torch.device
    seed: int

    def model(self) -> Work:
        """Return the work of the network alone."""
        obs, state, reset, allowed = self._inputs()

        @torch.no_grad()
        @one_torch_thread()
        def work() -> Any:
            heads, value, _ = forward(self.policy, obs, state, reset, allowed)
            return heads, value

        return work

    def whole(self) -> Work:
        """Return the work from the env's rows to its actions."""
        actor, rows = (
            RowActor(self.policy, self.rows.group, self.device),
            np.arange(self.batch.count),
        )
        generator, idle = torch.Generator(self.device), np.zeros(self.batch.count, bool)

        def work() -> np.ndarray:
            generator.manual_seed(self.seed)
            if actor.remembers:
                actor.forget(rows)
            return actor.act(self.batch.obs, rows, idle, self.batch.masks, False, generator)

        return work

    def step(self) -> Work:
        """Return the work of the network and of drawing actions, as in a rollout on a device."""
        obs, state, reset, allowed = self._inputs()
        spec, count = ActionSpec.of(self.rows.group, self.rows.section.joint), self.batch.count

        @torch.no_grad()
        def work() -> tuple[Tensor, Tensor]:
            heads, _, _ = forward(self.policy, obs, state, reset, allowed)
            return sample(spec, heads, draw_noise(spec, count, self.device, None))

        return work

    def fake(self) -> Callable[[], Work]:
        """Return a function that makes the same step within `fake_cuda`, once."""
        copied, device = copy.deepcopy(self.policy).requires_grad_(False), torch.device("cuda")

        def make() -> Work:
            return dataclasses.replace(
                self, policy=copied.to_empty(device=device), device=device
            ).step()

        return make

    def ablate(self, timing: Timing) -> list[Entry]:
        """Run the network in all modes, also with planned memory."""
        obs, *others = self._inputs()
        args = (policy_input(obs), *others)
        plans = (
            doors.door("plan", "--ablation").planned_calls(self.policy, args)
            if "plan" in doors.names()
            else {}
        )
        with torch.no_grad(), one_torch_thread():
            return ablation.ablation(
                functools.partial(self.policy, *args), timing, {**ablation.MODES, **plans}
            )

    def _inputs(self) -> tuple[Observations, tuple[Tensor, ...], Tensor, Tensor | None]:
        cpu = RowActor(self.policy, self.rows.group, torch.device("cpu"))
        tensors = cpu.tensors(self.batch.obs, np.arange(self.batch.count))
        masks = None if self.batch.masks is None else torch.tensor(self.batch.masks)
        reset = torch.ones(self.batch.count, dtype=torch.bool, device=self.device)
        first = self.policy.initial_state(self.batch.count)  # type: ignore[operator]
        state = tuple(part.to(self.device) for part in first)
        obs = {key: part.to(self.device) for key, part in tensors.items()}
        return obs, state, reset, None if masks is None else masks.to(self.device)


def env_subject(config: TrainConfig, mode: str, batch: int | None) -> Subject:
    """Return a subject for the policies of a config, with new weights. Raises: ConfigError."""
    run = RunSpec.of(config, choose_device(config.train.device))

    def build(section: Mapping[str, PolicyRows]) -> dict[str, nn.Module]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)
            return {name: own.build().eval() for name, own in section.items()}

    def with_layers(layers: int) -> dict[str, nn.Module]:
        deeper = {}
        for name, own in run.rows.items():
            policy = dataclasses.replace(own.section, hidden=own.section.hidden[:1] * layers)
            deeper[name] = dataclasses.replace(
                own, settings=dataclasses.replace(own.settings, policy=policy)
            )
        return build(deeper)

    return _policy_subject(run, build(run.rows), mode, batch, with_layers)


def run_subject(
    run: str,
    mode: str,
    batch: int | None,
    device: str,
    code: tuple[str | None, ...],
    note: Callable[[str], None],
) -> Subject:
    """Return a subject for the policies of a run. Args: code: see `load_policies`.

    Raises: ConfigError, CheckpointError.
    """
    if run in kinds():
        raise ConfigError(
            f"{run} is a kind of policy: use an env that it acts in, as in tag_grid "
            f"--policy.kind {run}"
        )
    where = choose_device(device)
    _, (loaded, policies) = read_newest(
        run, Path("runs"), lambda path: load_policies(path, where, code), note
    )
    loaded = loaded.with_config(loaded.config.with_values("train", device=str(where)))
    return _policy_subject(loaded, policies, mode, batch, None)


def _policy_subject(
    run: RunSpec,
    policies: Mapping[str, nn.Module],
    mode: str,
    batch: int | None,
    with_layers: Callable[[int], dict[str, nn.Module]] | None,
) -> Subject:
    config, device, rows, batches = run.config, run.device, run.rows, first_rows(run)
    size = batch or BATCH

    def calls(knobs: Knobs) -> dict[str, PolicyCall]:
        deeper = with_layers is not None and "layers" in knobs
        nets = with_layers(knobs["layers"]) if with_layers is not None and deeper else policies
        count = knobs.get("batch", knobs.get("agents", size))
        return {
            name: PolicyCall(
                nets[name].to(device), own, batches[name].repeat(count), device, config.train.seed
            )
            for name, own in rows.items()
        }

    def make(knobs: Knobs) -> dict[str, Work]:
        return {
            name: one.model() if mode == "model" else one.whole()
            for name, one in calls(knobs).items()
        }

    parameters = sum(p.numel() for policy in policies.values() for p in policy.parameters())
    about = {"target": config.target, "mode": mode, "batch": size, "parameters": parameters}
    knobs = ("batch", "agents", *(("layers",) if with_layers is not None else ()))
    plain = calls({})
    return Subject(
        device,
        knobs,
        make,
        lambda: {name: one.step() for name, one in plain.items()},
        lambda: {name: one.fake() for name, one in plain.items()},
        lambda timing: {name: one.ablate(timing) for name, one in plain.items()},
        about,
    )


# ---- the trainer's loop --------------------------------------------------------------------------


def parts_of(trainer: Trainer) -> Iterator[tuple[Any, str, str]]:
    """Yield (owner, method, name) of every phase of a trainer."""
    for method in ("recv", "send"):
        yield trainer.vec, method, method
    parts: list[Any] = [*trainer.collector.rollout.turns, *trainer.learner.updaters.values()]
    for owner in parts:
        for name, method in owner.PHASES.items():
            yield owner, method, name


def profile_loop(config: TrainConfig, timing: Timing, signals: StopSignals) -> list[Latency]:
    """Train in a temporary folder and return `phases`.

    Raises:
        ConfigError, SceneError: bad input.
        Stopped: a signal came first.
    """
    limits = {"total_timesteps": FOR_EVER, "time_limit_s": 0.0, "final_eval": False}
    config = config.merged(
        {"train": limits, "log": {"dashboard": "off", "checkpoint_interval_s": 1e9}}
    )
    with tempfile.TemporaryDirectory(prefix="puffer-train-") as folder:
        make = functools.partial(Trainer, config, folder=Path(folder), dashboard=Dashboard())
        with signals.start(make) as trainer, signals.training(trainer):
            return phases(trainer, timing)


def phases(trainer: Trainer, timing: Timing | None = None, **changes: Any) -> list[Latency]:
    """Continue a training run; return the times of iterations (rollout and update) and of phases.

    The phases are methods of the trainer's parts, which are replaced by timed ones meanwhile. On a
    GPU each phase waits for the device, so the halves do not overlap, and an iteration takes longer
    than in training.

    Args:
        trainer: trainer whose run is continued.
        timing: iterations and warm-up are those of the loop; None: 20 and 5.
        changes: fields of Timing to change.

    Raises:
        Stopped: the trainer was asked to stop.
    """
    timing = dataclasses.replace(timing or Timing(*LOOPS), **changes)
    timing.check()
    walls = []
    for _ in range(timing.warmup):
        _iterate(trainer)
    with _watching(trainer, Meter(trainer.device, timing.now)) as meter:
        for _ in range(timing.iterations):
            begin = timing.now()
            with meter.range(ITERATION):
                _iterate(trainer)
            walls.append((timing.now() - begin) * MS)
    if timing.marks is not no_marks:
        # Use the clock for a CPU, which does not wait for the device.
        with (
            timing.window(),
            _watching(trainer, Meter("cpu", timing.now, timing.marks)) as recorder,
        ):
            for _ in range(timing.iterations):
                with recorder.range(ITERATION):
                    _iterate(trainer)
    return _in_order(walls, meter)


@contextlib.contextmanager
def _watching(trainer: Trainer, meter: Meter) -> Iterator[Meter]:
    with meter:
        for owner, method, name in parts_of(trainer):
            meter.watch(owner, method, name)
        yield meter


def _in_order(walls: Sequence[float], meter: Meter) -> list[Latency]:
    """Return whole iterations, the phases in the order of a turn and an update, and the rest."""
    by_name = {one.name: one for one in meter.latencies()}
    rest = dataclasses.replace(by_name.pop(ITERATION), name=f"rest of {ITERATION}")
    in_order = sorted(by_name.values(), key=lambda one: PHASES.index(one.name))
    return [Latency(ITERATION, tuple(walls)), *in_order, rest]


def _iterate(trainer: Trainer) -> None:
    if not trainer.collect():
        raise Stopped
    trainer.update()


def with_knob(config: TrainConfig, knob: str, value: int) -> TrainConfig:
    """Return a run's config with one knob changed. Raises: ConfigError: the knob is unknown."""
    if knob == "horizon":
        return config.merged({"train": {"horizon": value}})
    if knob == "layers":
        return config.merged({"policy": {"hidden": config.policy.hidden[:1] * value}})
    if knob == "envs":
        return config.merged({"vec": {"num_envs": value}})
    if knob in ("agents", "batch"):
        agents = env_spec(config).agents
        buffers = config.vec.resolved(config.python).num_buffers
        rows = value * (int(buffers) if knob == "batch" else 1)
        if rows % agents:
            raise ConfigError(
                f"--sweep {knob}={value}: an env has {agents} agents: use multiples of {agents}"
            )
        return config.merged({"vec": {"num_envs": rows // agents}})
    raise ConfigError(
        f"--sweep {knob}: a loop has horizon, agents, envs, batch (rows of a half) and layers"
    )
