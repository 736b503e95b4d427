# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""The policies of a checkpoint as networks.

They serve for evaluation, export and inference, and in other runs for further training or as
opponents. A checkpoint may come from an untrusted source: only code that the caller has named is
imported or called. Runs in the learner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from puffervec.errors import CheckpointError
from puffervec.train.config.sections import TrainConfig
from puffervec.train.policies.mapping import PolicyRows
from puffervec.train.policies.run_spec import RunSpec
from puffervec.train.run import checkpoint as ckpt
from puffervec.train.run.rundir import config_from_tables
from puffervec.train.run.state import Tensors, actor_weights, as_trained


def load_policies(
    path: Path,
    device: torch.device,
    trusted: Collection[str | None] = (),
    env: Callable[..., Any] | None = None,
    made: Mapping[str, nn.Module] | None = None,
    adapt: Callable[[TrainConfig], TrainConfig] | None = None,
) -> tuple[RunSpec, dict[str, nn.Module]]:
    """Load the definition of a run and its policies from a checkpoint folder.

    An opponent pool is loaded as its newest member.

    Args:
        path: the checkpoint folder.
        device: device for the policies.
        trusted: names of a custom env and policy that the user has given, because the checkpoint
            alone must not cause code to be imported.
        env: creates the Python env, in place of the name in the checkpoint.
        made: networks to load the weights into, by policy.
        adapt: maps the run's config to the one that the policies are used with. Only the env of the
            result is opened, because the run's scenes may be gone.

    Raises:
        CheckpointError: the checkpoint cannot be read or does not fit.
        ConfigError: the config in it is not valid or names code that is not trusted.
    """
    manifest = ckpt.read_manifest(path)
    config = config_from_tables(manifest["config"], trusted, env, learns=False)
    if adapt is not None:
        config = adapt(config)
    names = tuple(manifest["policies"])
    found = ckpt.read(path, only=names)
    run = RunSpec.of(config, device)
    run = run.with_config(as_trained(config, run.spec.groups, manifest, found.tensors))
    policies = {}
    for name in names:
        if name not in run.rows:
            raise CheckpointError(
                f"{path}: the env has no rows for the policy {name!r}, only for "
                f"{', '.join(run.rows)}"
            )
        weights, given = actor_weights(found, name), (made or {}).get(name)
        policies[name] = with_weights(path, name, run.rows[name], weights, given, device)
    return run, policies


def initial_policies(path: Path, config: TrainConfig) -> dict[str, nn.Module]:
    """Return the policies that a new run trains, on the CPU, with weights of a checkpoint folder.

    Args:
        path: the checkpoint folder.
        config: config of the new run.

    Raises:
        CheckpointError: the checkpoint lacks one of these policies, or has one of another size.
    """
    rows = RunSpec.of(config).rows
    found = ckpt.read(path, only=tuple(ckpt.read_manifest(path)["policies"]))
    cpu = torch.device("cpu")
    return {
        name: with_weights(path, name, own, actor_weights(found, name), None, cpu).train()
        for name, own in rows.items()
        if own.settings.role.learns
    }


def with_weights(
    path: Path,
    name: str,
    rows: PolicyRows,
    weights: Tensors,
    given: nn.Module | None,
    device: torch.device,
) -> nn.Module:
    """Return a policy with weights of a checkpoint, in evaluation mode.

    Args:
        path: the checkpoint folder, for messages.
        name: name of the policy, for messages.
        rows: the rows that the policy acts for.
        weights: weights by parameter or buffer name.
        given: the network to load them into; None builds one.
        device: device for the policy.

    Raises:
        CheckpointError: the weights do not fit or are not finite.
    """
    if given is None:
        _check_sizes(path, rows, weights)
        given = rows.build()
    policy = given.to(device)
    constants = _not_finite(policy)  # infinities by design, such as in a mask
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"{path}: the weights of {name!r} do not fit: {error}") from error
    if bad := _not_finite(policy) - constants:
        raise CheckpointError(
            f"{path}: {min(bad)} of {name!r} is not finite: use an older checkpoint of the run"
        )
    return policy.eval()


def _not_finite(policy: nn.Module) -> set[str]:
    return {
        name for name, tensor in policy.state_dict().items() if not bool(tensor.isfinite().all())
    }


def _check_sizes(path: Path, rows: PolicyRows, weights: Tensors) -> None:
    """Raise CheckpointError if the config's policy differs in size from the weights.

    This is checked before any memory is allocated for the policy.
    """
    with torch.device("meta"):
        planned = rows.build().state_dict()
    if {name: tuple(w.shape) for name, w in planned.items()} != {
        name: tuple(w.shape) for name, w in weights.items()
    }:
        raise CheckpointError(
            f"{path}: the weights do not fit: use the env and [policy] settings of its run"
        )
