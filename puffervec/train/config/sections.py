# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""All settings of a training run, as frozen dataclasses with a help text for each field.

The command-line flags (`--train.lr`), the tables of a `--config` TOML file, the config in a
checkpoint's manifest and the help texts are generated from the same dataclasses, so they cannot
disagree. Runs in the learner; imports no torch, so that the command line can refuse bad input
before torch is loaded.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from puffervec.doors import door
from puffervec.errors import ConfigError
from puffervec.train.config import algorithms, schedules
from puffervec.train.config import target as targets
from puffervec.train.config.algorithms import Algorithm
from puffervec.train.config.hosts import RaySection
from puffervec.train.config.schedules import Schedule
from puffervec.train.config.tables import (
    Table,
    check_json,
    check_numbers,
    convert,
    format_value,
    hints_of,
    number,
    replace_from_table,
    suggest,
    table_of,
    to_json,
)

# Number of Python envs; with fewer, a worker process costs about as much time as it saves.
FEWEST_FOR_WORKERS = 8
SEEDS = 2**62  # Ranks and resumed runs add to the seed, and torch takes 64 bits.
# Stacked recurrent cells. These limits exist because a checkpoint may contain any number.
MOST_LAYERS = 16
MOST_BLOCKS = 256  # Blocks per stage of a ConvNeXt.
MOST_WIDTHS, WIDEST = 64, 2**20  # Layers of a network, and units per layer.
SECTIONS = ("env", "vec", "train", "policy", "policies", "eval", "ray", "log")
# Settings of train that all policies of a run share; [policies.NAME] may contain the others.
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
    """Settings of the vec env; autoreset is always next-step."""

    backend: Literal["auto", "multiprocessing", "threading", "serial"] = "auto"
    """Backend that steps the envs. auto: multiprocessing; but fewer than 8 Python envs are stepped
    serially in one batch, unless workers, buffers or a batch size are set.
    """
    num_envs: int = number(16, least=1)
    """Number of envs, over all halves; under torchrun, of each rank."""
    num_workers: int | Literal["auto"] = number("auto", least=1)
    """Number of worker processes or threads; auto: depends on the usable cores."""
    num_buffers: int | Literal["auto"] = "auto"
    """Number of buffers. 2: one half of the envs steps while the policy computes the actions of the
    other half; 1: envs and policy take turns; auto: 2. On a CPU with up to 2 cores, if backend,
    num_workers and num_buffers are all auto: 1 for Python envs, and in runs of some length all
    three are chosen by a start-up measurement of up to a second.
    """
    batch_size: int = number(0, least=0)
    """Number of envs per forward pass in rollouts; the num_envs / batch_size batches take turns. 0:
    num_envs / num_buffers."""
    split: Literal["auto", "workers", "envs"] = "auto"
    """Division into two halves: by workers, or by the envs of each worker; auto: as in
    `puffervec.make`, by the usable cores."""
    timeout_s: float = number(60.0, above=0)
    """Longest wait for a step of a worker, in seconds; a worker that takes longer is considered
    hung, and the run ends."""

    def resolved(self, python: bool) -> VecSection:
        """Return the section with `backend` and `num_buffers` resolved.

        Args:
            python: whether the envs are written in Python.
        """
        chosen = (
            self.num_workers != "auto" or self.num_buffers not in ("auto", 1) or self.batch_size
        )
        if self.backend == "auto" and python and self.num_envs < FEWEST_FOR_WORKERS and not chosen:
            return dataclasses.replace(self, backend="serial", num_buffers=1)
        backend = "multiprocessing" if self.backend == "auto" else self.backend
        buffers = 2 if self.num_buffers == "auto" else self.num_buffers
        return dataclasses.replace(self, backend=backend, num_buffers=buffers)

    def check(self) -> None:
        """Raise ConfigError for values of a resolved section that cannot work."""
        if self.num_buffers not in (1, 2):
            raise ConfigError(f"vec.num_buffers is {self.num_buffers}: must be 1 or 2")
        divisor, name = int(self.num_buffers), "num_buffers"
        if self.batch_size:
            divisor, name = self.batch_size, "batch_size"
        if self.num_envs % divisor:
            hint = "" if self.batch_size else " (or use vec.num_buffers 1)"
            raise ConfigError(
                f"vec.num_envs is {self.num_envs}: must be a multiple of vec.{name}, {divisor}"
                f"{hint}"
            )


@dataclasses.dataclass(frozen=True)
class TrainSection:
    """Settings of the run and of the algorithm; each algorithm has a section derived from this."""

    usual_minibatches: ClassVar[int] = 8  # Minibatches per epoch if minibatch_size is 0.
    algorithm: str = algorithms.DEFAULT
    """Learning algorithm: ppo, a2c, one of an installed package, or your own as module:NAME."""
    seed: int = number(1, least=0)  # Seed of envs, weights, sampling and shuffling.
    device: str = "auto"  # Device: auto, cpu, cuda or cuda:N; auto: CUDA if available.
    total_timesteps: int = number(10_000_000, least=1)
    """Agent-steps of all ranks after which the run ends."""
    time_limit_s: float = number(0.0, least=0)
    """Seconds after which the run ends; 0: no limit. The learning rate is annealed over the limit
    that is reached first."""
    horizon: int = number(64, least=1)  # Rollout length T: steps per env between updates.
    minibatch_size: int = number(0, least=0)
    """Samples per gradient step, including padding; must divide rows x horizon; 0: an eighth of
    them, a2c: all. Each rank has minibatches of this size, so that with N ranks a gradient step
    averages over N times as many samples.
    """
    microbatch_size: int = number(1024, least=1)
    """Samples per backward pass on a CPU, so that they fit into its caches; CUDA uses whole
    minibatches."""
    update_epochs: int = number(2, least=1)  # Epochs per update: passes over each rollout.
    optimizer: Literal["adam", "muon", "muon_sgd"] = "adam"
    """Optimizer; muon: Muon for matrices and Adam for all other weights; muon_sgd: Muon for all
    matrices and SGD for vectors, both with Nesterov momentum and with the steps of PufferLib's
    muon, which need another lr than adam and muon."""
    lr: Schedule = 1e-3
    """Learning rate: a number, or points [[agent-steps, lr], ...] with linear interpolation."""
    anneal_lr: bool = True
    """Whether the learning rate decreases linearly over the run, to a tenth of lr; points are used
    as they are."""
    adam_eps: float = number(1e-8, above=0)  # Epsilon in the denominator of Adam.
    gamma: float = 0.98  # Discount factor per step.
    gae_lambda: float = 0.95
    """Lambda of GAE; 0: one-step advantages; 1: advantages from whole returns."""
    normalize_advantage: bool = True
    """Whether the advantages of each minibatch are scaled to mean 0 and standard deviation 1."""
    vtrace: bool = False
    """Whether advantages are corrected, in every epoch, for changes of the policy since the rollout
    (V-trace, IMPALA)."""
    vtrace_rho: float = number(1.0, above=0)
    """vtrace: upper bound on the importance weights of the temporal-difference errors."""
    vtrace_c: float = number(1.0, above=0)
    """vtrace: upper bound on the importance weights of the traces to later steps."""
    asynchronous: bool = False
    """Whether the next rollout is collected during an update, with the weights before that update;
    implies vtrace."""
    value_coef: float = number(1.0, least=0)  # Coefficient of the value loss.
    entropy_coef: Schedule = 0.01
    """Coefficient of the entropy bonus: a number, or points [[agent-steps, coefficient], ...]."""
    kl_to: str = ""
    """Run or checkpoint with a reference policy, such as a cloned one: a KL term in the loss keeps
    this policy close to it. Empty: none. The reference is read at each start and has no memory.
    """
    kl_weight: Schedule = 0.05
    """Weight of the KL divergence from the policy to that of kl_to: a number, or points
    [[agent-steps, weight], ...].
    """
    scale_rewards: bool = False
    """Whether rewards are divided by the root mean square of discounted returns."""
    reward_limit: Schedule = 0.0
    """Largest magnitude of a reward that is learned from; larger ones are cut to it. A number, or
    points [[agent-steps, limit], ...]; 0: no limit."""
    max_grad_norm: float = number(1.0, above=0)
    """Largest norm of the gradient; larger ones are scaled down to it."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Precision of the policy. auto: bf16 on CUDA, and on CPUs with bf16 instructions if a start-up
    measurement of 50 ms shows that it is faster; runs too short for that use bf16 wherever the
    instructions exist.
    """
    compile: Literal["auto", "on", "off"] = "auto"
    """Whether the loss is compiled with torch.compile; auto: on CUDA, for policies without memory.
    """
    plan: Literal["eager", "arena", "compile", "cudagraph", "compile+cudagraph"] = "eager"
    """Execution of policies in rollouts and evaluations. eager: as plain PyTorch; arena: in planned
    memory, without allocations; compile: with torch.compile; cudagraph: as a CUDA graph (on CUDA,
    rollouts are graphs in any mode).
    """
    deterministic: bool = False
    """Whether the same settings give the same bytes: start-up measurements decide nothing, the
    learning rate depends on total_timesteps alone, and CUDA uses only kernels that sum in a fixed
    order, which are slower.
    """
    threads: int = number(0, least=0)
    """CPU threads of the policy; 0: all usable cores, or the share of the rank."""
    rank_timeout_s: float = number(600.0, above=0)
    """Under torchrun: longest wait for a rank, in seconds, before it is considered lost."""
    tensor_parallel: int = number(1, least=1)
    """Under torchrun: number of neighbouring ranks that split the columns of pictures in an update,
    for policies with convolutions whose pictures are too large for one device. Results do not
    change, and each rank still collects rollouts with its own envs.
    """
    final_eval: bool = True  # Whether the policy is evaluated at the end, by the env's evaluation.

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        schedules.check("train.lr", self.lr, zero=False)
        schedules.check("train.entropy_coef", self.entropy_coef, zero=True)
        schedules.check("train.kl_weight", self.kl_weight, zero=True)
        schedules.check("train.reward_limit", self.reward_limit, zero=True)
        if self.kl_to == "latest":
            raise ConfigError(
                "train.kl_to is latest: name a run, because a resumed run reads the reference again"
            )
        if self.tensor_parallel > 1 and self.compile == "on":
            raise ConfigError(
                "train.compile is on: the exchange between ranks cannot be compiled: set "
                "train.tensor_parallel to 1"
            )
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"train.{name} is {getattr(self, name)}: must be between 0 and 1")
        if not self.seed < SEEDS:
            raise ConfigError(f"train.seed is {self.seed}: must be below 2**62")

    def learned_share(self) -> float:
        """Return the share of a rollout's samples that the algorithm learns from."""
        return 1.0

    def lr_at(self, agent_steps: int, used: float) -> float:
        """Return the learning rate after this many agent-steps.

        Args:
            agent_steps: agent-steps of the run so far.
            used: used share of the budget, 0 to 1.
        """
        lr = schedules.value_at(self.lr, agent_steps)
        return lr * (1.0 - 0.9 * used) if self.anneal_lr and not isinstance(self.lr, tuple) else lr

    def of_algorithm(self, name: str) -> TrainSection:
        """Return the settings of another algorithm.

        Shared settings keep their values, unless the other algorithm has its own default: presets
        are chosen for the default algorithm.

        Raises: ConfigError: an unknown algorithm.
        """
        kind = algorithms.get(name).section
        shared = {field.name for field in dataclasses.fields(kind)} - own_defaults(name)
        values = {
            field.name: value
            for field in dataclasses.fields(self)
            if field.name in shared and (value := getattr(self, field.name)) != field.default
        }
        return typing.cast(
            TrainSection, replace_from_table(kind(), values | {"algorithm": name}, "train")
        )


def own_defaults(algorithm: str) -> set[str]:
    """Return the names of the shared settings for which this algorithm has its own default.

    Raises: ConfigError: an unknown algorithm.
    """
    shared = {field.name: field.default for field in dataclasses.fields(TrainSection)}
    fields = dataclasses.fields(algorithms.get(algorithm).section)
    return {
        field.name for field in fields if field.default != shared.get(field.name, field.default)
    }


@dataclasses.dataclass(frozen=True)
class PolicySection:
    """Settings of the network."""

    kind: str = "auto"
    """Kind of network; auto: cnn if a row contains a picture of bytes, object_set if a C env has
    sets of objects, else mlp. Others: convnext, also for pictures; pufferdrive, the network of
    PufferDrive, for its observations; your own nn.Module, as module:Class.
    """
    map: tuple[str, ...] = ()
    """Assignment of agents to several policies, as NAME=AGENT,AGENT. AGENT: an agent type
    (tag_grid: taggers=tagger runner=runner), the name of an agent of a parallel env, a row number
    of an env, or a row group. Each agent has one policy. Or module:function, which takes the name
    of an agent (C envs: its row) and returns the name of its policy. Empty: one policy per row
    group.
    """
    channels: tuple[int, ...] = (
        32,
        64,
        64,
    )
    """Channels of the layers (cnn: convolutions; convnext: stages)."""
    depths: tuple[int, ...] = ()  # convnext: number of blocks of each stage; empty: one each.
    drop_path: float = 0.0
    """convnext: probability, in training, that the last block is skipped for a sample (stochastic
    depth); earlier blocks have lower ones."""
    hidden: tuple[int, ...] = (64, 64)  # Widths of the MLP, or of the trunk after the encoders.
    memory: Literal["none", "mingru", "lstm"] = "none"
    """Recurrent cell with which the policy remembers earlier steps of an episode."""
    memory_layers: int = 0
    """Number of stacked recurrent cells; 0: 2 for mingru (a single one cannot recall the order of
    events), 1 for lstm."""
    joint: bool = False
    """Whether one softmax covers all combinations of a MultiDiscrete action, instead of one softmax
    per part."""
    object_hidden: int = 32  # object_set: width of the first layer of each object encoder.
    object_width: int = 64
    """object_set: number of features of each kind of object after pooling. On a CPU 32 and 64, with
    an object_hidden of 32, have a fused kernel; other widths are many times slower."""
    object_attention: tuple[str, ...] = ()
    """object_set: fields whose objects are pooled by attention instead of the maximum, such as
    typed_partners of drive.
    """
    normalize: bool = True
    """Whether Box observations are scaled, by their bounds or by the statistics of the run;
    object_set does not scale."""
    bias: bool = True
    """Whether the layers learn biases; false: these stay 0. A network of your own decides itself.
    """

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
                f"policy.memory_layers is {self.memory_layers}, but policy.memory is none: use "
                "--policy.memory mingru or lstm, or set it to 0"
            )


@dataclasses.dataclass(frozen=True)
class RoleSection:
    """Settings of a single policy.

    These are keys of [policies.NAME], in addition to those of `policy` and `train`.
    """

    to_train: bool = True  # Whether the policy is trained.
    opponent: tuple[str, ...] = ()
    """Trained policies to use instead, without training them: a run, a checkpoint, or a pool of
    several. A folder of checkpoints is a pool too; one policy of the pool is drawn for each episode
    of each env.
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

    @property
    def algorithm(self) -> Algorithm:
        """Return the algorithm that trains the policy."""
        return algorithms.get(self.train.algorithm)

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        check_numbers("train", self.train)
        check_numbers("policy", self.policy)
        self.train.check()
        self.policy.check()


@dataclasses.dataclass(frozen=True)
class EvalSection:
    """Settings of evaluations while the run trains."""

    every_s: float = number(0.0, least=0)
    """Seconds from the start of one evaluation to the next; 0: none while the run trains. Each
    evaluates a checkpoint in a separate process at a low priority.
    """
    suites: tuple[str, ...] = ()
    """Suites of `puffer-train eval` to evaluate; empty: the env's own evaluation. With several, a
    checkpoint's score is their mean.
    """
    episodes: int = number(0, least=0)
    """Number of episodes, as `puffer-train eval` counts them; 0: its default."""
    metric: str = ""
    """Column of an evaluation's total that rates checkpoints, the highest being best; empty: the
    score of the evaluation or, where there is none, the return.
    """
    patience: int = number(0, least=0)
    """Number of evaluations in a row without a better checkpoint after which the run ends; 0: it
    never ends for that.
    """

    def check(self) -> None:
        """Raise ConfigError for values that cannot work."""
        if not self.every_s < math.inf:
            raise ConfigError(f"eval.every_s is {self.every_s}: must be finite")


@dataclasses.dataclass(frozen=True)
class LogSection:
    """Settings of the run's files and of its output."""

    folder: Path = Path("runs")  # Folder in which run folders are made.
    name: str = ""  # Name of the run folder; empty: env, date and seed.
    checkpoint_interval_s: float = number(60.0, least=0)
    """Seconds between checkpoints; 0: after every update."""
    keep_checkpoints: int = number(3, least=1)
    """Number of checkpoints to keep; older ones are removed."""
    dashboard: Literal["auto", "rich", "plain", "off"] = "auto"
    """Output in the terminal; auto: rich in a terminal, else plain lines."""
    print_interval_s: float = number(5.0, least=0)
    """Seconds between plain lines, samples of CPU and memory use, and wandb records."""
    tensorboard: bool = False
    """Whether metrics and settings are written for TensorBoard. It has the metrics of every update,
    and needs the extra tensorboard."""
    wandb: Literal["off", "offline", "online"] = "off"
    """Whether metrics are logged to Weights & Biases. offline: into the run folder only. Needs the
    extra wandb.
    """
    wandb_project: str = "puffervec"  # Project of the run in Weights & Biases.


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The config of a whole run, as in `Trainer`, a TOML file and a checkpoint."""

    target: str  # Name of a C env, Gymnasium id or module:factory.
    env: Any
    """The config dataclass of a C env, or a dict with the keyword arguments of a Python env's
    factory."""
    vec: VecSection = VecSection()
    train: TrainSection = dataclasses.field(
        default_factory=lambda: algorithms.get(algorithms.DEFAULT).section()
    )
    policy: PolicySection = PolicySection()
    policies: Mapping[str, Table] = dataclasses.field(default_factory=dict)
    """Settings of single policies by name, where they differ from train and policy."""
    eval: EvalSection = EvalSection()
    ray: RaySection = RaySection()
    log: LogSection = LogSection()
    creator: Callable[..., Any] | None = None
    """The factory of a Python env, if it cannot be imported by the name in target."""

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
            ConfigError: an unknown env, table or key, or a value of the wrong type.
        """
        config = cls.bare(target)
        return config.merged(targets.training_of(config.target).preset or targets.GENERIC).merged(
            tables
        )

    @classmethod
    def bare(cls, target: str | Callable[..., Any]) -> TrainConfig:
        """Return the config of an env without its preset.

        This imports modules, but makes no env.

        Raises: ConfigError: an unknown env.
        """
        name, native, creator = targets.find(target)
        return cls(target=name, env={} if native is None else native.config(), creator=creator)

    @property
    def python(self) -> bool:
        """Whether the env is written in Python."""
        return isinstance(self.env, dict)

    @property
    def learned_envs(self) -> int:
        """Number of envs whose rows an update of a rank learns from.

        They belong to the vec env, or to the hosts whose segments the update uses.
        """
        return self.vec.num_envs * self.ray.learned_segments

    def without_ray(self) -> TrainConfig:
        """Return the config with rollouts on the run's own machine."""
        return self.with_values("ray", address="")

    def merged(self, tables: Mapping[str, Table]) -> TrainConfig:
        """Return a copy with the values of the tables.

        A setting for all policies replaces the settings of single policies in this config, and a
        new `policy.map` drops the tables of policies that it does not name.

        Raises: ConfigError: names the unknown table or key, or the invalid value.
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

    def with_values(self, section: str, **values: Any) -> TrainConfig:
        """Return a copy with other values of one section, which are not converted or checked."""
        return dataclasses.replace(
            self, **{section: dataclasses.replace(getattr(self, section), **values)}
        )

    def _policies_without(self, tables: Mapping[str, Table]) -> dict[str, dict[str, Any]]:
        """Return the tables of single policies, without the keys that `tables` sets for all."""
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
        single = {
            name: {
                key: self.policies[name][key] for key in self.policies[name] if key not in common
            }
            for name in names
        }
        return {name: single[name] for name in self.policies if single.get(name)}

    def of_policy(self, name: str) -> PolicySettings:
        """Return the settings of a policy.

        Raises: ConfigError: its table has an unknown key, a setting of the run, or a value of the
            wrong type.
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
                    f"policies.{name}.{key}: {key} is the same for all policies: set "
                    f"{known[key]}.{key}"
                )
            if key not in known:
                allowed = [*(known.keys() - OF_THE_RUN - {"map"}), "algorithm"]
                raise ConfigError(f"unknown key policies.{name}.{key}{suggest(key, allowed)}")
            changes[known[key]][key] = value
        merged = {
            section: _override_for_policy(part, changes[section], f"policies.{name}")
            for section, part in sections.items()
        }
        if merged["role"].opponent and table.get("to_train"):
            raise ConfigError(
                f"policies.{name}.to_train is true, but an opponent is not trained: leave one of "
                "them out"
            )
        return PolicySettings(**merged)

    @property
    def policy_kinds(self) -> tuple[str, ...]:
        """Return the kinds of network that the settings name, of the run and of single policies."""
        return tuple(self.of_policy(name).policy.kind for name in ("", *self.policies))

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the config as plain tables of JSON values, the inverse of `merged`."""
        values = {section: getattr(self, section) for section in SECTIONS}
        plain = {
            name: dict(value) if isinstance(value, dict) else table_of(value)
            for name, value in values.items()
        }
        return plain | {"policies": to_json(self.policies)}

    def check(self) -> None:
        """Raise ConfigError for values that cannot work, as far as known without making the env."""
        for name in ("vec", "eval", "ray", "log"):
            check_numbers(name, getattr(self, name))
        if self.python:
            check_json(self.env)
        self.vec.resolved(self.python).check()
        self.eval.check()
        for name in ("", *self.policies):
            own = self.of_policy(name)
            if not isinstance(own.train, own.algorithm.section):
                raise ConfigError(
                    f"train is a {type(own.train).__name__}: algorithm {own.train.algorithm} needs "
                    f"a {own.algorithm.section.__name__}"
                )
            try:
                own.check()
            except ConfigError as error:
                if not name:
                    raise
                raise ConfigError(f"policies.{name}: {error}") from error
        if self.ray.address:
            door("ray", "ray.address").check(self)

    def check_batch(self, rows: int) -> int:
        """Return the number of minibatches per epoch for `rows` rows over all halves.

        Raises: ConfigError: minibatch_size does not divide rows x horizon.
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


def check_layers(layers: int) -> None:
    """Raise ConfigError if `policy.memory_layers` is not a reasonable number of cells."""
    if not 0 <= layers <= MOST_LAYERS:
        raise ConfigError(f"policy.memory_layers is {layers}: must be 0 to {MOST_LAYERS}")


def check_widths(key: str, widths: tuple[int, ...]) -> None:
    """Raise ConfigError unless the number of layers and their widths are reasonable."""
    if not 1 <= len(widths) <= MOST_WIDTHS:
        raise ConfigError(f"{key} has {len(widths)} widths: must have 1 to {MOST_WIDTHS}")
    if not all(1 <= width <= WIDEST for width in widths):
        raise ConfigError(f"{key} is {format_value(widths)}: each width must be 1 to {WIDEST}")


def _override_section(section: Any, table: Table, path: str) -> Any:
    if (
        isinstance(section, TrainSection)
        and (name := table.get("algorithm", section.algorithm)) != section.algorithm
    ):
        section = section.of_algorithm(convert(name, str, "train.algorithm"))
    if not isinstance(section, dict):
        return replace_from_table(section, table, path)
    return section | {str(key).replace("-", "_"): value for key, value in table.items()}


def _override_for_policy(section: Any, table: Table, path: str) -> Any:
    """Return a section with the settings of one policy; a single value becomes a list if needed."""
    hints = hints_of(section)
    lists = {
        key
        for key in table
        if typing.get_origin(hints[key]) is tuple and not isinstance(table[key], (list, tuple))
    }
    return replace_from_table(
        section, {key: [value] if key in lists else value for key, value in table.items()}, path
    )
