# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a run on a CPU decides by measuring, before it begins: precision, and who steps the envs.

    precision    updates of one microbatch of the run's own policy in float32 and in bf16, in turn, about 50 ms
    vec          roll-outs with the run's own envs and policy: stepped in this process, by threads (C envs), by processes

Only what is auto is measured, and only if the run is so long that it takes no more than a hundredth
of it. What was chosen is in the config that comes back, and so in config.json and in every
checkpoint: a resumed run, or another one with that config, does not measure again. Who steps the
envs does not change what they do, but the number of buffers changes the order in which actions are
drawn, and the precision changes the last bits: for runs that are the same to the byte say both in
the settings. Runs in the learner, which is as it was before when this is done.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from puffervec.core.spec import EnvSpec
from puffervec.train.collect.rollout import Rollout
from puffervec.train.collect.storage import Slot, Storage, storage_of
from puffervec.train.config.sections import TrainConfig, VecSection
from puffervec.train.device.device import (
    ThreadPool,
    cpu_has_bf16,
    one_torch_thread,
    usable_cores,
    use_bf16,
)
from puffervec.train.learn.updater import Updater
from puffervec.train.policies.mapping import PolicyRows, policy_rows

SHARE = 0.01  # Of the run's time that measuring may take.
MOST_S, LEAST_S = (
    1.0,
    0.5,
)  # Seconds to measure in; a run that allows less than LEAST_S is not measured.
# No run is expected to be faster, in agent-steps/s: what its total_timesteps are in seconds.
FASTEST = {"C": 1_000_000, "Python": 20_000}
MOST_CORES = 2  # With more of them there is one for the policy beside the workers.
PRECISION_S = 0.05
ROUNDS = 3  # At least so many samples of each variant.
MOST_STEPS = 32  # Of a measured roll-out.
SPLIT_ENVS = (
    "processes, split by envs"  # Tried last, where there is time for more workers to start.
)
GAIN = 1.1  # So much faster must be what is not the default, or noise would decide.

Clock = Callable[[], float]
MakeVec = Callable[[TrainConfig], Any]


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A run's settings without what startup.py decides. lines: what was measured, for people;
    measured: for run.json.
    """

    config: TrainConfig
    lines: tuple[str, ...] = ()
    measured: dict[str, Any] = dataclasses.field(default_factory=dict)


def choose(
    config: TrainConfig,
    spec: EnvSpec,
    device: torch.device,
    make_vec: MakeVec,
    policies: Mapping[str, nn.Module] | None = None,
    resumed: Mapping[str, Any] | None = None,
    measure: bool = True,
) -> Chosen:
    """Return the config with precision and vec decided. Blocks for up to about a second; starts and
    ends workers.

    Args:
        spec: of the env; make_vec: starts the vec env of a config.
        policies: by group name or `default`, where they are not those that the config describes;
        copies of them are used.
        measure: False: decide without (several ranks, which must all decide alike).
        resumed: the manifest that the run goes on from; what it says is kept (the precision: on the
            same kind of device).
    """
    if resumed is not None:
        config = _as_before(config, device, resumed)
    allowed_s = measuring_s(config) if device.type == "cpu" and measure else 0.0
    chosen = _Choice(config, spec, device, make_vec, policies or {}, allowed_s)
    with _undisturbed(config.train.seed):
        chosen.choose_precision()
        chosen.choose_vec()
    return Chosen(chosen.config, tuple(chosen.lines), chosen.measured)


def _as_before(
    config: TrainConfig, device: torch.device, manifest: Mapping[str, Any]
) -> TrainConfig:
    """Return the config with what is auto in it as it was: states of halves fit no other number of
    them.
    """
    numerics = manifest.get("numerics")
    if (
        config.train.precision == "auto"
        and isinstance(numerics, dict)
        and numerics.get("device") == device.type
    ):
        config = config.merged({"train": {"precision": "bf16" if numerics.get("bf16") else "fp32"}})
    if config.vec.num_buffers == "auto":
        wanted = (
            ("num_buffers", "backend", "split")
            if config.vec.backend == "auto"
            else ("num_buffers",)
        )
        before = manifest["config"].get("vec", {})
        config = config.merged({"vec": {name: before[name] for name in wanted if name in before}})
    return config


def measuring_s(config: TrainConfig) -> float:
    """Return the seconds that measuring may take: a hundredth of the shortest time that the run can
    last, at most MOST_S; 0 where that is too short to tell anything, and for a run that shall be
    deterministic.

    >>> measuring_s(TrainConfig.of("drive")), measuring_s(TrainConfig.of("probe", train={"time_limit_s": 20}))
    (1.0, 0.0)
    """
    section = config.train
    shortest_s = section.total_timesteps / FASTEST["Python" if config.python else "C"]
    if section.time_limit_s > 0:
        shortest_s = min(shortest_s, section.time_limit_s)
    allowed = 0.0 if section.deterministic else min(MOST_S, SHARE * shortest_s)
    return allowed if allowed >= LEAST_S else 0.0


@contextlib.contextmanager
def _undisturbed(seed: int) -> Iterator[None]:
    """Give the generators of this process back as they were: envs that are stepped here may draw
    from them.
    """
    before, numpy_before = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]), one_torch_thread():
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)


@dataclasses.dataclass
class _Choice:
    """What `choose` works on: a config that is less and less auto."""

    config: TrainConfig
    spec: EnvSpec
    device: torch.device
    make_vec: MakeVec
    policies: Mapping[str, nn.Module]
    allowed_s: float
    lines: list[str] = dataclasses.field(default_factory=list)
    measured: dict[str, Any] = dataclasses.field(default_factory=dict)

    def choose_precision(self) -> None:
        """Decide the precision."""
        if self.config.train.precision != "auto":
            return
        bf16, line = use_bf16("auto", self.device), ""
        if self.allowed_s and cpu_has_bf16():
            with contextlib.suppress(
                Exception
            ):  # A user's policy that wants other numbers than these: the run will say.
                fp32_s, bf16_s = self._seconds_of_an_update()
                bf16 = bf16_s * GAIN < fp32_s
                line = (
                    f"{1e3 * bf16_s:.2f} ms an update of a microbatch in bf16, {1e3 * fp32_s:.2f} "
                    "ms in fp32"
                )
                self.measured["precision"] = {"fp32_s": fp32_s, "bf16_s": bf16_s}
        precision = "bf16" if bf16 else "fp32"
        self.config = self.config.merged({"train": {"precision": precision}})
        if line:
            self.lines.append(f"precision: {precision} ({line})")

    def _seconds_of_an_update(self) -> tuple[float, float]:
        """In fp32 and in bf16."""
        name, rows = next(
            iter(policy_rows(self.spec, self.config).items())
        )  # The rows of other groups are alike.
        updates = {
            precision: _microbatch_update(
                self.config.vec.num_envs, rows, self.policies.get(name), bf16=precision == "bf16"
            )
            for precision in ("fp32", "bf16")
        }
        times = interleaved(updates, PRECISION_S)
        return statistics.median(times["fp32"]), statistics.median(times["bf16"])

    def choose_vec(self) -> None:
        """Decide who steps the envs; hosts decide for themselves."""
        if self.config.ray.address:
            return
        config, python = self.config, self.config.python
        default = dataclasses.replace(
            config.vec, num_buffers=config.vec.resolved(python).num_buffers
        )
        self.config = dataclasses.replace(config, vec=default)
        if (
            not self.allowed_s
            or usable_cores() > MOST_CORES
            or not to_be_chosen(config.vec, python)
        ):
            return
        tries = candidates(python, config.vec.split)
        try:
            slots = _slots(config, self.spec, self.policies)
            rates, workers = _measure_vecs(config, slots, self.make_vec, tries, self.allowed_s)
        # Envs that fail or cannot run in this process: the run itself will say, or not need it.
        except Exception as error:
            self.measured["vec"] = {"failed": f"{type(error).__name__}: {error}"}
            return
        if not rates:
            return
        first, best = next(iter(rates)), max(rates, key=rates.__getitem__)
        taken = best if rates[best] > GAIN * rates[first] else first
        self.config = config.merged({"vec": tries[taken]})
        self.lines.append(_vec_line(tries[taken], workers[taken], rates, taken))
        self.measured["vec"] = {"chosen": taken, "agent_steps_per_s": rates}


# ---- precision -----------------------------------------------------------------------------------


def _microbatch_update(
    num_envs: int, own: PolicyRows, given: nn.Module | None, bf16: bool
) -> Callable[[], object]:
    """Return what makes one update (forward, backward, optimizer) of a copy of the policy from rows
    of random numbers.
    """
    section = dataclasses.replace(
        own.settings.train, update_epochs=1, minibatch_size=0, compile="off"
    )
    cpu = torch.device("cpu")
    policy: Any = own.build() if given is None else copy.deepcopy(given)
    group, memory = own.group, policy.initial_state(1)
    horizon = section.horizon if memory else 1
    rows = max(
        1, min(section.microbatch_size, group.agents * num_envs * section.horizon) // horizon
    )
    storage = Storage(
        group, horizon, rows, cpu, torch.bfloat16 if bf16 else None, own.section.joint
    )
    storage.masks.fill_(1)
    for tensor in storage.obs.values():
        if tensor.is_floating_point():
            tensor.uniform_(-1, 1)
    if memory:
        storage.first_states[0] = policy.initial_state(rows)
    updater = Updater(
        policy,
        storage,
        section,
        1,
        bf16,
        torch.Generator().manual_seed(section.seed),
        ThreadPool(1),
    )
    return lambda: updater.update(0.0)


def interleaved(
    variants: Mapping[str, Callable[[], object]],
    seconds: float,
    rounds: int = ROUNDS,
    clock: Clock = time.perf_counter,
) -> dict[str, list[float]]:
    """Call the variants in turn until `seconds` are over, at least `rounds` times each after a
    first call that does not count; return the seconds of every call that does.
    """
    for call in variants.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in variants}
    end = clock() + seconds
    while clock() < end or any(len(found) < rounds for found in times.values()):
        for name, call in variants.items():
            begin = clock()
            call()
            times[name].append(clock() - begin)
    return times


# ---- vec -----------------------------------------------------------------------------------------


def to_be_chosen(vec: VecSection, python: bool) -> bool:
    """True where no setting says who steps the envs, and there is more than one good answer."""
    nothing_said = (vec.backend, vec.num_workers, vec.num_buffers) == (
        "auto",
    ) * 3 and not vec.batch_size
    return nothing_said and vec.resolved(python).backend == "multiprocessing"


def candidates(python: bool, split: str = "workers") -> dict[str, dict[str, Any]]:
    """Return the vec settings that are tried, the default first. Python's threads step one env at a
        time: they are not.

    Args: split: the run's; workers that each serve a part of both halves are tried beside those
        that serve one of them.
    """
    found = {
        "processes": {"backend": "multiprocessing", "num_buffers": 2},
        "in-process": {"backend": "serial", "num_buffers": 1},
        "threads": {"backend": "threading", "num_buffers": 2},
        SPLIT_ENVS: {"backend": "multiprocessing", "num_buffers": 2, "split": "envs"},
    }
    left_out = {*(["threads"] if python else []), *([SPLIT_ENVS] if split == "envs" else [])}
    return {name: tables for name, tables in found.items() if name not in left_out}


def _vec_line(
    tables: Mapping[str, Any], workers: int, rates: Mapping[str, float], taken: str
) -> str:
    who = {
        "serial": "in-process",
        "threading": f"{workers} threads",
        "multiprocessing": f"{workers} workers",
    }[tables["backend"]]
    rest = ", ".join(f"{name} {_short(rate)}" for name, rate in rates.items() if name != taken)
    buffers = f"{tables['num_buffers']} buffer{'s' if tables['num_buffers'] > 1 else ''}"
    buffers += ", split by envs" if tables.get("split") == "envs" else ""
    return f"vec: {who}, {buffers} ({_short(rates[taken])} agent-steps/s while collecting; {rest})"


def _short(rate: float) -> str:
    """31k, 1.2M."""
    return (
        f"{rate / 1e6:.1f}M"
        if rate >= 1e6
        else f"{rate / 1e3:.0f}k"
        if rate >= 1e4
        else f"{rate:,.0f}"
    )


def _measure_vecs(
    config: TrainConfig,
    slots: dict[str, Slot],
    make_vec: MakeVec,
    tries: Mapping[str, Mapping[str, Any]],
    allowed_s: float,
) -> tuple[dict[str, float], dict[str, int]]:
    """Return agent-steps/s and workers of each candidate; nothing where making the envs in this
    process takes too long.

    Worker processes are started in any case: the start of the default's does not count. SPLIT_ENVS
    is left out where half of the time is over by then.
    """
    begin, default = time.perf_counter(), next(iter(tries))
    rollouts: dict[str, Rollout] = {}
    with contextlib.ExitStack() as stack:
        pool = ThreadPool(config.train.threads or usable_cores())
        stack.callback(pool.close)
        last = [default, *({SPLIT_ENVS} & tries.keys())]
        for name in [*(name for name in tries if name not in last), *last]:
            since_s = time.perf_counter() - begin
            if since_s > allowed_s / 2:
                if name == SPLIT_ENVS:
                    break
                return {}, {}
            spent_s = since_s
            vec = stack.enter_context(make_vec(config.merged({"vec": dict(tries[name])})))
            bf16, generator = (
                config.train.precision == "bf16",
                torch.Generator().manual_seed(config.train.seed),
            )
            rollouts[name] = Rollout(vec, slots, torch.device("cpu"), bf16, generator, pool)
            rollouts[name].begin(config.train.seed)
            speed(rollouts[name], 0.0)  # The first turn is slower than the others.
        slice_s = (allowed_s - spent_s) / (ROUNDS * len(rollouts))
        found: dict[str, list[float]] = {name: [] for name in tries if name in rollouts}
        for _ in range(ROUNDS):
            for name, rollout in rollouts.items():
                found[name].append(speed(rollout, slice_s))
        workers = {name: rollout.vec.num_workers for name, rollout in rollouts.items()}
    return {name: statistics.median(rates) for name, rates in found.items()}, workers


def speed(rollout: Rollout, seconds: float, clock: Clock = time.perf_counter) -> float:
    """Return the agent-steps/s of collecting for about so many seconds: at least one turn, at most
    one roll-out.

    It is stopped inside of the roll-out, with all halves under way, as they are most of the time.
    """
    halves = len(rollout.turns)
    turns = 0
    begin = clock()

    def stop() -> bool:
        nonlocal turns
        turns += 1
        return turns > halves and clock() >= begin + seconds

    whole = rollout.collect(stop)
    taken_s = max(1e-9, clock() - begin)
    steps = (turns if whole else turns - 1) / halves
    # Filler rows stay what they are for an episode, so the first step tells.
    return (
        sum(int(slot.storage.valid()[0].sum()) for slot in rollout.slots.values()) * steps / taken_s
    )


def _slots(
    config: TrainConfig, spec: EnvSpec, policies: Mapping[str, nn.Module]
) -> dict[str, Slot]:
    bf16, cpu, slots = config.train.precision == "bf16", torch.device("cpu"), {}
    for name, rows in policy_rows(spec, config).items():
        policy = copy.deepcopy(policies[name]) if name in policies else rows.build()
        storage = storage_of(
            rows, config.vec.num_envs, min(config.train.horizon, MOST_STEPS), cpu, bf16
        )
        slots[name] = Slot(name, policy, rows.group, storage, rows.agents)
    return slots
