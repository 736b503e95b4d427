# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""PufferLib's torch helpers: emulated rows as structured tensors, layer initialization, sampling.

Runs in the learner.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from puffervec.system import extras

with extras.required("pufferlib.pytorch"):
    import torch
    from torch import Tensor, nn

from puffervec.errors import ActionError, ConfigError

__all__ = [
    "NativeDType",
    "compilable_cast",
    "entropy",
    "entropy_probs",
    "flattened_tensor_size",
    "layer_init",
    "log_prob",
    "nativize_dtype",
    "nativize_observation",
    "nativize_tensor",
    "numpy_to_torch_dtype_dict",
    "round_to",
    "sample_logits",
]

numpy_to_torch_dtype_dict = {
    np.dtype(name): getattr(torch, name)
    for name in (
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    )
}

# One leaf: (torch dtype, shape, first element, number of elements), where the last two count
# elements of the row. Or a dict of leaves by name.
NativeLeaf = tuple[torch.dtype, tuple[int, ...], int, int]
NativeDType = NativeLeaf | dict[str, "NativeDType"]
Logits = Tensor | Sequence[Tensor] | torch.distributions.Normal
Layer = TypeVar("Layer", bound=nn.Module)


# ---- emulated observations -----------------------------------------------------------------------


def nativize_dtype(emulated: Any) -> NativeDType:
    """Return where each leaf of an emulated observation is in its flat row.

    Args:
        emulated: `driver_env.emulated`: a mapping or an object with `observation_dtype` (dtype of
            the flat row) and `emulated_observation_dtype` (the aligned structured dtype of the
            native observation).

    Returns: one leaf (torch dtype, shape, offset, length), or a dict of them by name, nested as in
    the space; the entries of a Tuple are called "f0", "f1", ... A scalar leaf has shape (1,).
    Offset and length count elements of the row.

    Raises:
        ConfigError: a leaf has a dtype that torch does not have.
    """
    row, native = (
        _entry(emulated, name) for name in ("observation_dtype", "emulated_observation_dtype")
    )
    return _layout(np.dtype(native), np.dtype(row).base.itemsize, 0, "the observation")


def _entry(emulated: Any, name: str) -> Any:
    return emulated[name] if isinstance(emulated, Mapping) else getattr(emulated, name)


def _layout(native: np.dtype[Any], row_itemsize: int, offset: int, path: str) -> NativeDType:
    """Return the layout of a dtype, using NumPy's offsets, which include all padding."""
    if native.fields is not None:
        leaves = {name: (field[0], offset + field[1]) for name, field in native.fields.items()}
        return {
            name: _layout(leaf, row_itemsize, start, f"{path}[{name!r}]")
            for name, (leaf, start) in leaves.items()
        }
    base, shape = native.subdtype if native.subdtype is not None else (native, (1,))
    if base not in numpy_to_torch_dtype_dict:
        known = ", ".join(str(dtype) for dtype in numpy_to_torch_dtype_dict)
        raise ConfigError(f"{path} has dtype {base}, which torch does not have: use one of {known}")
    return (
        numpy_to_torch_dtype_dict[base],
        tuple(int(n) for n in shape),
        offset // row_itemsize,
        math.prod(shape) * base.itemsize // row_itemsize,
    )


def nativize_tensor(observation: Tensor, native_dtype: NativeDType) -> Any:
    """Split flat rows into the tensors that they hold.

    Args:
        observation: (..., row) in the row's own dtype, as `recv` returned it (not cast).
        native_dtype: result of `nativize_dtype`.

    Returns: a tensor (..., *shape), or a dict of such tensors by name.

    Aliasing: a leaf is a view on `observation` if its rows are aligned to the size of the leaf's
    elements, as rows in shared memory are; otherwise the leaf is copied.

    Raises:
        ConfigError: the element size of `observation` differs from that of the rows.
    """
    if isinstance(native_dtype, dict):
        return {name: nativize_tensor(observation, leaf) for name, leaf in native_dtype.items()}
    dtype, shape, offset, length = native_dtype
    if observation.element_size() * length != math.prod(shape) * dtype.itemsize:
        raise ConfigError(
            f"the rows are {observation.dtype}, but {length} of their elements must hold {dtype} "
            f"of shape {shape}: pass the observations as they were received, and cast after "
            "nativize_tensor"
        )
    if length == 0:
        return observation.new_empty((*observation.shape[:-1], *shape), dtype=dtype)
    leaf = observation.narrow(-1, offset, length)
    if not _aligned(leaf, max(1, dtype.itemsize // observation.element_size())):
        leaf = leaf.clone(memory_format=torch.contiguous_format)
    return leaf.view(dtype).view(*observation.shape[:-1], *shape)


def _aligned(leaf: Tensor, ratio: int) -> bool:
    """Return whether a leaf can be viewed as elements `ratio` times as large."""
    if leaf.stride(-1) != 1 or any(stride % ratio for stride in leaf.stride()[:-1]):
        return False
    # A graph being compiled cannot read the offset; there torch itself refuses misaligned rows.
    return torch.compiler.is_compiling() or leaf.storage_offset() % ratio == 0


def nativize_observation(observation: Tensor, emulated: Any) -> Any:
    """Call `nativize_dtype` and `nativize_tensor`; for a single use."""
    return nativize_tensor(observation, nativize_dtype(emulated))


def compilable_cast(u8: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert bytes to numbers: (..., n) uint8 to (..., n / itemsize) of `dtype`.

    Unsigned integers are computed from their bytes by arithmetic, which torch.compile supports
    everywhere; for other types the result is a view on `u8`.
    """
    size = dtype.itemsize
    if dtype not in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
        return u8.view(dtype)
    # Torch has no shifts for unsigned types wider than a byte, so the sum uses a signed type.
    wide = u8.reshape(*u8.shape[:-1], -1, size).to(torch.int64)
    low_first = range(size) if sys.byteorder == "little" else reversed(range(size))
    total = torch.zeros_like(wide[..., 0])
    for place, byte in enumerate(low_first):
        total = total | wide[..., byte] << 8 * place
    return total.view(dtype) if size == 8 else total.to(dtype)


def round_to(x: float, base: int) -> int:
    """Return the least multiple of `base` that is not below `x`.

    >>> round_to(9, 8)
    16
    """
    return math.ceil(x / base) * base


def flattened_tensor_size(native_dtype: NativeDType) -> int:
    """Return the number of elements of all leaves of one row."""
    if isinstance(native_dtype, dict):
        return sum(flattened_tensor_size(leaf) for leaf in native_dtype.values())
    return math.prod(native_dtype[1])


# ---- layers --------------------------------------------------------------------------------------


def layer_init(layer: Layer, std: float = math.sqrt(2), bias_const: float = 0.0) -> Layer:
    """Initialize a layer with orthogonal weights of gain `std` and a constant bias; return it.

    Source: Huang et al. 2022, "The 37 implementation details of PPO", detail 2.
    """
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor)
    nn.init.orthogonal_(weight, std)
    if isinstance(bias, Tensor):
        nn.init.constant_(bias, bias_const)
    return layer


# ---- distributions -------------------------------------------------------------------------------


def log_prob(logits: Tensor, value: Tensor) -> Tensor:
    """Return (...) log-probabilities of choices `value` (...), given normalized `logits` (..., n).

    The choices may have any integer dtype.
    """
    return logits.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)


def entropy(logits: Tensor) -> Tensor:
    """Return (...) entropies in nats of normalized `logits` (..., n).

    A choice with log-probability -inf contributes 0.
    """
    return entropy_probs(logits, logits.exp())


def entropy_probs(logits: Tensor, probs: Tensor) -> Tensor:
    """Return (...) entropies in nats of normalized `logits` (..., n) with known probabilities."""
    return -(logits.clamp(min=torch.finfo(logits.dtype).min) * probs).sum(-1)


def sample_logits(logits: Logits, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return actions, which are drawn unless passed, their log-probabilities, and the entropies.

    Args:
        logits: (B, n) for one choice, a sequence of (B, n_d) for D choices, or a Normal of shape
            (B, D). They need not be normalized; -inf rules a choice out. Half-precision logits are
            converted to float32.
        action: B (times D) actions in any shape and dtype, or None to draw them with torch's global
            generator.

    Returns: (actions, log-probabilities (B,), entropies (B,)). Drawn actions are int32 (B,) for one
    choice, int32 (B, D) for several, or (B, D) in the Normal's dtype. Passed actions are returned
    in that shape and their own dtype. Nothing is read back from a device.

    Raises:
        ActionError: the number of actions is not B x D.
    """
    if isinstance(logits, torch.distributions.Normal):
        return _sample_normal(logits, action)
    tensors = [logits] if isinstance(logits, Tensor) else logits
    heads = [
        head.to(torch.promote_types(head.dtype, torch.float32)).log_softmax(-1) for head in tensors
    ]
    if action is None:
        action = torch.stack([_draw(head) for head in heads], dim=-1).int()
    action = _reshape(action, heads[0].shape[0], len(heads))
    log_probs = torch.stack([log_prob(head, action[:, d]) for d, head in enumerate(heads)]).sum(0)
    entropies = torch.stack([entropy(head) for head in heads]).sum(0)
    return action.squeeze(-1) if isinstance(logits, Tensor) else action, log_probs, entropies


def _sample_normal(normal: Any, action: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    rows = normal.loc.shape[0]
    action = _reshape(
        normal.sample() if action is None else action, rows, normal.loc.numel() // max(rows, 1)
    )
    log_probs = normal.log_prob(action.view_as(normal.loc))
    return action, log_probs.reshape(rows, -1).sum(1), normal.entropy().reshape(rows, -1).sum(1)


def _reshape(action: Tensor, rows: int, columns: int) -> Tensor:
    if action.numel() != rows * columns:
        raise ActionError(
            f"actions have shape {tuple(action.shape)} for {rows} rows: must have {columns} per row"
        )
    return action.reshape(rows, columns)


def _draw(log_probs: Tensor) -> Tensor:
    """Draw by Gumbel-max: argmax of p / Exp(1).

    Without the clamp, a noise of 0 would give NaN for a choice that -inf rules out.
    """
    noise = torch.empty_like(log_probs).exponential_().clamp_(min=torch.finfo(log_probs.dtype).tiny)
    return (log_probs - noise.log()).argmax(-1)
