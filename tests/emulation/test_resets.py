# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""`reset_of`: an env's reset is called with what it takes, whatever that is."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from puffervec.errors import ConfigError
from puffervec.workers.python.emulation.resets import reset_of
from puffervec.workers.python.puffer_env import PufferEnv


class Logging:
    """Keeps how it was called."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def note(self, *call: Any) -> str:
        self.calls.append(call)
        return "what reset returned"


class Both(Logging):
    def reset(self, *, seed: Any = "none given", options: Any = "none given") -> str:
        return self.note(seed, options)


class Required(Logging):
    def reset(self, *, seed: Any, options: Any) -> str:
        return self.note(seed, options)


class SeedOnly(Logging):
    def reset(self, seed: Any = "none given") -> str:
        return self.note(seed)


class OptionsOnly(Logging):
    def reset(self, options: Any = "none given") -> str:
        return self.note(options)


class Bare(Logging):
    def reset(self) -> str:
        return self.note()


class OldGym(Bare):
    def seed(self, seed: int) -> None:
        self.note("seed", seed)


class Keywords(Logging):
    def reset(self, **kwargs: Any) -> str:
        return self.note(kwargs)


class Through:
    """A wrapper that passes on what it gets."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def reset(self, **kwargs: Any) -> Any:
        return self.env.reset(**kwargs)


class Splitting(Through):
    """A wrapper that names one of the two and passes on the other."""

    def reset(self, seed: Any = None, **kwargs: Any) -> Any:
        self.env.note("wrapper", seed)
        return self.env.reset(**kwargs)


@pytest.mark.parametrize(
    ("kind", "seed", "options", "calls"),
    [
        (Both, 3, None, [(3, "none given")]),
        (Both, None, None, [("none given", "none given")]),
        (Both, None, {"x": 1}, [("none given", {"x": 1})]),
        (Both, 3, {"x": 1}, [(3, {"x": 1})]),
        (SeedOnly, 3, None, [(3,)]),
        (SeedOnly, None, None, [("none given",)]),
        (OptionsOnly, 3, {"x": 1}, [({"x": 1},)]),
        (Bare, 3, None, [()]),
        (Bare, None, None, [()]),
        (OldGym, 3, None, [("seed", 3), ()]),
        (OldGym, None, None, [()]),
        (Keywords, 3, None, [({"seed": 3},)]),
        (Keywords, None, {"x": 1}, [({"options": {"x": 1}},)]),
        (Required, None, None, [(None, None)]),
        (Required, 3, {"x": 1}, [(3, {"x": 1})]),
    ],
)
def test_only_what_reset_takes_is_passed(
    kind: type, seed: Any, options: Any, calls: list[Any]
) -> None:
    env = kind()
    assert reset_of(env)(seed, options) == "what reset returned"
    assert env.calls == calls


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        (Both, [(3, "none given")]),
        (SeedOnly, [(3,)]),
        (Bare, [()]),
        (OldGym, [("seed", 3), ()]),
        (Keywords, [({"seed": 3},)]),
    ],
)
def test_a_wrapper_with_kwargs_takes_what_its_env_takes(kind: type, calls: list[Any]) -> None:
    env = kind()
    reset_of(Through(Through(env)))(3, None)
    assert env.calls == calls


def test_a_wrapper_that_names_the_seed_gets_it() -> None:
    env = Bare()
    reset_of(Splitting(env))(3, None)
    assert env.calls == [("wrapper", 3), ()]


class Handing(Through):
    """A wrapper that hands on both, whatever it gets, as Gymnasium's do."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.env.reset(seed=seed, options=options)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [(SeedOnly, "options"), (OptionsOnly, "seed"), (Bare, "seed"), (OldGym, "seed")],
)
@pytest.mark.parametrize("seed", [None, 3])
def test_an_old_env_in_a_wrapper_that_hands_on_both_is_named(
    kind: type, missing: str, seed: int | None
) -> None:
    with pytest.raises(
        ConfigError,
        match=f"^reset of {kind.__name__} takes no {missing}, as in the old Gym interface: write",
    ):
        reset_of(Handing(Through(kind())))(seed, None)


def test_an_error_inside_of_a_reset_stays_what_it_is() -> None:
    class Wrong(Logging):
        def reset(self, *, seed: Any = None, options: Any = None) -> str:
            return self.note(seed=seed)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="note"):
        reset_of(Handing(Wrong()))(3, None)


@pytest.mark.parametrize("kind", [SeedOnly, Bare, OldGym])
def test_options_that_nobody_takes_are_refused(kind: type) -> None:
    env = kind()
    with pytest.raises(ConfigError, match=rf"\{{'x': 1\}}.* {kind.__name__} takes none"):
        reset_of(env)(3, {"x": 1})
    assert env.calls == []


@pytest.mark.parametrize("kind", [Both, SeedOnly, OldGym])
def test_a_copy_resets_its_own_env(kind: type) -> None:
    env = kind()
    wrapped = {"env": env, "reset": reset_of(env)}
    for copied in (copy.deepcopy(wrapped), pickle.loads(pickle.dumps(wrapped))):
        copied["reset"](3, None)
        assert env.calls == [] and 3 in copied["env"].calls[0]


def test_a_reset_without_a_signature_gets_both() -> None:
    class Opaque(Logging):
        @property
        def reset(self) -> Any:
            class Call:
                __signature__ = "none"

                def __call__(_, **kwargs: Any) -> Any:  # noqa: N805 (self is the env)
                    return self.note(kwargs)

            return Call()

    env = Opaque()
    reset_of(env)(3, {"x": 1})
    assert env.calls == [({"seed": 3, "options": {"x": 1}},)]


class Rows(PufferEnv):
    def __init__(self) -> None:
        self.single_observation_space, self.single_action_space = (
            spaces.Box(0, 1, (1,)),
            spaces.Discrete(2),
        )
        self.num_agents = 1
        super().__init__()
        self.calls: list[Any] = []


class RowsOtherName(Rows):
    def reset(self, s: Any = "none given") -> Any:
        self.calls.append(s)
        return self.observations, []


class RowsRequired(Rows):
    def reset(self, seed: Any) -> Any:  # type: ignore[override]
        self.calls.append(seed)
        return self.observations, []


class RowsBare(Rows):
    def reset(self) -> Any:  # type: ignore[override]
        self.calls.append("bare")
        return self.observations, []


class RowsKeyword(Rows):
    def reset(self, *, seed: Any = "none given") -> Any:  # type: ignore[override]
        self.calls.append(seed)
        return self.observations, []


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        (RowsOtherName, [3, "none given"]),
        (RowsRequired, [3, None]),
        (RowsBare, ["bare", "bare"]),
        (RowsKeyword, [3, "none given"]),
    ],
)
def test_a_pufferenv_gets_its_seed_by_position(kind: type[Rows], calls: list[Any]) -> None:
    env = kind()
    reset = reset_of(env)
    observations, infos = reset(3, None)
    reset(None, None)
    assert env.calls == calls and observations is env.observations and infos == []
    assert isinstance(observations, np.ndarray)


def test_a_pufferenv_takes_no_options() -> None:
    with pytest.raises(ConfigError, match="the reset of RowsOtherName takes none"):
        reset_of(RowsOtherName())(3, {"x": 1})
