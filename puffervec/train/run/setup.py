# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The set-up of a run before it starts: config, device, env and checkpoint.

Bad input is refused here, before a run folder is created, a worker runs or the device is in use.
Settings that are `auto` are decided here too (startup.py, which may run workers for a second). Runs
in the learner.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

import puffervec
from puffervec.doors import door
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train.collect.storage import refuse_large
from puffervec.train.config.algorithms import LossTerm
from puffervec.train.config.experts import check_experts, played_env
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import choose_device, make_current, use_bf16
from puffervec.train.device.ranks import Ranks, match
from puffervec.train.metrics import trackers
from puffervec.train.policies.distributions import refuse_joint
from puffervec.train.policies.mapping import AgentMap
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run import find, rundir, startup, state
from puffervec.train.run.opponents import Opponents, of_checkpoint, of_config, with_networks
from puffervec.train.run.trial import refuse_large_policies, try_policies
from puffervec.vec.vector_env import VectorEnv

RANK_SEEDS = 1_000_003  # distance between the seeds of two ranks for actions and shuffles


@dataclasses.dataclass(frozen=True)
class Setup:
    """The set-up of a run on one rank.

    Attributes:
        run: the run on this rank's device; all `auto` settings that it decides are decided.
        ranks: all ranks of the run.
        spec_hash: hash of the env's spec.
        minibatches: number per epoch.
        checkpoint: the folder to resume from; None for a new run.
        folder: the requested run folder, or that of the checkpoint; None to create a new one.
        chosen: the choices and measurements of startup.py.
        team: the ranks that share columns with this one in updates.
        opponents: the opponents that act for policies that do not learn, by policy name.
        terms: the terms that are added to the losses of policies, by policy name.
    """

    run: RunSpec
    ranks: Ranks
    spec_hash: str
    minibatches: int
    checkpoint: Path | None
    folder: Path | None
    chosen: startup.Chosen
    team: Ranks
    opponents: Mapping[str, Opponents] = dataclasses.field(default_factory=dict)
    terms: Mapping[str, LossTerm] = dataclasses.field(default_factory=dict)

    @property
    def bf16(self) -> bool:
        """Whether hidden layers compute in bf16."""
        return self.run.config.train.precision == "bf16"

    @property
    def behind(self) -> bool:
        """Whether rollouts are collected with older weights than those that an update changes."""
        return self.run.config.train.asynchronous or bool(self.run.config.ray.address)

    @property
    def env_seed(self) -> int:
        """The seed of env 0 of this rank; env i has env_seed + i, unique over all ranks."""
        return self.run.config.train.seed + self.ranks.rank * self.run.config.vec.num_envs

    @property
    def own_seed(self) -> int:
        """The seed of this rank for actions and shuffles."""
        return self.run.config.train.seed + RANK_SEEDS * self.ranks.rank

    def make_vec(self) -> VectorEnv:
        """Start the workers of this rank."""
        return make_vec(self.run.config, self.env_seed)

    def run_folder(self) -> Path:
        """Return the run folder, the same on all ranks, after creating it if none was requested.

        Raises:
            ConfigError: the folder cannot be created.
        """
        folder = self.folder
        if folder is None and self.ranks.first:
            folder = rundir.new_run_folder(
                self.run.config.log, self.run.config.target, self.run.config.train.seed
            )
        return Path(self.ranks.broadcast_object(str(folder)))


def set_up(
    config: TrainConfig,
    policies: Mapping[str, nn.Module],
    checkpoint: Path | None,
    folder: Path | None,
    ranks: Ranks,
    policy_map: AgentMap | None = None,
) -> tuple[Setup, ckpt.Checkpoint | None]:
    """Check all input, decide settings that are `auto`, and read the checkpoint.

    Arguments and errors are those of `Trainer`.

    Returns:
        The set-up, and the content of the checkpoint or None.
    """
    config.check()
    trackers.require(config.log)
    if not ranks.first:  # Only the first rank logs.
        config = config.with_values("log", dashboard="off", tensorboard=False, wandb="off")
    wanted = ranks.device(config.train.device)
    device = choose_device(wanted)
    make_current(device)
    bf16 = use_bf16(config.train.precision, device)
    run = RunSpec.of(config, device, policy_map)
    config = run.config
    minibatches = config.check_batch(run.spec.agents * config.learned_envs)
    spec_hash = run.spec.policy_hash()
    tables = config.tables()
    settings = {name: tables[name] for name in tables if name not in ("log", "ray")}
    _refuse(run, bf16, policies)
    match(ranks, "settings", json.dumps([config.target, spec_hash, bf16, settings]))
    ranks.use(device)
    team = ranks.team(config.train.tensor_parallel)
    shared = ranks.broadcast_object([path and str(path) for path in (checkpoint, folder)])
    checkpoint, folder = (path and Path(path) for path in shared)
    found = None
    if checkpoint is None:
        opponents = of_config(run, ranks)
    else:
        found, before = _read(checkpoint, config, spec_hash, ranks.rank)
        folder = find.run_folder_of(checkpoint) or folder
        config = state.as_trained(config, run.spec.groups, found.manifest, found.tensors)
        config = state.as_chosen(config, before, found.manifest, device)
        opponents = of_checkpoint(config, before, found)
    if mixed := [name for name in opponents if name in policies]:
        raise ConfigError(
            f"policies: {mixed[0]!r} is played by an opponent: leave out either the policy or "
            f"policies.{mixed[0]}.opponent"
        )
    run = run.with_config(with_networks(config, opponents))
    terms = {}
    if any(own.settings.train.kl_to for own in run.rows.values()):
        terms = door("reference", "train.kl_to").terms(run, ranks)
    chosen = startup.choose(run, make_vec, policies, measure=ranks.size == 1)
    return Setup(
        chosen.run,
        ranks,
        spec_hash,
        minibatches,
        checkpoint,
        folder,
        chosen,
        team,
        opponents,
        terms,
    ), found


def _refuse(run: RunSpec, bf16: bool, policies: Mapping[str, nn.Module]) -> None:
    """Raise ConfigError for settings that the env, this machine or a policy does not support."""
    config, device, rows = run.config, run.device, run.rows
    if joint := [own.group for own in rows.values() if own.section.joint]:
        refuse_joint(joint)
    if not any(own.settings.role.learns for own in rows.values()):
        raise ConfigError(
            f"none of the policies {', '.join(rows)} learns: set to_train for one of them and no "
            "opponent"
        )
    obs_dtype, copies = torch.bfloat16 if bf16 else None, 2 if config.train.asynchronous else 1
    refuse_large(
        rows.values(), config.learned_envs, config.train.horizon, device, obs_dtype, copies=copies
    )
    state.check_names(rows)
    refuse_large_policies(rows, policies, device)
    try_policies(rows, policies)
    check_experts(config, [own.settings for own in rows.values()], len(run.spec.groups))
    if any(own.settings.train.plan != "eager" for own in rows.values()):
        door("plan", "train.plan").check_plans(rows, policies, device)


def _read(
    path: Path, config: TrainConfig, spec_hash: str, rank: int
) -> tuple[ckpt.Checkpoint, TrainConfig]:
    """Read a checkpoint and its config, and check that it is of this env.

    Raises:
        CheckpointError: the checkpoint cannot be read, or is of another env or spec.
    """
    found = ckpt.read(path, state.stems_for(rank, ckpt.read_manifest(path)))
    if found.manifest["env"] != config.target:
        raise CheckpointError(f"{path} is of env {found.manifest['env']!r}, not {config.target!r}")
    if found.manifest["spec_hash"] != spec_hash:
        raise CheckpointError(
            f"{path} has other observations or actions than these env settings produce: use the "
            "settings of its run"
        )
    return found, rundir.config_of(found.manifest, config)


def make_vec(config: TrainConfig, seed: int | None = None) -> VectorEnv:
    """Start the workers of a run.

    Args:
        config: config of the run.
        seed: env i gets seed + i; None takes `train.seed`.
    """
    v = config.vec.resolved(config.python)
    batches = (
        {"batch_size": v.batch_size}
        if v.batch_size
        else {"num_buffers": v.num_buffers, "split": v.split}
    )
    return puffervec.make(
        config.creator or config.target,
        env_kwargs=played_env(config),
        backend=v.backend,
        num_envs=v.num_envs,
        num_workers=v.num_workers,
        seed=config.train.seed if seed is None else seed,
        autoreset_mode="next_step",
        timeout_s=v.timeout_s,
        **batches,
    )
