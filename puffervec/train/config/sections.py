# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""All settings of a training run, as frozen dataclasses with one sentence per field.

The same dataclasses give the command-line flags (`--train.lr`), the tables of a `--config` TOML
file, the config kept in a checkpoint's manifest and the help text, so these four cannot disagree.
Runs in the learner; imports no torch, so that the command line can refuse bad input before torch is
loaded.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
import numbers
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from puffervec.contract.native import renamed
from puffervec.errors import ConfigError
from puffervec.train.config import algorithms, schedules
from puffervec.train.config import target as targets
from puffervec.train.config.checks import at_least, positive
from puffervec.train.config.hosts import RaySection
from puffervec.train.config.schedules import Schedule

Table = Mapping[str, Any]
# Python envs; below, a turn of a worker process costs about as much as it saves.
FEWEST_FOR_WORKERS = 8
LONGEST_SHOWN = 200
SEEDS = 2**62  # Ranks and resumed runs add to it, and torch takes 64 bits.
MOST_LAYERS = 16  # Of memory; a checkpoint may name any number.
MOST_BLOCKS = 256  # Of a stage of a ConvNeXt.
MOST_WIDTHS, WIDEST = 64, 2**20  # Of a network, likewise.
SECTIONS = ("env", "vec", "train", "policy", "policies", "ray", "log")
# Settings of train that all policies of a run share; the others may stand in [policies.NAME] too.
OF_THE_RUN = frozenset(
    (
        "seed",
        "device",
        "total_timesteps",
        "time_limit_s",
        "horizon",
        "minibatch_size",
        "asynchronous",
        "precision",
    )
    + ("deterministic", "threads", "rank_timeout_s", "tensor_parallel", "final_eval")
)


@dataclasses.dataclass(frozen=True)
class VecSection:
    """How the envs are run; autoreset is always next-step.

    Under torchrun each rank runs this many.
    """

    backend: Literal["auto", "multiprocessing", "threading", "serial"] = "auto"
    """Who steps the envs; auto: multiprocessing, but fewer than 8 Python envs are stepped serially
    and in one batch, unless workers, buffers or a batch size are asked for.
    """
    num_envs: int = 16  # Envs over all halves; of each rank under torchrun.
    num_workers: int | Literal["auto"] = "auto"
    """Worker processes or threads; auto follows the usable cores."""
    num_buffers: int | Literal["auto"] = "auto"
    """2: one half simulates while the policy works on the other; 1: in turn; auto: 2. On a CPU of
    up to 2 cores backend, num_workers and num_buffers, where all are auto, and split are chosen by
    a start-up measurement of up to a second.
    """
    batch_size: int = 0
    """Envs that the policy sees at once, num_envs / batch_size batches in turn; 0: num_envs /
    num_buffers."""
    split: Literal["workers", "envs"] = "workers"
    """What two buffers halve: the workers, or the envs of each worker."""
    timeout_s: float = 60.0
    """Longest wait for a worker: one that takes longer for a step is taken for hung, and the run
    ends."""

    def resolved(self, python: bool) -> VecSection:
        """Return the section with `backend` and `num_buffers` resolved.

        Args:
            python: whether the envs are written in Python.
        """
        asked = self.num_workers != "auto" or self.num_buffers not in ("auto", 1) or self.batch_size
        if self.backend == "auto" and python and self.num_envs < FEWEST_FOR_WORKERS and not asked:
            return dataclasses.replace(self, backend="serial", num_buffers=1)
        backend = "multiprocessing" if self.backend == "auto" else self.backend
        buffers = 2 if self.num_buffers == "auto" else self.num_buffers
        return dataclasses.replace(self, backend=backend, num_buffers=buffers)


@dataclasses.dataclass(frozen=True)
class TrainSection:
    """The run and what all algorithms share; each has a section derived from this one."""

    usual_minibatches: ClassVar[int] = 8  # Of an epoch, where minibatch_size is 0.
    algorithm: str = algorithms.DEFAULT
    """What updates improve the policy by: ppo, or one of an installed package, or your own as
        module:NAME.
    """
    seed: int = 1  # Of envs, policy weights, sampling and shuffling.
    device: str = "auto"  # auto, cpu, cuda or cuda:N; auto takes CUDA where there is one.
    total_timesteps: int = 10_000_000  # Agent-steps, of all ranks, after which the run ends.
    time_limit_s: float = 0.0
    """Seconds after which the run ends; 0: no limit. The learning rate follows whichever comes
    first."""
    horizon: int = 64  # T: steps per env between two updates.
    minibatch_size: int = 0
    """Samples per gradient step, filler counted; divides rows x horizon; 0: an eighth of them, a2c:
    all. Of each rank: with N ranks a gradient step is made of N times as many.
    """
    microbatch_size: int = 1024
    """Samples per backward pass on a CPU (what the caches hold); CUDA takes whole minibatches."""
    update_epochs: int = 2  # Passes over each rollout.
    optimizer: Literal["adam", "muon"] = "adam"  # muon: for matrices, with Adam for all else.
    lr: Schedule = 1e-3
    """Step size: a number, or points [[agent-steps, lr], ...] joined by straight lines."""
    anneal_lr: bool = True
    """Let the step size fall to a tenth of lr, linearly over the run; points are taken as they
    are."""
    adam_eps: float = 1e-8  # Adam's denominator floor.
    gamma: float = 0.98  # Discount per step.
    gae_lambda: float = 0.95  # 0: one-step advantages; 1: whole returns.
    normalize_advantage: bool = True
    """Give the advantages of each minibatch mean 0 and standard deviation 1."""
    vtrace: bool = False
    """Correct the advantages for what the policy has changed since the rollout, in every epoch
    (IMPALA)."""
    vtrace_rho: float = 1.0
    """vtrace: bound on the ratio of probabilities that weighs a step's own error."""
    vtrace_c: float = 1.0
    """vtrace: bound on the ratio that weighs what a step takes over from the next."""
    asynchronous: bool = False
    """Collect the next rollout during the update, with the weights before it; implies vtrace."""
    value_coef: float = 1.0  # Weight of the value loss.
    entropy_coef: Schedule = 0.01
    """Weight of the entropy bonus: a number, or points [[agent-steps, weight], ...]."""
    scale_rewards: bool = False  # Divide rewards by the root mean square of discounted returns.
    max_grad_norm: float = 1.0  # Gradients are scaled down to this norm.
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 on CUDA, and on CPUs with bf16 instructions where a start-up measurement of 50 ms
    shows that it is faster; in runs too short to measure, wherever the instructions are.
    """
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the loss with torch.compile; auto: on CUDA, for policies without memory."""
    plan: Literal["eager", "arena", "compile", "cudagraph", "compile+cudagraph"] = "eager"
    """How policies run in rollouts and evaluations; eager: as they stand. arena: in planned
    memory, without allocations;
    compile: through torch.compile; with cudagraph (on CUDA, where rollouts are graphs in any mode)
        as a CUDA graph.
    """
    deterministic: bool = False
    """The same settings give the same bytes: nothing is decided by measuring at the start, the step
    size follows total_timesteps alone, and CUDA takes only kernels that add up in a fixed order,
    which are slower.
    """
    threads: int = 0
    """Threads that run the policy on a CPU; 0: all usable cores, or a rank's part of them."""
    rank_timeout_s: float = 600.0
    """Under torchrun: a rank that lets the others wait longer is taken for lost."""
    tensor_parallel: int = 1
    """Under torchrun: neighbouring ranks that share the columns of the pictures in an update, for
    policies with convolutions whose pictures are too large for one device. It changes no result;
    each rank collects with envs of its own as ever.
    """
    final_eval: bool = True  # Evaluate at the end where the env has an evaluation of its own.

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        at_least(
            "train",
            self,
            1,
            "total_timesteps",
            "horizon",
            "microbatch_size",
            "update_epochs",
            "tensor_parallel",
        )
        at_least(
            "train", self, 0, "seed", "minibatch_size", "time_limit_s", "value_coef", "threads"
        )
        positive(
            "train", self, "max_grad_norm", "adam_eps", "vtrace_rho", "vtrace_c", "rank_timeout_s"
        )
        schedules.check("train.lr", self.lr, zero=False)
        schedules.check("train.entropy_coef", self.entropy_coef, zero=True)
        if self.tensor_parallel > 1 and self.compile == "on":
            raise ConfigError(
                "train.compile is on: what ranks exchange cannot be compiled, set "
                "train.tensor_parallel to 1"
            )
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"train.{name} is {getattr(self, name)}: must be between 0 and 1")
        if not self.seed < SEEDS:
            raise ConfigError(f"train.seed is {self.seed}: must be below 2**62")

    def lr_at(self, agent_steps: int, used: float) -> float:
        """Return the learning rate after this many agent-steps.

        Args:
            agent_steps: of the run so far.
            used: share of the budget that is used, 0 to 1.
        """
        lr = schedules.value_at(self.lr, agent_steps)
        return lr * (1.0 - 0.9 * used) if self.anneal_lr and not isinstance(self.lr, tuple) else lr

    def of_algorithm(self, name: str) -> TrainSection:
        """Return the settings of another algorithm.

        Shared settings keep their values, except defaults of this algorithm for which the other
        has its own default: a preset was chosen without it.

        Raises: ConfigError: an unknown algorithm.
        """
        kind = algorithms.get(name).section
        taken = {field.name for field in dataclasses.fields(kind)} - own_defaults(name)
        both = [field for field in dataclasses.fields(self) if field.name in taken]
        kept = {
            field.name: value
            for field in both
            if (value := getattr(self, field.name)) != field.default
        }
        return typing.cast(
            TrainSection, replace_from_table(kind(), kept | {"algorithm": name}, "train")
        )


def own_defaults(algorithm: str) -> set[str]:
    """Return which settings of all algorithms have another default in this one.

    Raises: ConfigError for an unknown algorithm.
    """
    shared = {field.name: field.default for field in dataclasses.fields(TrainSection)}
    fields = dataclasses.fields(algorithms.get(algorithm).section)
    return {
        field.name for field in fields if field.default != shared.get(field.name, field.default)
    }


@dataclasses.dataclass(frozen=True)
class PolicySection:
    """The network."""

    kind: str = "auto"
    """auto: cnn where a row has a picture of bytes, object_set where a C env has sets of objects,
    else mlp. Or convnext, for pictures too; or your own nn.Module, as module:Class.
    """
    map: tuple[str, ...] = ()
    """Several policies, NAME=AGENT,AGENT each: for agent types (tag_grid: taggers=tagger
    runner=runner), agents of a parallel env by name, rows of an env by number, or row groups. Each
    agent has one policy. Or module:function, which is given each agent's name (C envs: its row) and
    returns its policy's. Empty: one policy per row group.
    """
    channels: tuple[int, ...] = (
        32,
        64,
        64,
    )
    """cnn: widths of the convolutions; convnext: of the stages."""
    depths: tuple[int, ...] = ()  # convnext: blocks of each stage; empty: one each.
    drop_path: float = 0.0
    """convnext: share of samples that the last block leaves out while learning, less in earlier
    ones."""
    hidden: tuple[int, ...] = (64, 64)  # Widths of the MLP, or of the trunk behind the encoders.
    memory: Literal["none", "mingru", "lstm"] = "none"
    """What the policy remembers of an episode: a recurrent cell, or nothing."""
    memory_layers: int = 0
    """Cells one behind the other; 0: 2 of mingru (one alone cannot recall what came when), 1 of
    lstm."""
    joint: bool = False
    """One softmax over all combinations of a MultiDiscrete action, instead of one per part."""
    object_hidden: int = 32  # object_set: width of the first layer of each object encoder.
    object_width: int = 64  # object_set: features that each kind of object is pooled into.
    object_attention: tuple[str, ...] = ()
    """object_set: fields whose objects are pooled by attention, not by a maximum, as typed_partners
        of drive.
    """
    normalize: bool = True
    """Scale Box observations, by their bounds or by what the run has seen; not those of
    object_set."""

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        for name in ("hidden", "channels"):
            check_widths(f"policy.{name}", getattr(self, name))
        check_layers(self.memory_layers)
        fit = all(1 <= depth <= MOST_BLOCKS for depth in self.depths)
        if self.depths and not (fit and len(self.depths) == len(self.channels)):
            raise ConfigError(
                f"policy.depths is {format_value(self.depths)}: must be a number of blocks, 1 to "
                f"{MOST_BLOCKS}, for each of the {len(self.channels)} stages of policy.channels"
            )
        if not 0 <= self.drop_path < 1:
            raise ConfigError(
                f"policy.drop_path is {self.drop_path}: must be at least 0 and below 1"
            )
        for name in ("object_hidden", "object_width"):
            check_widths(f"policy.{name}", (getattr(self, name),))
        if self.memory_layers > 1 and self.memory == "none" and ":" not in self.kind:
            raise ConfigError(
                f"policy.memory_layers is {self.memory_layers}, but policy.memory is none: say "
                "--policy.memory mingru or lstm, or set it to 0"
            )


@dataclasses.dataclass(frozen=True)
class RoleSection:
    """The part of a policy in its run.

    These are keys of [policies.NAME], next to those of `policy` and `train`.
    """

    to_train: bool = True  # False: the policy stays as it is.
    opponent: tuple[str, ...] = ()
    """The policy is that of another run, and is not trained: a run, a checkpoint, or a pool of
    these. A folder of checkpoints is a pool too; one of a pool is drawn for each episode of each
    env.
    """

    @property
    def learns(self) -> bool:
        """Whether updates change the policy."""
        return self.to_train and not self.opponent


@dataclasses.dataclass(frozen=True)
class PolicySettings:
    """The settings of one policy: those of the run, overridden by its table [policies.NAME]."""

    train: TrainSection
    policy: PolicySection
    role: RoleSection

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        _check_whole("train", self.train)
        _check_whole("policy", self.policy)
        self.train.check()
        self.policy.check()


@dataclasses.dataclass(frozen=True)
class LogSection:
    """Where the run leaves its files and what it prints."""

    folder: Path = Path("runs")  # Run folders are made in here.
    name: str = ""  # Name of the run folder; empty: env, date and seed.
    checkpoint_interval_s: float = 60.0  # Seconds between checkpoints; 0: after every update.
    keep_checkpoints: int = 3  # Older ones are removed.
    dashboard: Literal["auto", "rich", "plain", "off"] = "auto"
    """auto: rich on a terminal, else plain lines."""
    print_interval_s: float = 5.0
    """Seconds between plain lines, looks at CPU and memory, and lines for wandb."""
    tensorboard: bool = False
    """Also write metrics (of every update) and settings for TensorBoard; needs the extra
    tensorboard."""
    wandb: Literal["off", "offline", "online"] = "off"
    """Also give the metrics to Weights & Biases, offline: into the run folder only; needs the extra
    wandb.
    """
    wandb_project: str = "puffervec"  # Where Weights & Biases shows the run.


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """A whole run: what `Trainer` takes, a TOML file says and a checkpoint keeps."""

    target: str  # Name of a C env, Gymnasium id or module:factory.
    env: Any
    """The C env's own config dataclass, or a dict with the keyword arguments of what makes a Python
    env."""
    vec: VecSection = VecSection()
    train: TrainSection = dataclasses.field(
        default_factory=lambda: algorithms.get(algorithms.DEFAULT).section()
    )
    policy: PolicySection = PolicySection()
    policies: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    """By policy: what differs from train and policy."""
    ray: RaySection = RaySection()
    log: LogSection = LogSection()
    creator: Callable[..., Any] | None = None
    """What makes a Python env where target, its name, does not lead to it."""

    @classmethod
    def of(cls, target: str | Callable[..., Any], **tables: Table) -> TrainConfig:
        """Build a config from an env, its preset and tables.

            TrainConfig.of("tag_grid", train={"seed": 3})

        Args:
            target: name of a C env, Gymnasium id, "module:factory", or a callable that makes a
                gymnasium.Env or a PettingZoo ParallelEnv.
            **tables: env (a callable's keyword arguments), vec, train, policy, policies (by
                policy), ray, log.

        Raises:
            ConfigError: an unknown env, table or key, or a value of another kind.
        """
        config = cls.bare(target)
        return config.merged(targets.training_of(config.target).preset or targets.GENERIC).merged(
            tables
        )

    @classmethod
    def bare(cls, target: str | Callable[..., Any]) -> TrainConfig:
        """Return the config of an env without its preset.

        This makes no env but imports modules.

        Raises: ConfigError: an unknown env.
        """
        if not isinstance(target, str):
            name = targets.name_of(target)
            return cls(
                target=name, env={}, creator=None if targets.leads_to(name, target) else target
            )
        native = targets.native_env(target)
        if native is not None:
            return cls(target=target, env=native.config())
        targets.maker(target)
        return cls(target=target, env={})

    @property
    def python(self) -> bool:
        """Whether the env is written in Python."""
        return isinstance(self.env, dict)

    @property
    def learned_envs(self) -> int:
        """Number of envs whose rows an update of a rank learns from.

        They are those of the vec env, or of the hosts whose segments the update takes.
        """
        return self.vec.num_envs * self.ray.learned_segments

    def without_ray(self) -> TrainConfig:
        """Return the config of a run that plays on its own machine."""
        return dataclasses.replace(self, ray=dataclasses.replace(self.ray, address=""))

    def merged(self, tables: Mapping[str, Table]) -> TrainConfig:
        """Return a copy with the given tables laid over this config.

        A setting that is given for all policies replaces what this config has for single ones, and
        a new `policy.map` drops the tables of policies that it does not name.

        Raises: ConfigError naming the unknown table or key, or the value that does not fit.
        """
        changes = {}
        for section, table in tables.items():
            if section not in SECTIONS:
                raise ConfigError(
                    f"unknown table [{section}]: the tables are {', '.join(SECTIONS)}"
                )
            if not isinstance(table, Mapping):
                raise ConfigError(f"{section} is {format_value(table)}: must be a table")
            if section != "policies":
                changes[section] = _override_section(getattr(self, section), table, section)
        changes["policies"] = self._policies_without(tables)
        for name, table in tables.get("policies", {}).items():
            if not isinstance(table, Mapping):
                raise ConfigError(f"policies.{name} is {format_value(table)}: must be a table")
            changes["policies"].setdefault(name, {}).update(
                {str(key).replace("-", "_"): table[key] for key in table}
            )
        merged = dataclasses.replace(self, **changes)
        for name in merged.policies:
            merged.of_policy(name)
        return merged

    def _policies_without(self, tables: Mapping[str, Table]) -> dict[str, dict[str, Any]]:
        """Return the tables of single policies, without what `tables` sets for all of them."""
        common = {
            str(key).replace("-", "_")
            for section in ("train", "policy")
            for key in tables.get(section, ())
        }
        if (
            "algorithm" in common
            and (algorithm := str(tables["train"]["algorithm"])) != self.train.algorithm
        ):
            common |= own_defaults(algorithm)
        names = set(self.policies)
        if "map" in common and (mapped := tuple(tables["policy"]["map"])) != self.policy.map:
            names &= {str(entry).partition("=")[0] for entry in mapped}
        kept = {
            name: {
                key: self.policies[name][key] for key in self.policies[name] if key not in common
            }
            for name in names
        }
        return {name: kept[name] for name in self.policies if kept.get(name)}

    def of_policy(self, name: str) -> PolicySettings:
        """Return the settings of a policy.

        Raises: ConfigError where its table has an unknown key, one of the run, or a value of
            another kind.
        """
        table, train = dict(self.policies.get(name, {})), self.train
        if "algorithm" in table:
            train = train.of_algorithm(
                convert(table.pop("algorithm"), str, f"policies.{name}.algorithm")
            )
            train = dataclasses.replace(
                train, **{key: getattr(self.train, key) for key in OF_THE_RUN}
            )
        sections: dict[str, Any] = {"role": RoleSection(), "policy": self.policy, "train": train}
        changes: dict[str, dict[str, Any]] = {section: {} for section in sections}
        known = {
            field.name: section
            for section, part in sections.items()
            for field in dataclasses.fields(part)
        }
        for key, value in table.items():
            if key in OF_THE_RUN or key == "map":
                raise ConfigError(
                    f"policies.{name}.{key}: {key} is the same for all policies: give "
                    f"{known[key]}.{key}"
                )
            if key not in known:
                allowed = [*(known.keys() - OF_THE_RUN - {"map"}), "algorithm"]
                raise ConfigError(f"unknown key policies.{name}.{key}{suggest(key, allowed)}")
            changes[known[key]][key] = value
        found = {
            section: _override_for_policy(part, changes[section], f"policies.{name}")
            for section, part in sections.items()
        }
        if found["role"].opponent and table.get("to_train"):
            raise ConfigError(
                f"policies.{name}.to_train is true, but an opponent is not trained: leave one of "
                "them out"
            )
        return PolicySettings(**found)

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the config as plain tables of JSON values, the inverse of `merged`."""
        values = {section: getattr(self, section) for section in SECTIONS}
        plain = {
            name: dict(value) if isinstance(value, dict) else table_of(value)
            for name, value in values.items()
        }
        return plain | {"policies": _plain(self.policies)}

    def check(self) -> None:
        """Raise ConfigError for values that cannot work, as far as can be known without the env."""
        _check_whole("log", self.log)
        _check_whole("ray", self.ray)
        self.ray.check()
        self.ray.check_with(
            self.train, (self.of_policy(name).train.algorithm for name in ("", *self.policies))
        )
        kind = algorithms.get(self.train.algorithm).section
        if not isinstance(self.train, kind):
            raise ConfigError(
                f"train is a {type(self.train).__name__}: algorithm {self.train.algorithm} has a "
                f"{kind.__name__}"
            )
        self.of_policy("").check()
        for name in self.policies:
            try:
                self.of_policy(name).check()
            except ConfigError as error:
                raise ConfigError(f"policies.{name}: {error}") from error
        v = self.vec.resolved(self.python)
        at_least("vec", v, 1, "num_envs")
        positive("vec", v, "timeout_s")
        if v.num_buffers not in (1, 2):
            raise ConfigError(f"vec.num_buffers is {v.num_buffers}: must be 1 or 2")
        at_least("vec", v, 0, "batch_size")
        divisor, name = (
            (v.batch_size, "batch_size") if v.batch_size else (int(v.num_buffers), "num_buffers")
        )
        if v.num_envs % divisor:
            hint = "" if v.batch_size else " (or use vec.num_buffers 1)"
            raise ConfigError(
                f"vec.num_envs is {v.num_envs}: must be a multiple of vec.{name}, {divisor}{hint}"
            )
        if v.num_workers != "auto":
            at_least("vec", v, 1, "num_workers")
        if self.python:
            check_json(self.env)
        at_least("log", self.log, 1, "keep_checkpoints")
        at_least("log", self.log, 0, "checkpoint_interval_s", "print_interval_s")

    def check_batch(self, rows: int) -> int:
        """Return the number of minibatches per epoch for `rows` rows over all halves.

        Raises: ConfigError where minibatch_size does not divide rows x horizon.
        """
        batch, size = rows * self.train.horizon, self.train.minibatch_size
        if size == 0:
            return self.train.usual_minibatches
        if batch % size:
            low = [d for d in range(1, math.isqrt(batch) + 1) if batch % d == 0]
            fits = max(d for d in (*low, *(batch // d for d in low)) if d <= size)
            raise ConfigError(
                f"train.minibatch_size is {size}: must divide rows x horizon = {rows} x "
                f"{self.train.horizon} = {batch} (the next smaller one that does is {fits})"
            )
        return batch // size


def _check_whole(section: str, settings: Any) -> None:
    """Raise ConfigError for a count that is not a whole number; a TOML file may hold anything."""
    for setting in dataclasses.fields(settings):
        value = getattr(settings, setting.name)
        if setting.type in ("int", int) and (
            isinstance(value, bool) or not isinstance(value, numbers.Integral)
        ):
            raise ConfigError(f"{section}.{setting.name} is {value!r}: must be a whole number")


def check_layers(layers: int) -> None:
    """Raise ConfigError where `policy.memory_layers` is not a reasonable number of cells."""
    if not 0 <= layers <= MOST_LAYERS:
        raise ConfigError(f"policy.memory_layers is {layers}: must be 0 to {MOST_LAYERS}")


def check_widths(key: str, widths: tuple[int, ...]) -> None:
    """Raise ConfigError unless these are some widths of layers that a machine can hold."""
    if not 1 <= len(widths) <= MOST_WIDTHS:
        raise ConfigError(f"{key} has {len(widths)} widths: must have 1 to {MOST_WIDTHS}")
    if not all(1 <= width <= WIDEST for width in widths):
        raise ConfigError(f"{key} is {format_value(widths)}: each width must be 1 to {WIDEST}")


def format_value(value: Any) -> str:
    """Return a value as it stands in a message: its repr, of a length that people read."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def check_json(settings: Table) -> None:
    """Raise ConfigError unless the settings of a Python env can be kept in a run folder."""
    for name, value in settings.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            raise ConfigError(
                f"env.{name} is {value!r}: settings are kept with the run, so give numbers, text, "
                "true, false, or lists and tables of these, and bind other objects to the "
                "callable (functools.partial)"
            ) from None


def _override_section(section: Any, table: Table, path: str) -> Any:
    if (
        isinstance(section, TrainSection)
        and (name := table.get("algorithm", section.algorithm)) != section.algorithm
    ):
        section = section.of_algorithm(convert(name, str, "train.algorithm"))
    if not isinstance(section, dict):
        return replace_from_table(section, table, path)
    return section | {str(key).replace("-", "_"): value for key, value in table.items()}


_hints = functools.cache(typing.get_type_hints)


def hints_of(instance: Any) -> dict[str, Any]:
    """Return the type of each field of a dataclass's instance."""
    kind: Any = type(instance)
    found: dict[str, Any] = _hints(kind)
    return found


def _override_for_policy(section: Any, table: Table, path: str) -> Any:
    """Lay a policy's own settings over a section. Where a list is wanted, one value will do."""
    hints = hints_of(section)
    lists = {
        key
        for key in table
        if typing.get_origin(hints[key]) is tuple and not isinstance(table[key], (list, tuple))
    }
    return replace_from_table(
        section, {key: [value] if key in lists else value for key, value in table.items()}, path
    )


def replace_from_table(instance: Any, table: Table, path: str) -> Any:
    """Return `instance` (a dataclass) with the table's values, checked against its type hints.

    Values that it took from its own preset (`unresolved`) are resolved again, since the table may
    choose another preset.

    Raises: ConfigError naming `path.key`.
    """
    hints = hints_of(instance)
    names = [field.name for field in dataclasses.fields(instance)]
    changes = dict(getattr(instance, "unresolved", {}))
    for given, value in table.items():
        (key,) = renamed(instance, {str(given).replace("-", "_"): value})
        if key not in names:
            raise ConfigError(f"unknown key {path}.{given}{suggest(key, names)}")
        changes[key] = convert(value, hints[key], f"{path}.{key}")
    try:
        return dataclasses.replace(instance, **changes)
    except (TypeError, ValueError) as error:
        raise (
            error if isinstance(error, ConfigError) else ConfigError(f"[{path}]: {error}")
        ) from error


def suggest(name: str, known: list[str]) -> str:
    """Return `: did you mean X?`, or a list of what is known where nothing is close."""
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {close[0]}?" if close else f": known are {', '.join(sorted(known))}"


def table_of(instance: Any) -> dict[str, Any]:
    """Return a dataclass instance as a table of JSON values (paths as text, tuples as lists)."""
    return {
        field.name: _plain(getattr(instance, field.name)) for field in dataclasses.fields(instance)
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def convert(value: Any, hint: Any, key: str) -> Any:
    """Return a TOML or JSON value as the type that `hint` asks for.

    Raises: ConfigError naming `key`, the value and what is allowed. Nothing is cast silently,
    except 2 -> 2.0, 1e6 -> 1000000 where no digit is lost, text -> Path and list -> tuple.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if hint == Schedule:
        return schedules.convert(value, key)
    if origin is Literal:
        if value in arguments and type(value) in {type(a) for a in arguments}:
            return value
    elif origin in (typing.Union, types.UnionType):
        for option in arguments:
            try:
                return convert(value, option, key)
            except ConfigError:
                continue
    elif origin in (tuple, Sequence) and isinstance(value, (list, tuple)):
        fixed = origin is tuple and arguments[1:] != (Ellipsis,)
        items = list(arguments) if fixed else [arguments[0]] * len(value)
        if len(items) == len(value):
            return tuple(convert(v, item, key) for v, item in zip(value, items, strict=True))
    elif hint is type(None) and value is None:
        return None
    elif hint is bool and isinstance(value, bool):
        return value
    elif (
        hint is int
        and isinstance(value, int)
        and not isinstance(value, bool)
        and _fits_a_double(value)
    ):
        return value
    elif hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    elif (
        hint is float
        and isinstance(value, (int, float))
        and not isinstance(value, bool)
        and _fits_a_double(value)
    ):
        return float(value)
    elif hint is str and isinstance(value, str):
        return value
    elif hint is Path and isinstance(value, (str, Path)):
        return Path(value)
    raise ConfigError(f"{key} is {format_value(value)}: must be {describe(hint)}")


def _fits_a_double(value: float) -> bool:
    try:
        float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return False
    return True


def describe(hint: Any) -> str:
    """Return a type hint in words: `"auto" or an integer`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint == Schedule:
        return "a number or points"
    if origin is Literal:
        return " or ".join(repr(a) for a in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe(a) for a in arguments)
    if origin in (tuple, Sequence):
        return f"a list, each item {describe(arguments[0])}"
    words = {
        int: "an integer",
        float: "a number",
        bool: "true or false",
        str: "text",
        Path: "a path",
        type(None): "nothing",
    }
    return words.get(hint, str(hint))
