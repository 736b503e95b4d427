# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's stock policies, with its parameter names, so that its checkpoints load.

A policy has two halves: `encode_observations(observations, state)` returns (B, hidden_size), and
`decode_actions(hidden)` returns (logits, values (B, 1)). `LSTMWrapper` puts an LSTM between the
two halves of any such policy. `env` is anything with the attributes single_observation_space,
single_action_space and emulated: a vector env, or its driver_env. The policies run in the learner.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from puffervec.system import extras

with extras.required("pufferlib.models"):
    import torch
    from torch import Tensor, nn

from puffervec.compat.pufferlib.pytorch import (
    Logits,
    flattened_tensor_size,
    layer_init,
    nativize_dtype,
    nativize_tensor,
)
from puffervec.errors import ConfigError

__all__ = [
    "Convolutional",
    "ConvSequence",
    "Default",
    "LSTMWrapper",
    "ProcgenResnet",
    "ResidualBlock",
]

State = dict[str, Any]


class _Policy(nn.Module):
    """Base of the policies: the forward pass runs the two halves in order."""

    is_continuous = False

    def encode_observations(self, observations: Tensor, state: State | None = None) -> Tensor:
        """Return (B, hidden_size) float features of (B, *observation)."""
        raise NotImplementedError

    def decode_actions(self, hidden: Tensor) -> tuple[Logits, Tensor]:
        """Return (the input of `sample_logits`, values (B, 1)) for features (B, hidden_size)."""
        raise NotImplementedError

    def forward(self, observations: Tensor, state: State | None = None) -> tuple[Logits, Tensor]:
        """Return (logits, values (B, 1)) of (B, *observation); `state` is not used."""
        return self.decode_actions(self.encode_observations(observations, state))

    forward_eval = forward_train = forward  # These are equal in a policy without memory.


class Default(_Policy):
    """A layer from the observation to `hidden_size`, and linear maps to the actions and the value.

    Takes plain boxes of any shape, emulated Dict and Tuple observations, and all action spaces of a
    vector env: the logits are a tensor for Discrete, a tuple of tensors for MultiDiscrete, a Normal
    for a Box.
    """

    def __init__(self, env: Any, hidden_size: int = 128) -> None:
        """Make the layers.

        Args:
            env: see the module docstring.
            hidden_size: number of features between the halves.

        Raises: ConfigError.
        """
        super().__init__()
        self.hidden_size = hidden_size
        emulated = env.emulated
        layout = nativize_dtype(emulated) if emulated else None
        self.is_dict_obs = isinstance(layout, dict)
        if isinstance(layout, dict):
            self.dtype = layout
            self.encoder: nn.Module = nn.Linear(flattened_tensor_size(layout), hidden_size)
        else:
            features = math.prod(env.single_observation_space.shape)
            self.encoder = nn.Sequential(nn.Linear(features, hidden_size), nn.GELU())
        self._make_decoder(env.single_action_space)
        self.value = layer_init(nn.Linear(hidden_size, 1), std=1.0)

    def _make_decoder(self, space: spaces.Space[Any]) -> None:
        self.is_multidiscrete = isinstance(space, spaces.MultiDiscrete)
        self.is_continuous = isinstance(space, spaces.Box)
        if isinstance(space, spaces.Box):
            dims = math.prod(space.shape)
            self.decoder_mean = layer_init(nn.Linear(self.hidden_size, dims), std=0.01)
            self.decoder_logstd = nn.Parameter(torch.zeros(1, dims))
        elif isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
            sizes = (
                space.nvec.ravel()
                if isinstance(space, spaces.MultiDiscrete)
                else np.array([space.n])
            )
            self.action_nvec = tuple(int(n) for n in sizes)
            self.decoder = layer_init(nn.Linear(self.hidden_size, sum(self.action_nvec)), std=0.01)
        else:
            raise ConfigError(
                f"the action space is {space}: use Discrete, MultiDiscrete or Box, or emulate it "
                "first"
            )

    def encode_observations(self, observations: Tensor, state: State | None = None) -> Tensor:
        rows = observations.shape[0]
        if self.is_dict_obs:
            leaves = _leaves(nativize_tensor(observations, self.dtype))
            flat = torch.cat([leaf.reshape(rows, -1).float() for leaf in leaves], dim=1)
        else:
            flat = observations.reshape(rows, -1).float()
        return self.encoder(flat)  # type: ignore[no-any-return]

    def decode_actions(self, hidden: Tensor) -> tuple[Logits, Tensor]:
        """Return (logits as described in the class, values (B, 1)) of (B, hidden_size)."""
        values = self.value(hidden)
        if self.is_continuous:
            mean = self.decoder_mean(hidden)
            return torch.distributions.Normal(
                mean, self.decoder_logstd.expand_as(mean).exp()
            ), values
        logits = self.decoder(hidden)
        return logits.split(self.action_nvec, dim=-1) if self.is_multidiscrete else logits, values


def _leaves(nested: Any) -> list[Tensor]:
    """Return the tensors of a nested dict as a list, in the order of the space."""
    return (
        [leaf for entry in nested.values() for leaf in _leaves(entry)]
        if isinstance(nested, dict)
        else [nested]
    )


class LSTMWrapper(nn.Module):
    """An LSTM between the halves of a policy.

    `state` is a dict that the caller keeps. "lstm_h" and "lstm_c" are read from it (absent or None:
    zeros) and replaced; they are (B, hidden_size) in `forward_eval` and (1, B, hidden_size) in
    `forward`. "hidden" is set to the LSTM's output. The caller must reset the rows whose episode
    ended.
    """

    def __init__(
        self, env: Any, policy: Any, input_size: int = 128, hidden_size: int = 128
    ) -> None:
        """Make the LSTM; the policy's weights do not change.

        Args:
            env: see the module docstring; gives the shape of an observation.
            policy: policy with the two halves.
            input_size: number of features that the policy's `encode_observations` returns.
            hidden_size: number of features that the policy's `decode_actions` takes.
        """
        super().__init__()
        self.obs_shape = tuple(env.single_observation_space.shape)
        self.policy = policy
        self.input_size, self.hidden_size = input_size, hidden_size
        self.is_continuous = bool(policy.is_continuous)
        self.lstm = nn.LSTM(input_size, hidden_size)
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.orthogonal_(parameter)
        # The cell shares the LSTM's weights; it is faster than a sequence of length 1.
        self.cell = nn.LSTMCell(input_size, hidden_size)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(self.cell, name, getattr(self.lstm, f"{name}_l0"))

    def forward_eval(self, observations: Tensor, state: State) -> tuple[Logits, Tensor]:
        """Take one step: (B, *observation) to (logits, values (B, 1)).

        Raises:
            ConfigError: the state has another number of rows.
        """
        memory = self._memory(state, (observations.shape[0], self.hidden_size))
        hidden, cell = self.cell(self.policy.encode_observations(observations, state=state), memory)
        state.update(hidden=hidden, lstm_h=hidden, lstm_c=cell)
        return self.policy.decode_actions(hidden)  # type: ignore[no-any-return]

    def forward(self, observations: Tensor, state: State) -> tuple[Logits, Tensor]:
        """Run sequences: (B, T, *observation), or (B, *observation) for T = 1.

        Returns: (logits, values (B, T)). The logits have B*T rows; step t of sequence b is row
        b*T + t. The new memory is detached.

        Raises:
            ConfigError: the observations have another shape, or the state another number of rows.
        """
        lead = observations.shape[: observations.dim() - len(self.obs_shape)]
        if tuple(observations.shape[len(lead) :]) != self.obs_shape or len(lead) not in (1, 2):
            raise ConfigError(
                f"observations have shape {tuple(observations.shape)}: use (B, T or nothing, "
                f"*{self.obs_shape})"
            )
        batch, steps = lead[0], lead[1] if len(lead) == 2 else 1
        flat = observations.reshape(batch * steps, *self.obs_shape)
        encoded = self.policy.encode_observations(flat, state=state).reshape(
            batch, steps, self.input_size
        )
        memory = self._memory(state, (1, batch, self.hidden_size))
        hidden, (last_h, last_c) = self.lstm(encoded.transpose(0, 1), memory)
        hidden = hidden.transpose(0, 1)
        state.update(hidden=hidden, lstm_h=last_h.detach(), lstm_c=last_c.detach())
        logits, values = self.policy.decode_actions(hidden.reshape(batch * steps, self.hidden_size))
        return logits, values.reshape(batch, steps)

    def _memory(self, state: State, shape: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
        h, c = state.get("lstm_h"), state.get("lstm_c")
        if h is None or c is None:
            return None
        if tuple(h.shape) != shape or tuple(c.shape) != shape:
            raise ConfigError(
                f"state has lstm_h {tuple(h.shape)} and lstm_c {tuple(c.shape)}: use {shape}, or "
                "None to begin"
            )
        return h, c


class Convolutional(_Policy):
    """Three convolutions and a linear layer over images of bytes, for one discrete action.

    Source: Mnih et al. 2015, Nature 518.
    """

    def __init__(
        self,
        env: Any,
        *,
        framestack: int,
        flat_size: int,
        input_size: int = 512,
        hidden_size: int = 512,
        output_size: int = 512,
        channels_last: bool = False,
        downsample: int = 1,
    ) -> None:
        """Make the layers.

        Args:
            env: see the module docstring; its actions are Discrete.
            framestack: number of channels of an image.
            flat_size: number of features after the convolutions: 64 * h * w of the reduced image
                (3136 for 84 x 84).
            input_size: not used; accepted as in PufferLib.
            hidden_size: number of features between the halves.
            output_size: number of input features of the value layer; must equal hidden_size.
            channels_last: True: images are (H, W, C).
            downsample: use every n-th row and column.

        Raises: ConfigError.
        """
        super().__init__()
        if output_size != hidden_size:
            raise ConfigError(
                f"output_size is {output_size} and hidden_size {hidden_size}: they must be equal, "
                "as both are the input of decode_actions"
            )
        self.channels_last, self.downsample = channels_last, downsample
        self.hidden_size = hidden_size
        self.network = nn.Sequential(
            layer_init(nn.Conv2d(framestack, 32, 8, stride=4)),
            nn.ReLU(),
            layer_init(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)),
            nn.ReLU(),
            nn.Flatten(),
            layer_init(nn.Linear(flat_size, hidden_size)),
            nn.ReLU(),
        )
        self.actor = layer_init(nn.Linear(hidden_size, _choices(env)), std=0.01)
        self.value_fn = layer_init(nn.Linear(output_size, 1), std=1.0)

    def encode_observations(self, observations: Tensor, state: State | None = None) -> Tensor:
        """Return (B, hidden_size) features of images with values 0 to 255.

        The images are (B, C, H, W), or (B, H, W, C) with channels_last.
        """
        if self.channels_last:
            observations = observations.permute(0, 3, 1, 2)
        if self.downsample > 1:
            observations = observations[:, :, :: self.downsample, :: self.downsample]
        return self.network(observations.float() / 255.0)  # type: ignore[no-any-return]

    def decode_actions(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(hidden), self.value_fn(hidden)


class ProcgenResnet(_Policy):
    """Residual convolutions over images (H, W, C) of bytes, for one discrete action.

    Source: Espeholt et al. 2018, IMPALA, figure 3.
    """

    def __init__(self, env: Any, cnn_width: int = 16, mlp_width: int = 256) -> None:
        """Make the layers.

        Args:
            env: see the module docstring.
            cnn_width: number of channels of the first block.
            mlp_width: number of features between the halves.
        """
        super().__init__()
        height, width, channels = env.single_observation_space.shape
        shape = (channels, height, width)
        layers: list[nn.Module] = []
        for out_channels in (cnn_width, 2 * cnn_width, 2 * cnn_width):
            block = ConvSequence(shape, out_channels)
            shape = block.get_output_shape()
            layers.append(block)
        layers += [nn.Flatten(), nn.ReLU(), nn.Linear(math.prod(shape), mlp_width), nn.ReLU()]
        self.hidden_size = mlp_width
        self.network = nn.Sequential(*layers)
        self.actor = layer_init(nn.Linear(mlp_width, _choices(env)), std=0.01)
        self.value = layer_init(nn.Linear(mlp_width, 1), std=1.0)

    def encode_observations(self, observations: Tensor, state: State | None = None) -> Tensor:
        """Return (B, mlp_width) features of images (B, H, W, C) with values 0 to 255."""
        images = observations.permute(0, 3, 1, 2)
        return self.network(images.float() / 255.0)  # type: ignore[no-any-return]

    def decode_actions(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(hidden), self.value(hidden)


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions whose result is added to the input, without changing the shape."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv0 = nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        self.conv1 = nn.Conv2d(channels, channels, kernel_size=3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to the same shape."""
        inner = self.conv0(torch.relu(x))
        return x + self.conv1(torch.relu(inner))  # type: ignore[no-any-return]


class ConvSequence(nn.Module):
    """A convolution, a pooling that halves the image, and two residual blocks."""

    def __init__(self, input_shape: tuple[int, int, int], out_channels: int) -> None:
        super().__init__()
        self._input_shape, self._out_channels = input_shape, out_channels
        self.conv = nn.Conv2d(input_shape[0], out_channels, kernel_size=3, padding=1)
        self.res_block0 = ResidualBlock(out_channels)
        self.res_block1 = ResidualBlock(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, *input_shape) to (B, *get_output_shape())."""
        pooled = nn.functional.max_pool2d(self.conv(x), kernel_size=3, stride=2, padding=1)
        return self.res_block1(self.res_block0(pooled))  # type: ignore[no-any-return]

    def get_output_shape(self) -> tuple[int, int, int]:
        """Return (C, H, W) of the result; halves of odd sizes are rounded up."""
        _, height, width = self._input_shape
        return self._out_channels, (height + 1) // 2, (width + 1) // 2


def _choices(env: Any) -> int:
    """Return the number of actions of a Discrete space, or raise ConfigError."""
    space = env.single_action_space
    if not isinstance(space, spaces.Discrete):
        raise ConfigError(f"the action space is {space}: this policy needs a Discrete space")
    return int(space.n)
