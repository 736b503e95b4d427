# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Measurements before a run on a CPU that choose the precision and the vec backend.

    precision    updates of one microbatch with the run's own policy, alternately in float32 and
                 bf16, for about 50 ms
    vec          rollouts with the run's own envs and policy: stepped in this process, by threads
                 (C envs), by processes

Only settings that are `auto` are measured, and only if that takes no more than a hundredth of the
run. The choice is part of the returned config, and so of config.json and of every checkpoint: a
resumed run, or another run with that config, does not measure again. The backend does not change
what the envs do, but the number of buffers changes the order in which actions are drawn, and the
precision changes the last bits: set both explicitly for byte-identical runs. Runs in the learner,
whose state is restored afterwards.
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

from puffervec.system.cores import usable_cores
from puffervec.train.collect.rollout import Rollout
from puffervec.train.collect.storage import Slot, Storage, storage_of
from puffervec.train.config.sections import TrainConfig, VecSection
from puffervec.train.device.device import (
    ThreadPool,
    cpu_has_bf16,
    one_torch_thread,
    use_bf16,
)
from puffervec.train.learn.updater import Updater
from puffervec.train.policies.mapping import PolicyRows
from puffervec.train.policies.run_spec import RunSpec

SHARE = 0.01  # share of the run's time that measuring may take
# Seconds for measuring; a run that allows less than LEAST_S is not measured.
MOST_S, LEAST_S = (1.0, 0.5)
# Upper bounds of the speed in agent-steps/s, to estimate the shortest duration of a run from its
# total_timesteps.
FASTEST = {"C": 1_000_000, "Python": 20_000}
MOST_CORES = 2  # With more cores, one is left for the policy in addition to the workers.
PRECISION_S = 0.05
ROUNDS = 3  # least number of samples of each variant
MOST_STEPS = 32  # of a measured rollout
GAIN = 1.1  # least speed-up over the default, so that noise does not decide

MakeVec = Callable[[TrainConfig], Any]


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The settings of a run after all choices are made.

    Attributes:
        run: the run without `auto` in the settings that are chosen here.
        lines: the measurements as text for the user.
        measured: the measurements for run.json.
    """

    run: RunSpec
    lines: tuple[str, ...] = ()
    measured: dict[str, Any] = dataclasses.field(default_factory=dict)


def choose(
    run: RunSpec,
    make_vec: MakeVec,
    policies: Mapping[str, nn.Module] | None = None,
    measure: bool = True,
) -> Chosen:
    """Choose precision and vec settings, and return the run with them.

    Blocks for up to about a second; starts and stops workers.

    Args:
        run: the run.
        make_vec: starts the vec env of a config.
        policies: policies by group name or `default`, if they differ from those that the config
            describes; copies of them are used.
        measure: if False, choose without measuring (several ranks must all choose alike).
    """
    allowed_s = measuring_s(run.config) if run.device.type == "cpu" and measure else 0.0
    few_cores = (
        run.device.type == "cpu"
        and usable_cores() <= MOST_CORES
        and measure
        and not run.config.train.deterministic
    )
    chosen = _Choice(run, make_vec, policies or {}, allowed_s, few_cores)
    with _undisturbed(run.config.train.seed):
        chosen.choose_precision()
        chosen.choose_vec()
    return Chosen(chosen.run, tuple(chosen.lines), chosen.measured)


def measuring_s(config: TrainConfig) -> float:
    """Return the seconds that measuring may take.

    This is a hundredth of the shortest time that the run can last, at most MOST_S. It is 0 if that
    is too short for a measurement, and for a deterministic run.

    >>> measuring_s(TrainConfig.of("drive"))
    1.0
    >>> measuring_s(TrainConfig.of("probe", train={"time_limit_s": 20}))
    0.0
    """
    section = config.train
    shortest_s = section.total_timesteps / FASTEST["Python" if config.python else "C"]
    if section.time_limit_s > 0:
        shortest_s = min(shortest_s, section.time_limit_s)
    allowed = 0.0 if section.deterministic else min(MOST_S, SHARE * shortest_s)
    return allowed if allowed >= LEAST_S else 0.0


@contextlib.contextmanager
def _undisturbed(seed: int) -> Iterator[None]:
    """Restore the random generators of this process after the block.

    Envs that are stepped in this process may draw from them.
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
    """The working state of `choose`; each step replaces some `auto` in the config of `run`.

    Attributes:
        allowed_s: seconds that measuring may take.
        few_cores: whether the policy shares its cores with the workers, and the choice may depend
            on this machine.
    """

    run: RunSpec
    make_vec: MakeVec
    policies: Mapping[str, nn.Module]
    allowed_s: float
    few_cores: bool
    lines: list[str] = dataclasses.field(default_factory=list)
    measured: dict[str, Any] = dataclasses.field(default_factory=dict)

    def choose_precision(self) -> None:
        """Choose the precision."""
        if self.run.config.train.precision != "auto":
            return
        bf16, line = use_bf16("auto", self.run.device), ""
        if self.allowed_s and cpu_has_bf16():
            # A custom policy may fail on random numbers; the run itself reports real errors.
            with contextlib.suppress(Exception):
                fp32_s, bf16_s = self._seconds_of_an_update()
                bf16 = bf16_s * GAIN < fp32_s
                line = (
                    f"{1e3 * bf16_s:.2f} ms an update of a microbatch in bf16, {1e3 * fp32_s:.2f} "
                    "ms in fp32"
                )
                self.measured["precision"] = {"fp32_s": fp32_s, "bf16_s": bf16_s}
        precision = "bf16" if bf16 else "fp32"
        self.run = self.run.with_config(self.run.config.with_values("train", precision=precision))
        if line:
            self.lines.append(f"precision: {precision} ({line})")

    def _seconds_of_an_update(self) -> tuple[float, float]:
        """Return the median seconds of an update in fp32 and in bf16."""
        # One policy is enough: the rows of other groups are alike.
        name, rows = next(iter(self.run.rows.items()))
        updates = {
            precision: _microbatch_update(
                self.run.config.vec.num_envs,
                rows,
                self.policies.get(name),
                bf16=precision == "bf16",
            )
            for precision in ("fp32", "bf16")
        }
        times = interleaved(updates, PRECISION_S)
        return statistics.median(times["fp32"]), statistics.median(times["bf16"])

    def choose_vec(self) -> None:
        """Choose the vec backend; with `ray.address` each host chooses its own."""
        config = self.run.config
        if config.ray.address:
            return
        python = config.python
        tries = candidates(python)
        to_choose = self.few_cores and to_be_chosen(config.vec, python)
        buffers = config.vec.resolved(python).num_buffers
        if to_choose:
            buffers = next(iter(tries.values()))["num_buffers"]
        default = dataclasses.replace(config.vec, num_buffers=buffers)
        self.run = self.run.with_config(dataclasses.replace(config, vec=default))
        if not (to_choose and self.allowed_s):
            return
        try:
            slots = _slots(self.run, self.policies)
            rates, workers = _measure_vecs(config, slots, self.make_vec, tries, self.allowed_s)
        # Envs may fail or be unable to run in this process: the run itself reports real errors.
        except Exception as error:
            self.measured["vec"] = {"failed": f"{type(error).__name__}: {error}"}
            return
        if not rates:
            return
        first, best = next(iter(rates)), max(rates, key=rates.__getitem__)
        taken = best if rates[best] > GAIN * rates[first] else first
        self.run = self.run.with_config(config.with_values("vec", **tries[taken]))
        self.lines.append(_vec_line(tries[taken], workers[taken], rates, taken))
        self.measured["vec"] = {"chosen": taken, "agent_steps_per_s": rates}


# ---- precision -----------------------------------------------------------------------------------


def _microbatch_update(
    num_envs: int, own: PolicyRows, given: nn.Module | None, bf16: bool
) -> Callable[[], object]:
    """Return a function that updates a copy of the policy once from rows of random numbers.

    An update is forward, backward and optimizer step.
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
    variants: Mapping[str, Callable[[], object]], seconds: float
) -> dict[str, list[float]]:
    """Call the variants alternately for `seconds` and return the duration of each call.

    Each variant is called at least ROUNDS times, after a first call that does not count.
    """
    for call in variants.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in variants}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or any(len(found) < ROUNDS for found in times.values()):
        for name, call in variants.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return times


# ---- vec -----------------------------------------------------------------------------------------


def to_be_chosen(vec: VecSection, python: bool) -> bool:
    """Return True if the settings leave the backend open and there is more than one candidate."""
    nothing_said = (vec.backend, vec.num_workers, vec.num_buffers) == (
        "auto",
    ) * 3 and not vec.batch_size
    return nothing_said and vec.resolved(python).backend == "multiprocessing"


def candidates(python: bool) -> dict[str, dict[str, Any]]:
    """Return the vec settings to try on few cores, the default first.

    Python envs get one buffer: their workers have few rows, so a forward pass for half of the rows
    takes nearly as long as one for all, and no core is free to step envs meanwhile. They are not
    tried with threads, which could only step one Python env at a time.

    Args:
        python: whether the env is a Python env.
    """
    found: dict[str, dict[str, Any]] = {
        "processes": {"backend": "multiprocessing", "num_buffers": 1 if python else 2},
        "in-process": {"backend": "serial", "num_buffers": 1},
        "threads": {"backend": "threading", "num_buffers": 2},
    }
    return {name: tables for name, tables in found.items() if name != "threads" or not python}


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
    return f"vec: {who}, {buffers} ({_short(rates[taken])} agent-steps/s while collecting; {rest})"


def _short(rate: float) -> str:
    """Return a rate as a short text such as 31k or 1.2M."""
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
    """Return agent-steps/s and number of workers of each candidate.

    Both are empty if creating the envs takes more than half of the allowed time. The start
    of the default's worker processes does not count against the time, because the run needs them
    anyway.
    """
    begin, default = time.perf_counter(), next(iter(tries))
    rollouts: dict[str, Rollout] = {}
    with contextlib.ExitStack() as stack:
        pool = ThreadPool(config.train.threads or usable_cores())
        stack.callback(pool.close)
        for name in [*(name for name in tries if name != default), default]:
            spent_s = time.perf_counter() - begin
            if spent_s > allowed_s / 2:
                return {}, {}
            vec = stack.enter_context(make_vec(config.with_values("vec", **tries[name])))
            bf16, generator = (
                config.train.precision == "bf16",
                torch.Generator().manual_seed(config.train.seed),
            )
            rollouts[name] = Rollout(vec, slots, torch.device("cpu"), bf16, generator, pool)
            rollouts[name].begin(config.train.seed)
            speed(rollouts[name], 0.0)  # Warm up: the first turn is slower than the others.
        slice_s = (allowed_s - spent_s) / (ROUNDS * len(rollouts))
        found: dict[str, list[float]] = {name: [] for name in tries}
        for _ in range(ROUNDS):
            for name, rollout in rollouts.items():
                found[name].append(speed(rollout, slice_s))
        workers = {name: rollout.vec.num_workers for name, rollout in rollouts.items()}
    return {name: statistics.median(rates) for name, rates in found.items()}, workers


def speed(
    rollout: Rollout, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Measure the agent-steps/s of collecting for about `seconds`.

    It collects at least one turn per half and at most one rollout. It stops inside a rollout, while
    the turns of all halves are under way, as they are most of the time.
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
    # Which rows are filler does not change within an episode, so the first step is enough.
    return (
        sum(int(slot.storage.valid()[0].sum()) for slot in rollout.slots.values()) * steps / taken_s
    )


def _slots(run: RunSpec, policies: Mapping[str, nn.Module]) -> dict[str, Slot]:
    config = run.config
    bf16, cpu, slots = config.train.precision == "bf16", torch.device("cpu"), {}
    for name, rows in run.rows.items():
        policy = copy.deepcopy(policies[name]) if name in policies else rows.build()
        storage = storage_of(
            rows, config.vec.num_envs, min(config.train.horizon, MOST_STEPS), cpu, bf16
        )
        slots[name] = Slot(name, policy, rows.group, storage, rows.agents)
    return slots
