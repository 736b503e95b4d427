# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Define the network of PufferDrive, which reads its observations and can hold its weights.

    pufferdrive_ego (7,) or pufferdrive_jerk_ego (10,)  --  encoder  --------------+
    pufferdrive_roads (n, 6 numbers and a type)  --  encoder  --  max over n  -----+
    pufferdrive_partners (n, 7)  --  encoder  --  max over n  ---------------------+
        --  concatenated, GELU, Linear, ReLU  --  LSTM  --  logits, value

An encoder is Linear, LayerNorm, Linear, without activations. The type of a road segment becomes
seven columns, one of which is 1. An empty slot is an object whose numbers are 0: the encoders have
biases, so it takes part in the maximum, and the weights were trained that way.

The parameters are in the order in which PufferLib exports them, so that a file of its weights is
read by walking over them. Source: PufferDrive of November 2025, class Drive in
`pufferlib/ocean/torch.py`, and `drivenet.h`, which reads the files in C. This is stop 7 of an
observation's path from env to policy.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from puffervec.core.spec import GroupSpec
from puffervec.errors import ConfigError
from puffervec.train.config.sections import PolicySection
from puffervec.train.policies.distributions import ActionSpec, Heads, masked
from puffervec.train.policies.leaves import ROW, Observation, by_key
from puffervec.train.policies.memory import LSTM, State
from puffervec.train.policies.mlp import linear
from puffervec.train.policies.object_set import max_over_objects

EGO_COLUMNS = {"pufferdrive_ego": 7, "pufferdrive_jerk_ego": 10}
OBJECTS = ("pufferdrive_partners", "pufferdrive_roads")
PARTNER_COLUMNS = ROAD_COLUMNS = 7  # The last column of a road segment is its type.
ROAD_TYPES = 7
ROAD_INPUTS = ROAD_COLUMNS - 1 + ROAD_TYPES
WIDTH, HIDDEN = 64, 256  # Of an encoder, and of the layers behind them.


def count_parameters(ego_columns: int, outputs: int) -> int:
    """Return the number of parameters of the network.

    Args:
        ego_columns: 7, or 10 under `dynamics=jerk`.
        outputs: Sum of the choices of all heads.

    >>> count_parameters(7, 7 * 13), count_parameters(7, 7 + 13)
    (614172, 595925)
    """
    encoders = sum(
        WIDTH * (inputs + 1) + 2 * WIDTH + WIDTH * (WIDTH + 1)
        for inputs in (ego_columns, ROAD_INPUTS, PARTNER_COLUMNS)
    )
    lstm = 4 * HIDDEN * (2 * HIDDEN + 2)
    return encoders + HIDDEN * (3 * WIDTH + 1) + (outputs + 1) * (HIDDEN + 1) + lstm


class PufferDrivePolicy(nn.Module):
    """PufferDrive's network with an LSTM, for drive with `observation=pufferdrive`."""

    road_types: Tensor

    def __init__(self, group: GroupSpec, section: PolicySection) -> None:
        """Create the network; its widths and its LSTM are fixed.

        Args:
            group: Gives the blocks of observations and the actions.
            section: Only `joint` is read.

        Raises:
            ConfigError: The rows are not PufferDrive's, or the actions are continuous.
        """
        super().__init__()
        _check_rows(group)
        spec = ActionSpec.of(group, section.joint)
        if not spec.discrete:
            raise ConfigError(
                "policy.kind is pufferdrive, but the actions are continuous: use --env.actions "
                "discrete or multi_discrete"
            )
        self.parts, self.head_sizes = spec.parts, list(spec.head_sizes)
        self.columns = [field.size for field in group.fields]
        self.ego_encoder = encoder(self.columns[0])
        self.road_encoder = encoder(ROAD_INPUTS)
        self.partner_encoder = encoder(PARTNER_COLUMNS)
        self.shared_embedding = linear(3 * WIDTH, HIDDEN)
        self.actor = linear(HIDDEN, sum(self.head_sizes), gain=0.01)
        self.value = linear(HIDDEN, 1, gain=1.0)
        self.memory = LSTM(HIDDEN)
        self.register_buffer("road_types", torch.arange(float(ROAD_TYPES)), persistent=False)

    def features(self, row: Tensor) -> Tensor:
        """Return the input of the LSTM, (..., HIDDEN).

        Args:
            row: (..., F) float32.
        """
        ego, partners, roads = torch.split(row, self.columns, dim=-1)
        partners = torch.unflatten(partners, -1, (-1, PARTNER_COLUMNS))
        roads = torch.unflatten(roads, -1, (-1, ROAD_COLUMNS))
        types = (roads[..., -1:] == self.road_types).to(row.dtype)
        features = torch.cat(
            [
                self.ego_encoder(ego),
                max_over_objects(self.road_encoder(torch.cat([roads[..., :-1], types], dim=-1))),
                max_over_objects(self.partner_encoder(partners)),
            ],
            dim=-1,
        )
        return torch.relu(self.shared_embedding(nn.functional.gelu(features)))

    def initial_state(self, rows: int) -> State:
        """Return the LSTM's state of fresh rows."""
        return self.memory.initial_state(rows)

    def forward(
        self,
        obs: Observation,
        state: State = (),
        reset: Tensor | None = None,
        action_mask: Tensor | None = None,
    ) -> tuple[Heads, Tensor, State]:
        """See protocol.py."""
        x, state = self.memory(self.features(by_key(obs)[ROW].float()), state, reset)
        # In float32, like the heads of the other policies: see ActorCritic in mlp.py.
        with torch.autocast(x.device.type, enabled=False):
            heads = torch.split(self.actor(x.float()), self.head_sizes, dim=-1)
            value = self.value(x.float()).squeeze(-1)
        return masked(heads, action_mask, self.parts), value, state


def encoder(inputs: int) -> nn.Sequential:
    """Return the layers that encode one object, or the car itself."""
    return nn.Sequential(linear(inputs, WIDTH), nn.LayerNorm(WIDTH), linear(WIDTH, WIDTH))


def _check_rows(group: GroupSpec) -> None:
    """Raise ConfigError unless a row has the blocks and columns that the network reads."""
    names = [field.name for field in group.fields]
    if names[0] not in EGO_COLUMNS or tuple(names[1:]) != OBJECTS:
        raise ConfigError(
            f"policy.kind is pufferdrive, but a row consists of {', '.join(names)}: use drive with "
            "--env.observation pufferdrive and without further blocks"
        )
    if any(field.dtype.kind != "f" for field in group.fields):
        raise ConfigError(
            f"policy.kind is pufferdrive, but rows hold {group.fields[0].dtype}: use "
            "--env.row-dtype float32 or float16"
        )
