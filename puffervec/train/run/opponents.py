# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Frozen policies of other runs that act for a policy of this run (`[policies.NAME] opponent`).

    opponent = "runs/one"                    the newest checkpoint of a run, or one checkpoint
    opponent = "runs/one/checkpoints"        a pool: every checkpoint in it, the newest last
    opponent = ["runs/one", "runs/two"]      a pool

They are read once, when a run begins. The run's own checkpoints contain their weights, so it can be
resumed, evaluated and exported after those runs are deleted. Runs in the learner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from puffervec.errors import CheckpointError, ConfigError, PuffervecError
from puffervec.train.config.sections import PolicySection, TrainConfig
from puffervec.train.config.tables import table_of
from puffervec.train.device.ranks import Ranks
from puffervec.train.policies.mapping import PolicyRows
from puffervec.train.policies.pool import Pool
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.find import find_checkpoints
from puffervec.train.run.rundir import config_of
from puffervec.train.run.state import POOL, Tensors, actor_weights, as_trained
from puffervec.train.run.trained import with_weights


@dataclasses.dataclass(frozen=True)
class Opponents:
    """The opponents for one policy of a run: one network, or a pool with the newest last.

    Attributes:
        weights: the weights of each network.
        sources: checkpoint folder, policy name and SHA-256 of the weights of each network, for the
            manifest.
        section: the settings of the networks.
    """

    weights: tuple[Tensors, ...]
    sources: tuple[Mapping[str, str], ...]
    section: PolicySection

    def build(self, rows: PolicyRows, seed: int) -> nn.Module:
        """Build the network or the pool.

        Args:
            rows: the rows that the opponents act for.
            seed: seed for drawing the member of the pool that plays.

        Raises:
            CheckpointError: the weights do not fit.
        """
        own = dataclasses.replace(
            rows, settings=dataclasses.replace(rows.settings, policy=self.section)
        )
        cpu = torch.device("cpu")
        parts = [
            with_weights(Path(source["checkpoint"]), "an opponent", own, weights, None, cpu)
            for source, weights in zip(self.sources, self.weights, strict=True)
        ]
        for part in parts:
            part.requires_grad_(False)
        return parts[0] if len(parts) == 1 else Pool(parts, rows.group.agents, seed)


def of_config(run: RunSpec, ranks: Ranks) -> dict[str, Opponents]:
    """Return the opponents that the settings of a new run name, by policy.

    Raises:
        ConfigError: the observations, actions or rows of an opponent differ from those of this
            run.
        CheckpointError: a checkpoint is missing or cannot be read.
    """
    found = {}
    for name, rows in run.rows.items():
        if places := rows.settings.role.opponent:
            setting = f"policies.{name}.opponent"
            paths = find_places(setting, places, run.config.log.folder, ranks)
            parts = [read_policy(path, setting, name, rows, run) for path in paths]
            if different := [
                path for path, part in zip(paths, parts, strict=True) if part[2] != parts[0][2]
            ]:
                both = f"{paths[0]} and {different[0]}"
                raise ConfigError(
                    f"{setting}: the networks of {both} differ: use networks of one kind in a pool"
                )
            found[name] = Opponents(
                tuple(part[0] for part in parts), tuple(part[1] for part in parts), parts[0][2]
            )
    return found


def of_checkpoint(
    config: TrainConfig, before: TrainConfig, found: ckpt.Checkpoint
) -> dict[str, Opponents]:
    """Return the opponents of a resumed run from its checkpoint, by policy.

    Args:
        config: config of the run.
        before: config of the checkpoint's run.
        found: the checkpoint.

    Raises:
        CheckpointError: the settings name other opponents, or the checkpoint lacks one.
    """
    opponents = {}
    for name, entry in found.manifest["policies"].items():
        now, then = config.of_policy(name).role.opponent, before.of_policy(name).role.opponent
        if now != then:
            raise CheckpointError(
                f"policies.{name}.opponent is {list(now)}, but {list(then)} in the checkpoint: "
                "leave it unchanged; only a new run can have another"
            )
        if then:
            sources = tuple(entry.get("opponents", ()))
            pool = found.tensors.get(POOL, {})
            older = [
                {
                    key.removeprefix(f"{name}/{i}/"): part
                    for key, part in pool.items()
                    if key.startswith(f"{name}/{i}/")
                }
                for i in range(len(sources) - 1)
            ]
            opponents[name] = Opponents(
                (*older, actor_weights(found, name)), sources, before.of_policy(name).policy
            )
    return opponents


def with_networks(config: TrainConfig, opponents: Mapping[str, Opponents]) -> TrainConfig:
    """Return the config with the settings of the opponents' networks, for the checkpoints."""
    common = table_of(config.policy)
    tables = {
        name: {
            key: value
            for key, value in table_of(found.section).items()
            if key != "map" and value != common[key]
        }
        for name, found in opponents.items()
    }
    policies = dict(config.policies)
    for name, table in tables.items():
        kept = {key: value for key, value in policies.get(name, {}).items() if key not in common}
        policies[name] = kept | table
    return dataclasses.replace(config, policies=policies)


def find_places(setting: str, places: Sequence[str], runs: Path, ranks: Ranks) -> list[Path]:
    """Return the checkpoints that a setting names; the first rank resolves them for all.

    Raises:
        ConfigError: a place has no checkpoint.
    """
    shared: tuple[list[str], str] = ([], "")
    if ranks.first:
        try:
            shared = [str(path) for place in places for path in find_checkpoints(place, runs)], ""
        except PuffervecError as error:
            shared = [], str(error)
    paths, words = ranks.broadcast_object(shared)
    if words:
        raise ConfigError(f"{setting}: {words}")
    return [Path(path) for path in paths]


def read_policy(
    path: Path, setting: str, name: str, rows: PolicyRows, run: RunSpec
) -> tuple[Tensors, dict[str, str], PolicySection]:
    """Read the policy that acts for `rows` in the run of a checkpoint.

    Args:
        path: the checkpoint.
        setting: the setting that names it, for messages.
        name: name of the policy of this run; the other run's policy of that name is preferred.
        rows: the rows that it acts for.
        run: this run.

    Returns:
        Its weights, its source for the manifest, and the settings of its network.

    Raises:
        ConfigError: the policy does not act for these rows, or its observations or actions differ.
        CheckpointError: the checkpoint cannot be read.
    """
    config, manifest = run.config, ckpt.read_manifest(path)
    if manifest["env"] != config.target or manifest["spec_hash"] != run.spec.policy_hash():
        raise ConfigError(
            f"{setting}: {path} is a checkpoint of {manifest['env']} whose observations or actions "
            "differ from those of this run"
        )
    theirs = dataclasses.replace(config_of(manifest, config), env=config.env)
    found = ckpt.read(path, only=tuple(manifest["policies"]))
    acting = run.with_config(as_trained(theirs, run.spec.groups, manifest, found.tensors)).rows
    own = (
        name
        if name in acting
        else next((other for other, theirs in acting.items() if _acts_for(theirs, rows)), None)
    )
    if own is None or not _acts_for(acting[own], rows):
        raise ConfigError(
            f"{setting}: no policy of {path} acts for the agents of {name!r}: it "
            f"has {', '.join(acting)}"
        )
    digest = manifest["files"][f"{own}.safetensors"]
    return (
        actor_weights(found, own),
        {"checkpoint": str(path), "policy": own, "sha256": digest},
        acting[own].section,
    )


def _acts_for(theirs: PolicyRows, rows: PolicyRows) -> bool:
    """Return True if a policy acts for all agents of these rows, and possibly for more."""
    if theirs.group.name != rows.group.name:
        return False
    return theirs.agents is None or (
        rows.agents is not None and set(rows.agents) <= set(theirs.agents)
    )
