# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""All interleavings of the channel's protocol (csrc/channel.h), with the store buffers of a real processor.

A lost wake-up is no data race, so no sanitizer sees it, and it is too rare for a stress test. Here the learner and a worker
are little programs over shared words; every order of their steps is tried, also those in which a store sits in its
processor's buffer while later loads run ahead. A futex never times out in the model: what the 20 ms slice would hide is a
state from which nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Registers = dict[str, int]
Instruction = tuple[Any, ...]
# ("store", word, value(registers), seq_cst) | ("load", register, word) | ("wait", word, register) | ("wake", word)
# ("jump", condition(registers), label) | ("set", register, value(registers)) | ("label", name) | ("end",)


@dataclass(frozen=True)
class Protocol:
    """What may be left out, to see that the search finds it."""

    recheck: bool = True
    """The sleeper looks at the turn again after it said that it sleeps."""
    turn_seq_cst: bool = True
    """The turn is stored with a full barrier, before the sender looks at the sleeper's flag."""
    sleeping_seq_cst: bool = True
    """The flag is stored with a full barrier, before the sleeper looks at the turn."""
    bump: bool = True
    """A sender that sees a sleeper changes the futex word before it wakes."""
    flag_first: bool = True
    """The sleeper reads the futex word before it looks at the turn (else after)."""


def send(turn: str, bell: str, value: Callable[[Registers], int], p: Protocol, mark: str) -> list[Instruction]:
    """pv_publish: store the turn, look whether the reader sleeps, ring."""
    return [
        ("store", turn, value, p.turn_seq_cst),
        ("load", "sleeps", f"{bell}.sleeping"),
        ("jump", lambda r: not r["sleeps"], f"sent {mark}"),
        *([("load", "word", f"{bell}.word"), ("store", f"{bell}.word", lambda r: r["word"] + 1, False)] if p.bump else []),
        ("wake", f"{bell}.word"),
        ("label", f"sent {mark}"),
    ]


def sleep(watched: list[tuple[str, str]], bell: str, p: Protocol, mark: str) -> list[Instruction]:
    """The end of pv_wait: sleep unless one of the (turn, register with the seen value) has changed."""
    seen = [("load", "seen", f"{bell}.word")]
    recheck: list[Instruction] = []
    for turn, register in watched if p.recheck else []:
        recheck += [("load", "now", turn), ("jump", lambda r, register=register: r["now"] != r[register], f"awake {mark}")]
    return [
        *(seen if p.flag_first else []),
        ("store", f"{bell}.sleeping", lambda r: 1, p.sleeping_seq_cst),
        *recheck,
        *([] if p.flag_first else seen),
        ("wait", f"{bell}.word", "seen"),
        ("label", f"awake {mark}"),
        ("store", f"{bell}.sleeping", lambda r: 0, True),
    ]


def learner(halves: int, turns: int, p: Protocol) -> list[Instruction]:
    """Send to all halves, receive all, a few times over. Each status line has its own bell; the worker has one."""
    program: list[Instruction] = []
    for n in range(1, turns + 1):
        for h in range(halves):
            program += send(f"command{h}", "worker", lambda r, n=n: n, p, f"{n} {h}")
        for h in range(halves):
            mark = f"{n} {h}"
            program += [
                ("set", "old", lambda r, n=n: n - 1),
                ("label", f"receive {mark}"),
                ("load", "now", f"status{h}"),
                ("jump", lambda r, n=n: r["now"] == n, f"received {mark}"),
                *sleep([(f"status{h}", "old")], f"learner{h}", p, mark),
                ("jump", lambda r: True, f"receive {mark}"),
                ("label", f"received {mark}"),
            ]
    return [*program, ("end",)]


def worker(halves: int, p: Protocol) -> list[Instruction]:
    """pv_worker_run: look at all halves, serve what changed, else sleep; for ever."""
    program: list[Instruction] = [("label", "look")]
    for h in range(halves):
        program += [("load", "now", f"command{h}"), ("jump", lambda r, h=h: r["now"] != r[f"seen{h}"], f"serve {h}")]
    program += [
        *sleep([(f"command{h}", f"seen{h}") for h in range(halves)], "worker", p, "worker"),
        ("jump", lambda r: True, "look"),
    ]
    for h in range(halves):
        program += [
            ("label", f"serve {h}"),
            ("load", "now", f"command{h}"),
            ("set", f"seen{h}", lambda r: r["now"]),
            ("set", f"served{h}", lambda r, h=h: r[f"served{h}"] + 1),
            *send(f"status{h}", f"learner{h}", lambda r, h=h: r[f"seen{h}"], p, f"status {h}"),
            ("jump", lambda r: True, "look"),
        ]
    return program


@dataclass
class Result:
    """What a search found."""

    states: int
    stuck: int
    """States from which nothing moves although the learner has not received everything."""
    wrong: int
    """Ends in which a half was not served exactly once per turn."""


class Machine:
    """Two processors with store buffers over one memory."""

    def __init__(self, halves: int, turns: int, protocol: Protocol) -> None:
        self.programs = [learner(halves, turns, protocol), worker(halves, protocol)]
        self.labels = [{i[1]: at for at, i in enumerate(program) if i[0] == "label"} for program in self.programs]
        self.halves, self.turns = halves, turns
        words = [f"{kind}{h}" for kind in ("command", "status") for h in range(halves)]
        bells = ["worker", *(f"learner{h}" for h in range(halves))]
        self.words = sorted([*words, *(f"{bell}.{part}" for bell in bells for part in ("word", "sleeping"))])
        self.registers = sorted(
            {"sleeps", "word", "seen", "now", "old", *(f"{kind}{h}" for kind in ("seen", "served") for h in range(halves))}
        )

    def initial(self) -> tuple[Any, ...]:
        """A state: memory, and per processor (place, registers, store buffer, asleep on a word or "")."""
        core = (0, (0,) * len(self.registers), (), "")
        return ((0,) * len(self.words), (core, core))

    def successors(self, state: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """All states one step on: an instruction of either, or the oldest buffered store reaching memory."""
        found = []
        for me in range(2):
            memory, cores = state
            place, registers, buffer, asleep = cores[me]
            if buffer:
                word, value = buffer[0]
                drained = self._put(memory, word, value)
                found.append(self._with(drained, cores, me, (place, registers, buffer[1:], asleep)))
            if not asleep:
                found += self._run(memory, cores, me)
        return found

    def _put(self, memory: tuple[int, ...], word: str, value: int) -> tuple[int, ...]:
        at = self.words.index(word)
        return (*memory[:at], value, *memory[at + 1 :])

    @staticmethod
    def _with(memory: Any, cores: Any, me: int, core: Any) -> tuple[Any, ...]:
        return (memory, (core, cores[1]) if me == 0 else (cores[0], core))

    def _run(self, memory: Any, cores: Any, me: int) -> list[tuple[Any, ...]]:
        place, registers, buffer, _ = cores[me]
        instruction = self.programs[me][place]
        kind = instruction[0]
        if kind == "end":
            return []
        r = dict(zip(self.registers, registers, strict=True))
        target, asleep = place + 1, ""
        if kind == "load":
            own = [value for word, value in buffer if word == instruction[2]]
            r[instruction[1]] = own[-1] if own else memory[self.words.index(instruction[2])]
        elif kind == "set":
            r[instruction[1]] = instruction[2](r)
        elif kind == "jump":
            target = self.labels[me][instruction[2]] if instruction[1](r) else target
        elif kind == "store":
            if instruction[3] and buffer:
                return []  # a full barrier waits for the buffer
            if instruction[3]:
                memory = self._put(memory, instruction[1], instruction[2](r))
            else:
                buffer = (*buffer, (instruction[1], instruction[2](r)))
        elif kind in ("wait", "wake") and buffer:
            return []  # a system call is a full barrier too
        elif kind == "wait":
            asleep = instruction[1] if memory[self.words.index(instruction[1])] == r[instruction[2]] else ""
        elif kind == "wake":
            other = cores[1 - me]
            if other[3] == instruction[1]:
                cores = (cores[0], (*other[:3], "")) if me == 0 else ((*other[:3], ""), cores[1])
        core = (target, tuple(r[name] for name in self.registers), buffer, asleep)
        return [self._with(memory, cores, me, core)]

    def _served(self, state: tuple[Any, ...]) -> list[int]:
        r = dict(zip(self.registers, state[1][1][1], strict=True))
        return [r[f"served{h}"] for h in range(self.halves)]

    def search(self) -> Result:
        """Visit every state that can be reached."""
        first = self.initial()
        seen, open_states, stuck, wrong = {first}, [first], 0, 0
        while open_states:
            state = open_states.pop()
            following = self.successors(state)
            ended = self.programs[0][state[1][0][0]][0] == "end"
            if not following and not ended:
                stuck += 1
            if ended and self._served(state) != [self.turns] * self.halves:
                wrong += 1
            for next_state in following:
                if next_state not in seen:
                    seen.add(next_state)
                    open_states.append(next_state)
        return Result(len(seen), stuck, wrong)
