# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Python envs as a function table of csrc/contract/env.h, which the C worker loop calls.

Channel, slab, errors, timing and backends are therefore the same as for C envs. A turn costs one
call into Python, whatever the number of envs. Runs in worker processes, and in the learner for the
Serial backend.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from puffervec._ffi import ffi, lib
from puffervec.core.actions import Native
from puffervec.core.info_area import InfoArea, InfoWriter
from puffervec.errors import ConfigError
from puffervec.workers.python import global_random
from puffervec.workers.python.cells import LOOPS, CurrentEnv, Rows, close_all
from puffervec.workers.python.emulation import ActionPlan, ObservationPlan
from puffervec.workers.python.env import (
    PARALLEL,
    PUFFER,
    PythonSource,
    refuse_twice,
    spaces_of,
    unwrapped,
)
from puffervec.workers.python.mailbox import Mailbox, Slot


@dataclass(frozen=True)
class BlockContext:
    """The resources of a block besides its rows.

    Attributes:
        command: the learner's line to the block (`pv_line*`).
        memory: the slab's bytes.
        base: address of the slab.
    """

    question: Slot
    answer: Slot
    area: InfoArea
    command: Any
    memory: memoryview
    base: int


# (source, contexts, rows) by the source's token. `rows` has the row of each innermost env by its
# id(), to detect an env that is used for two rows.
_sources: dict[int, tuple[PythonSource, dict[int, BlockContext], dict[int, int]]] = {}
_blocks: dict[int, Block] = {}
_now = global_random.now


def register(source: PythonSource, contexts: Mapping[int, BlockContext]) -> None:
    """Make a source known in this process before its workers are opened.

    Args:
        source: the source of the envs.
        contexts: the context of each block, by the first env of the block.
    """
    _sources[source.token] = (source, dict(contexts), {})


def forget(source: PythonSource) -> None:
    """Drop a source whose workers are closed."""
    _sources.pop(source.token, None)


def envs_of(source: PythonSource) -> list[Any]:
    """Return the envs of a source that live in this process, in order."""
    blocks = [block for block in _blocks.values() if block.source is source]
    return [
        env for block in sorted(blocks, key=lambda block: block.first_env) for env in block.envs
    ]


def block_contexts(
    slab: Any, buffer: memoryview, worker: int, mailbox: Mailbox
) -> dict[int, BlockContext]:
    """Return the contexts of a worker's blocks, by the first env of each.

    Args:
        slab: `pv_slab*`.
        buffer: the bytes of the slab.
        worker: index of the worker.
        mailbox: the worker's mailbox.
    """
    contexts = {}
    for half, question in mailbox.questions.items():
        span = lib.pv_slab_span(slab, worker, half)
        area = InfoArea(buffer, lib.pv_slab_infos(slab, worker, half), span.env_count)
        command = lib.pv_command_line(slab, worker, half)
        contexts[span.first_env] = BlockContext(
            question, mailbox.answers[half], area, command, buffer, _address(slab)
        )
    return contexts


class Block:
    """A worker's Python envs of one half."""

    def __init__(self, block: Any) -> None:
        """Make the envs of `block`, a `pv_block*`."""
        token = ffi.cast("const uint64_t*", block.context.config)[0]
        self.source, contexts, self._known = _sources[token]
        self.context = contexts[block.first_env]
        self.first_env, self.count = block.first_env, block.env_count
        at = _address(block.error_env) - self.context.base
        # The current env, which the error names if this process dies in it.
        self._at = self.context.memory[at : at + 4].cast("I")
        observation, action = (
            ObservationPlan(self.source.observation_space),
            ActionPlan(self.source.action_space),
        )
        rows = _rows(block, self.context, observation, action)
        self.envs: list[Any] = []
        self.generators = global_random.EnvGenerators(self._at, self.source.entropy)
        global_random.install()
        _now.generators = self.generators
        try:
            for env in range(self.count):
                self.envs.append(self._make(env, rows))
        except BaseException:
            self.close()
            raise
        infos = InfoWriter(self.context.area)
        place = CurrentEnv(self._at, self.first_env)
        self.cells = LOOPS[self.source.kind](
            self.envs, rows, observation, action, infos, self.source.autoreset, place
        )
        if self.source.kind == PARALLEL:
            self.cells.absent_terminal = self.source.absent_terminal  # type: ignore[attr-defined]
        self.infos = infos
        self._head = self.context.area.head[0]
        self._reset_turn, self._options = -1, None

    def _make(self, env: int, rows: Rows) -> Any:
        self._at[0] = self.first_env + env
        index, agents = self.first_env + env, self.source.agents
        buf = None
        if self.source.kind == PUFFER:
            span = slice(env * agents, (env + 1) * agents)
            actions = rows.actions[span]
            buf = SimpleNamespace(
                observations=rows.observations[span],
                rewards=rows.rewards[span],
                actions=np.zeros_like(
                    actions, actions.dtype if actions.dtype.kind == "f" else np.int32
                ),
                **{
                    name: getattr(rows, name)[span].view(np.bool_)
                    for name in ("terminals", "truncations", "masks")
                },
            )
        seed = None if self.source.seed is None else self.source.seed + index
        if seed is not None:
            self.generators.seed(index, seed)
        made = unwrapped(self.source.creators[index].make(seed=seed, buf=buf))
        _check_spaces(made, self.source)
        refuse_twice(made, index, self._known)
        return made

    def reset(self, mask: Any, seeds: Any) -> None:
        """Reset the envs whose mask byte is 1, or all if mask is NULL.

        If seeds is NULL, they are reset without a seed.
        """
        turn = self.context.command.turn
        if turn != self._reset_turn:  # a turn resets in two parts if only some envs get a seed
            self._head["native"] = 0
            # The question may hold actions if a step was interrupted before it was sent.
            asked = self.context.question.take()
            self._reset_turn, self._options = turn, None if isinstance(asked, Native) else asked
            self.infos.begin()
        which = [env for env in range(self.count) if mask == ffi.NULL or mask[env]]
        given = [None if seeds == ffi.NULL else seeds[env] for env in which]
        for env, seed in zip(which, given, strict=True):
            if seed is not None:
                self.generators.seed(self.first_env + env, seed)
        self.cells.reset(which, given, self._options)
        self._post_others()

    def step(self) -> None:
        self.cells.step(self._take_native() if self._head["native"] else None)
        self._post_others()

    def _take_native(self) -> Any:
        """Return the turn's actions that rows cannot hold, one per row.

        The result is None if the actions are in the rows.
        """
        if not self._head["native"]:
            return None
        self._head["native"] = 0
        found = self.context.question.take()
        return list(found.entries) if isinstance(found, Native) else None

    def _post_others(self) -> None:
        """Send infos other than numbers.

        Each is sent by itself, so that an error in sending or reading names its env.
        """
        if not self.infos.others:
            return
        encoded = []
        for env, info in self.infos.others:
            self._at[0] = self.first_env + env
            encoded.append((env, self.context.answer.encode(info)))
        self.context.answer.post(encoded)

    def close(self) -> None:
        close_all(self.envs)
        global_random.remove()

    def call(self) -> None:
        """Answer a question about the envs: (verb, name, args, kwargs).

        The verb is "call", "get" or "set".
        """
        verb, name, args, kwargs = self.context.question.take()
        results = []
        for env, made in enumerate(self.envs):
            self._at[0] = self.first_env + env
            if verb == "set":
                _set(made, name, args[env])
            else:
                found = _get(made, name)
                results.append(
                    found(*args, **kwargs) if verb == "call" and callable(found) else found
                )
        self.context.answer.post(results)


def _check_spaces(env: Any, source: PythonSource) -> None:
    """Raise ConfigError unless the env's rows look like the driver env's.

    Bounds may differ, shapes may not.
    """
    found = spaces_of(env, source.kind)
    if source.kind == PARALLEL and tuple(env.possible_agents) != source.possible_agents:
        raise ConfigError(
            f"this env has agents {list(env.possible_agents)}, the first one "
            f"{list(source.possible_agents)}: give all envs the same agents"
        )
    kinds: tuple[type[ObservationPlan] | type[ActionPlan], ...] = (ObservationPlan, ActionPlan)
    for space, wanted, plan in zip(
        found, (source.observation_space, source.action_space), kinds, strict=True
    ):
        if space is not wanted and space != wanted:
            own, first = plan(space), plan(wanted)
            if own.dtype != first.dtype or own.row_shape != first.row_shape:
                raise ConfigError(
                    f"this env has the {first.noun} space {space}, the first one {wanted}: give "
                    "all envs the same space"
                )


def _get(env: Any, name: str) -> Any:
    getter = getattr(env, "get_wrapper_attr", None)
    return getter(name) if getter is not None else getattr(env, name)


def _set(env: Any, name: str, value: Any) -> None:
    setter = getattr(env, "set_wrapper_attr", None)
    if setter is not None:
        setter(name, value)
    else:
        setattr(env, name, value)


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def _rows(
    block: Any, context: BlockContext, observation: ObservationPlan, action: ActionPlan
) -> Rows:
    at = block.rows[0]
    count = at.count

    def view(pointer: Any, dtype: Any, *shape: int) -> np.ndarray:
        size = count * int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if not size:
            return np.zeros((count, *shape), dtype)
        # The array refers to the memoryview, which keeps the slab mapped as long as it exists.
        elements = size // np.dtype(dtype).itemsize
        return np.frombuffer(
            context.memory, dtype, elements, _address(pointer) - context.base
        ).reshape(count, *shape)

    return Rows(
        observations=view(at.observations, observation.row_dtype, *observation.row_shape),
        actions=view(ffi.cast("uint8_t*", at.actions), action.row_dtype, *action.row_shape),
        rewards=view(at.rewards, np.float32),
        terminals=view(at.terminals, np.uint8),
        truncations=view(at.truncations, np.uint8),
        masks=view(at.masks, np.uint8),
        final_observations=None
        if at.final_observations == ffi.NULL
        else view(at.final_observations, observation.row_dtype, *observation.row_shape),
    )


# ---- the table of functions ----------------------------------------------------------------------


def _guarded(block: Any, run: Callable[[Block], None]) -> int:
    """Run a function of a block and report an exception.

    The exception is put into the error slot as text, and into the mailbox as an object.
    """
    made = _blocks.get(_address(block))
    outside = _now.generators
    try:
        if made is None:
            # __new__ and __init__ are called separately, so that the error of a failing constructor
            # can name its env.
            made = object.__new__(Block)
            made.__init__(block)  # type: ignore[misc]
            _blocks[_address(block)] = made
        else:
            _now.generators = made.generators
            run(made)
    except BaseException as error:
        _report(block, made, error)
        return int(lib.PV_ERROR_ENV)
    finally:
        _now.generators = outside
    return int(lib.PV_OK)


def _report(block: Any, made: Block | None, error: BaseException) -> None:
    text = "".join(traceback.format_exception(error)).encode(errors="replace")
    summary = f"{type(error).__name__}: {error}\n".encode(errors="replace")[:1000]
    room = lib.PV_ERROR_TEXT - 1 - len(summary)
    text = summary + text[-room:]  # the last lines of a long traceback are the most useful
    ffi.memmove(block.error_text, text + b"\0", len(text) + 1)
    context = getattr(made, "context", None)
    if context is not None:
        try:
            context.answer.post(error)
        except Exception:
            context.answer.post(None)


def _bytes(context: Any, env_count: int) -> int:
    return 64  # the state lives in Python


def _init(block: Any) -> int:
    return _guarded(block, lambda made: None)


def _reset(block: Any, mask: Any, seeds: Any) -> int:
    return _guarded(block, lambda made: made.reset(mask, seeds))


def _step(block: Any) -> int:
    return _guarded(block, Block.step)


def _call(block: Any) -> int:
    return _guarded(block, Block.call)


def _close(block: Any) -> None:
    made = _blocks.pop(_address(block), None)
    if made is not None:
        made.close()


def _escaped(kind: type[BaseException], error: BaseException, trace: Any) -> int:
    """Report an exception that no `try` can catch.

    A Ctrl-C that arrives in C code is raised at the first bytecode of the callback; one that
    arrives at the end of `_guarded` is raised outside its `try`.
    """
    guarded = trace.tb_next.tb_frame.f_locals if trace.tb_next is not None else {}
    _now.generators = guarded.get("outside", _now.generators)
    block = trace.tb_frame.f_locals["block"]
    _report(block, _blocks.get(_address(block)), error)
    return int(lib.PV_ERROR_ENV)


ffi.def_extern(name="pv_python_bytes", error=64)(_bytes)
ffi.def_extern(name="pv_python_close")(_close)
for _function in (_init, _reset, _step, _call):
    ffi.def_extern(
        name=f"pv_python{_function.__name__}", error=int(lib.PV_ERROR_ENV), onerror=_escaped
    )(_function)

_NAME = ffi.new("char[]", b"python")
TYPE = ffi.new(
    "pv_env_type*",
    {
        "abi": lib.PV_ABI,
        "struct_bytes": ffi.sizeof("pv_env_type"),
        "name": _NAME,
        "flags": lib.PV_OWN_AUTORESET,
        "bytes": lib.pv_python_bytes,
        "init": lib.pv_python_init,
        "reset": lib.pv_python_reset,
        "step": lib.pv_python_step,
        "close": lib.pv_python_close,
        "call": lib.pv_python_call,
    },
)
