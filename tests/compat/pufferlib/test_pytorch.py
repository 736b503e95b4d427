# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""puffervec/compat/pufferlib/pytorch.py: rows seen as tensors, against NumPy's view; sampling,
against torch.distributions.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical, Normal

from puffervec.compat.pufferlib import pytorch
from puffervec.errors import ActionError, ConfigError
from puffervec.workers.python.emulation import ObservationPlan

MIXED = spaces.Dict(
    a=spaces.Box(0, 255, (3,), np.uint8),
    b=spaces.Dict(c=spaces.Box(-1, 1, (2, 2), np.float64), d=spaces.Discrete(9)),
    e=spaces.Tuple((spaces.MultiBinary(5), spaces.Box(-1, 1, (), np.float32))),
    f=spaces.Box(0, 1, (0,), np.float32),
    g=spaces.Box(0, 9, (1,), np.int16),
)
FLOATS = spaces.Dict(x=spaces.Box(-1, 1, (2, 3), np.float32), y=spaces.Box(-1, 1, (1,), np.float32))
SPACES = {
    "mixed": MIXED,
    "one dtype": FLOATS,
    "tuple": spaces.Tuple((spaces.Discrete(4), spaces.MultiDiscrete([3, 5]))),
}


def emulated(plan: ObservationPlan) -> dict[str, Any]:
    return {"observation_dtype": plan.row_dtype, "emulated_observation_dtype": plan.dtype}


def filled(space: spaces.Space[Any], count: int = 4) -> tuple[ObservationPlan, np.ndarray]:
    """Return a plan and rows that hold samples of the space."""
    plan = ObservationPlan(space)
    rows = np.zeros((count, *plan.row_shape), plan.row_dtype)
    space.seed(1)
    for write in plan.writers(rows):
        write(space.sample())
    return plan, rows


def assert_same(found: Any, native: Any, lead: tuple[int, ...]) -> None:
    """Compare nested tensors with NumPy's nested views, leaf by leaf."""
    if isinstance(native, tuple):
        native = {f"f{i}": part for i, part in enumerate(native)}
    if isinstance(native, dict):
        assert list(found) == list(native)
        for key, part in native.items():
            assert_same(found[key], part, lead)
    else:
        shape = native.shape[1:] or (1,)
        assert found.shape == (*lead, *shape)
        np.testing.assert_array_equal(found.numpy().reshape(native.shape), native)
        assert found.numpy().dtype == native.dtype


@pytest.mark.parametrize("name", SPACES)
def test_nativize_tensor_equals_numpys_view(name: str) -> None:
    plan, rows = filled(SPACES[name])
    layout = pytorch.nativize_dtype(emulated(plan))
    assert_same(pytorch.nativize_tensor(torch.from_numpy(rows), layout), plan.views(rows), (4,))


@pytest.mark.parametrize("name", SPACES)
def test_nativize_tensor_copies_nothing(name: str) -> None:
    plan, rows = filled(SPACES[name])
    tensor = torch.from_numpy(rows)
    first, last = tensor.data_ptr(), tensor.data_ptr() + rows.nbytes

    def check(part: Any) -> None:
        if isinstance(part, dict):
            for child in part.values():
                check(child)
        elif part.numel():
            assert first <= part.data_ptr() < last

    check(pytorch.nativize_tensor(tensor, pytorch.nativize_dtype(emulated(plan))))


def test_nativize_tensor_copies_rows_that_are_not_aligned() -> None:
    plan, rows = filled(MIXED)
    shifted = torch.zeros(4, plan.row_bytes + 3, dtype=torch.uint8)[:, 1 : 1 + plan.row_bytes]
    shifted.copy_(torch.from_numpy(rows))
    assert_same(
        pytorch.nativize_tensor(shifted, pytorch.nativize_dtype(emulated(plan))),
        plan.views(rows),
        (4,),
    )


def test_nativize_tensor_takes_sequences() -> None:
    plan, rows = filled(MIXED, 6)
    found = pytorch.nativize_tensor(
        torch.from_numpy(rows).view(2, 3, -1), pytorch.nativize_dtype(emulated(plan))
    )
    assert found["b"]["c"].shape == (2, 3, 2, 2)
    np.testing.assert_array_equal(found["b"]["c"].reshape(6, 2, 2), plan.views(rows)["b"]["c"])


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
def test_nativize_tensor_compiles_in_one_graph(name: str) -> None:
    plan, rows = filled(SPACES[name])
    layout = pytorch.nativize_dtype(emulated(plan))
    compiled = torch.compile(
        lambda tensor: pytorch.nativize_tensor(tensor, layout), backend="aot_eager", fullgraph=True
    )
    assert_same(compiled(torch.from_numpy(rows)), plan.views(rows), (4,))


def test_nativize_tensor_says_that_rows_were_cast() -> None:
    plan, rows = filled(MIXED)
    with pytest.raises(ConfigError, match="torch.float32.*as they were received"):
        pytorch.nativize_tensor(
            torch.from_numpy(rows).float(), pytorch.nativize_dtype(emulated(plan))
        )


def test_nativize_dtype_has_pufferlibs_form() -> None:
    layout = pytorch.nativize_dtype(emulated(ObservationPlan(FLOATS)))
    assert layout == {"x": (torch.float32, (2, 3), 0, 6), "y": (torch.float32, (1,), 6, 1)}
    box = np.dtype((np.float32, (4,)))
    flat = {"observation_dtype": np.dtype(np.float32), "emulated_observation_dtype": box}
    assert pytorch.nativize_dtype(flat) == (torch.float32, (4,), 0, 4)


def test_nativize_dtype_takes_a_namespace() -> None:
    entries = emulated(ObservationPlan(MIXED))
    assert pytorch.nativize_dtype(SimpleNamespace(**entries)) == pytorch.nativize_dtype(entries)


def test_nativize_dtype_names_a_leaf_that_torch_does_not_have() -> None:
    native = np.dtype([("deep", [("leaf", np.longdouble)])])
    with pytest.raises(ConfigError, match=r"\['deep'\]\['leaf'\] has dtype .*128"):
        pytorch.nativize_dtype(
            {"observation_dtype": np.dtype(np.uint8), "emulated_observation_dtype": native}
        )


def test_nativedtype_is_what_nativize_dtype_returns() -> None:
    assert isinstance(
        pytorch.nativize_dtype(emulated(ObservationPlan(MIXED))),
        pytorch.NativeDType.__args__[1].__origin__,
    )


def test_nativize_observation_does_both() -> None:
    plan, rows = filled(MIXED)
    assert_same(
        pytorch.nativize_observation(torch.from_numpy(rows), emulated(plan)), plan.views(rows), (4,)
    )


def test_flattened_tensor_size_counts_all_leaves() -> None:
    assert (
        pytorch.flattened_tensor_size(pytorch.nativize_dtype(emulated(ObservationPlan(MIXED))))
        == 3 + 4 + 1 + 5 + 1 + 0 + 1
    )


def test_numpy_to_torch_dtype_dict_agrees_with_torch() -> None:
    assert len(pytorch.numpy_to_torch_dtype_dict) == 14
    for dtype, expected in pytorch.numpy_to_torch_dtype_dict.items():
        assert torch.from_numpy(np.zeros(1, dtype)).dtype == expected


def test_layer_init_is_orthogonal_with_a_constant_bias() -> None:
    layer = nn.Linear(6, 3)
    assert pytorch.layer_init(layer, std=2.0, bias_const=0.5) is layer
    torch.testing.assert_close(layer.weight @ layer.weight.T, 4 * torch.eye(3))
    assert layer.bias.tolist() == [0.5] * 3
    default = pytorch.layer_init(nn.Linear(6, 3, bias=False))
    torch.testing.assert_close(default.weight @ default.weight.T, 2 * torch.eye(3))


def test_log_prob_and_entropy_equal_torchs_categorical() -> None:
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    value = torch.tensor([0, 3, 1, 1, 2], dtype=torch.int32)
    expected = Categorical(logits=logits)
    torch.testing.assert_close(pytorch.log_prob(logits, value), expected.log_prob(value))
    torch.testing.assert_close(pytorch.entropy(logits), expected.entropy())


def test_entropy_leaves_out_impossible_choices() -> None:
    logits = torch.tensor([[0.0, 0.0, -math.inf]]).log_softmax(-1)
    torch.testing.assert_close(pytorch.entropy(logits), torch.tensor([math.log(2)]))


def test_entropy_probs_takes_known_probabilities() -> None:
    logits = torch.tensor([[0.25, 0.75]]).log()
    torch.testing.assert_close(pytorch.entropy_probs(logits, logits.exp()), pytorch.entropy(logits))


# ---- sample_logits -------------------------------------------------------------------------------


def heads(rows: int, *sizes: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(rows, size, generator=generator) for size in sizes]


@pytest.mark.parametrize("rows", [1, 7])
def test_sample_logits_of_one_choice(rows: int) -> None:
    (logits,) = heads(rows, 5)
    expected = Categorical(logits=logits)
    action, log_probs, entropies = pytorch.sample_logits(logits)
    assert (action.shape, action.dtype) == ((rows,), torch.int32)
    torch.testing.assert_close(log_probs, expected.log_prob(action))
    torch.testing.assert_close(entropies, expected.entropy())
    again, given_log_probs, _ = pytorch.sample_logits(logits, action.long().view(rows, 1))
    assert (again.shape, again.dtype) == ((rows,), torch.int64)
    torch.testing.assert_close(given_log_probs, log_probs)


@pytest.mark.parametrize("kind", [list, tuple])
def test_sample_logits_of_several_choices(kind: type) -> None:
    logits = kind(heads(6, 2, 5, 3))
    action, log_probs, entropies = pytorch.sample_logits(logits)
    assert (action.shape, action.dtype) == ((6, 3), torch.int32)
    expected = [Categorical(logits=head) for head in logits]
    torch.testing.assert_close(
        log_probs, sum(part.log_prob(action[:, d]) for d, part in enumerate(expected))
    )
    torch.testing.assert_close(entropies, sum(part.entropy() for part in expected))
    torch.testing.assert_close(pytorch.sample_logits(logits, action.view(2, 3, 3))[1], log_probs)


def test_sample_logits_of_a_normal() -> None:
    normal = Normal(torch.zeros(4, 2), torch.full((4, 2), 0.5))
    action, log_probs, entropies = pytorch.sample_logits(normal)
    assert (action.shape, log_probs.shape, entropies.shape) == ((4, 2), (4,), (4,))
    torch.testing.assert_close(log_probs, normal.log_prob(action).sum(1))
    torch.testing.assert_close(entropies, normal.entropy().sum(1))
    given = torch.ones(8)
    torch.testing.assert_close(
        pytorch.sample_logits(normal, given)[1], normal.log_prob(given.view(4, 2)).sum(1)
    )


def test_sample_logits_draws_with_the_right_frequencies() -> None:
    torch.manual_seed(0)
    chances = torch.tensor([0.5, 0.3, 0.2, 0.0])
    action, _, _ = pytorch.sample_logits(chances.log().expand(40_000, 4))
    found = torch.bincount(action, minlength=4) / 40_000
    assert found[3] == 0
    torch.testing.assert_close(found, chances, atol=0.01, rtol=0)  # four standard deviations


def test_sample_logits_computes_halves_in_float32() -> None:
    logits = heads(5, 4)[0].bfloat16()
    action, log_probs, _ = pytorch.sample_logits(logits)
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs, Categorical(logits=logits.float()).log_prob(action))


def test_sample_logits_refuses_another_count() -> None:
    with pytest.raises(ActionError, match=r"\(5, 2\) for 5 rows: must have 1"):
        pytorch.sample_logits(heads(5, 4)[0], torch.zeros(5, 2))


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64", "int32", "float32"])
def test_compilable_cast_sees_bytes_as_numbers(name: str) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (2, 3, 16), np.uint8)
    cast = pytorch.compilable_cast(torch.as_tensor(rows), getattr(torch, name))
    np.testing.assert_array_equal(cast.numpy(), rows.view(name))


def test_round_to_goes_up_to_a_multiple() -> None:
    assert [pytorch.round_to(x, 4) for x in (0, 1, 4, 5)] == [0, 4, 4, 8]
