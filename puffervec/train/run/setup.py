# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""What a run is, settled before it starts: config, device, env and the checkpoint that it goes on
from.

Bad input is refused here, while no run folder is made, no worker runs and the device is not in use.
What is `auto` is decided here too (startup.py, for which workers may run for a second). Runs in the
learner.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

import puffervec
from puffervec.core.spec import EnvSpec
from puffervec.doors import door
from puffervec.errors import CheckpointError, ConfigError
from puffervec.train.collect.storage import refuse_large
from puffervec.train.config import target
from puffervec.train.config.sections import TrainConfig
from puffervec.train.device.device import choose_device, make_current, use_bf16
from puffervec.train.device.ranks import Ranks, match
from puffervec.train.metrics import trackers
from puffervec.train.policies.distributions import refuse_joint
from puffervec.train.policies.mapping import AgentMap, PolicyRows, explicit_map, policy_rows
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run import find, rundir, startup, state
from puffervec.train.run.opponents import Opponents, of_checkpoint, of_config, with_networks
from puffervec.train.run.trial import refuse_large_policies, try_policies
from puffervec.vec.vector_env import VectorEnv

RANK_SEEDS = 1_000_003  # Between the seeds with which ranks draw actions and shuffle.


@dataclasses.dataclass(frozen=True)
class Setup:
    """A run before its start. Of one rank; `config` has nothing `auto` left that the run decides.

    Attributes:
        minibatches: per epoch.
        checkpoint: the folder to go on from; None: a new run.
        folder: the run folder that was asked for, or that of the checkpoint; None: a new one is to
        be made.
        chosen: what startup.py has measured.
        rows: what each policy acts for, by its name. team: the ranks that share columns with this
        one in updates.
        opponents: what plays for those that do not learn.
    """

    config: TrainConfig
    ranks: Ranks
    device: torch.device
    spec_hash: str
    minibatches: int
    checkpoint: Path | None
    folder: Path | None
    chosen: startup.Chosen
    rows: Mapping[str, PolicyRows]
    team: Ranks
    opponents: Mapping[str, Opponents] = dataclasses.field(default_factory=dict)

    @property
    def bf16(self) -> bool:
        """Whether hidden layers work in bf16."""
        return self.config.train.precision == "bf16"

    @property
    def behind(self) -> bool:
        """Whether roll-outs are older than the weights that learn from them."""
        return self.config.train.asynchronous or bool(self.config.ray.address)

    @property
    def env_seed(self) -> int:
        """Env i of this rank has env_seed + i: no two of all ranks are alike."""
        return self.config.train.seed + self.ranks.rank * self.config.vec.num_envs

    @property
    def own_seed(self) -> int:
        """What this rank draws actions and shuffles with."""
        return self.config.train.seed + RANK_SEEDS * self.ranks.rank

    def make_vec(self) -> VectorEnv:
        """Start the workers of this rank."""
        return make_vec(self.config, self.env_seed)

    def run_folder(self) -> Path:
        """Return the folder of the run, of all ranks; a new one is made where none is given.
        Raises: ConfigError.
        """
        folder = self.folder
        if folder is None and self.ranks.first:
            folder = rundir.new_run_folder(
                self.config.log, self.config.target, self.config.train.seed
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
    """Check everything and decide what is `auto`; return it with what is in the checkpoint. Args,
    Raises: as of `Trainer`.
    """
    config.check()
    trackers.require(config.log)
    if not ranks.first:  # Only the first one logs.
        config = config.merged({"log": {"dashboard": "off", "tensorboard": False, "wandb": "off"}})
    device = choose_device(ranks.device(config.train.device))
    make_current(device)
    spec = target.env_spec(config)
    if (entries := explicit_map(spec, policy_map or config.policy.map)) != config.policy.map:
        config = config.merged({"policy": {"map": entries}})
    minibatches = config.check_batch(spec.agents * config.learned_envs)
    spec_hash = target.spec_hash(spec)
    bf16 = use_bf16(config.train.precision, device)
    _refuse(config, spec, device, bf16, policies)
    settings = {
        name: table for name, table in config.tables().items() if name not in ("log", "ray")
    }
    match(ranks, "settings", json.dumps([config.target, spec_hash, bf16, settings]))
    ranks.use(device)
    team = ranks.team(config.train.tensor_parallel)
    shared = ranks.broadcast_object([path and str(path) for path in (checkpoint, folder)])
    checkpoint, folder = (path and Path(path) for path in shared)
    found = None
    if checkpoint is None:
        opponents = of_config(config, spec, ranks)
    else:
        found = _read(checkpoint, config, spec_hash, ranks.rank)
        config = state.as_trained(config, spec.groups, found.manifest, found.tensors)
        folder, opponents = find.run_folder_of(checkpoint) or folder, of_checkpoint(config, found)
    if mixed := [name for name in opponents if name in policies]:
        raise ConfigError(
            f"policies: {mixed[0]!r} is played by an opponent: leave it out, or "
            f"policies.{mixed[0]}.opponent"
        )
    config = with_networks(config, opponents)
    manifest = None if found is None else found.manifest
    chosen = startup.choose(
        config, spec, device, make_vec, policies, manifest, measure=ranks.size == 1
    )
    config, rows = chosen.config, policy_rows(spec, chosen.config)
    return Setup(
        config,
        ranks,
        device,
        spec_hash,
        minibatches,
        checkpoint,
        folder,
        chosen,
        rows,
        team,
        opponents,
    ), found


def _refuse(
    config: TrainConfig,
    spec: EnvSpec,
    device: torch.device,
    bf16: bool,
    policies: Mapping[str, nn.Module],
) -> None:
    """Raise ConfigError for what the env, this machine or a given policy cannot do."""
    rows = policy_rows(spec, config)
    if joint := [own.group for own in rows.values() if own.section.joint]:
        refuse_joint(joint)
    if not any(own.settings.role.learns for own in rows.values()):
        raise ConfigError(
            f"none of the policies {', '.join(rows)} is to be trained: let one have to_train and "
            "no opponent"
        )
    obs_dtype, copies = torch.bfloat16 if bf16 else None, 2 if config.train.asynchronous else 1
    refuse_large(
        rows.values(), config.learned_envs, config.train.horizon, device, obs_dtype, copies=copies
    )
    state.check_names(rows)
    refuse_large_policies(rows, policies, device)
    try_policies(rows, policies)
    if any(own.settings.train.plan != "eager" for own in rows.values()):
        door("plan", "train.plan").check_plans(rows, policies, device)


def _read(path: Path, config: TrainConfig, spec_hash: str, rank: int) -> ckpt.Checkpoint:
    """Return a checkpoint of this env. Raises: CheckpointError."""
    found = ckpt.read(path, state.stems_for(rank, ckpt.read_manifest(path)))
    if found.manifest["env"] != config.target:
        raise CheckpointError(f"{path} is of env {found.manifest['env']!r}, not {config.target!r}")
    if found.manifest["spec_hash"] != spec_hash:
        raise CheckpointError(
            f"{path} was made with other observations or actions than these env settings give"
        )
    return found


def make_vec(config: TrainConfig, seed: int | None = None) -> VectorEnv:
    """Start the workers of a run; env i gets seed + i. seed: None: that of the config."""
    v = config.vec.resolved(config.python)
    batches = (
        {"batch_size": v.batch_size}
        if v.batch_size
        else {"num_buffers": v.num_buffers, "split": v.split}
    )
    return puffervec.make(
        config.creator or config.target,
        env_kwargs=config.env,
        backend=v.backend,
        num_envs=v.num_envs,
        num_workers=v.num_workers,
        seed=config.train.seed if seed is None else seed,
        autoreset_mode="next_step",
        timeout_s=v.timeout_s,
        **batches,
    )
