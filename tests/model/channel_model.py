# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""All interleavings of the channel's protocol (csrc/channel.h), with the store buffers of a real processor.

A lost wake-up is no data race, so no sanitizer sees it, and it is too rare for a stress test. Here the learner and its workers
are little programs over shared words; every order of their steps is tried, also those in which a store sits in its
processor's buffer while later loads run ahead. A futex never times out in the model: what the 20 ms slice would hide is a
state from which nothing moves.

    two_ends     the learner and one worker: each sleeps on bells that only the other rings
    one_bell     the learner takes halves in any order: it sleeps on one bell that several workers ring
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Registers = dict[str, int]
Instruction = tuple[Any, ...]
# ("store", word, value(registers), seq_cst) | ("load", register, word) | ("add", word) | ("until", word, register)
# ("wait", word, register) | ("wake", word)
# ("jump", condition(registers), label) | ("set", register, value(registers)) | ("label", name) | ("end",)
WORD_AT = {"store": 1, "load": 2, "add": 1, "until": 1, "wait": 1, "wake": 1}
REGISTER_AT = {"load": 1, "set": 1, "wait": 2, "until": 2}


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
    atomic: bool = True
    """The futex word is incremented in one step (else read and then stored)."""


def send(turn: str, bell: str, value: Callable[[Registers], int], p: Protocol, mark: str) -> list[Instruction]:
    """pv_publish: store the turn, look whether the reader sleeps, ring."""
    bump: list[Instruction] = [("add", f"{bell}.word")]
    if not p.atomic:
        bump = [("load", "word", f"{bell}.word"), ("store", f"{bell}.word", lambda r: r["word"] + 1, False)]
    return [
        ("store", turn, value, p.turn_seq_cst),
        ("load", "sleeps", f"{bell}.sleeping"),
        ("jump", lambda r: not r["sleeps"], f"sent {mark}"),
        *(bump if p.bump else []),
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


def taker(turns: tuple[int, ...], p: Protocol) -> list[Instruction]:
    """pv_turn_recv_any: take whoever is done, give it its next turn, else sleep on the one bell; until all turns are taken."""
    program: list[Instruction] = [("store", f"command{w}", lambda r: 1, True) for w in range(len(turns))]
    program += [("label", "look")]
    for w in range(len(turns)):
        program += [("load", "now", f"status{w}"), ("jump", lambda r, w=w: r["now"] != r[f"got{w}"], f"take {w}")]
    program += [
        *sleep([(f"status{w}", f"got{w}") for w in range(len(turns))], "learner", p, "learner"),
        ("jump", lambda r: True, "look"),
    ]
    for w, most in enumerate(turns):
        program += [
            ("label", f"take {w}"),
            ("set", f"got{w}", lambda r, w=w: r[f"got{w}"] + 1),
            ("jump", lambda r: tuple(r[f"got{i}"] for i in range(len(turns))) == turns, "all"),
            ("jump", lambda r, w=w, most=most: r[f"got{w}"] == most, "look"),
            ("store", f"command{w}", lambda r, w=w: r[f"got{w}"] + 1, True),
            ("jump", lambda r: True, "look"),
        ]
    return [*program, ("label", "all"), ("end",)]


def sender(w: int, turns: int, p: Protocol) -> list[Instruction]:
    """A worker of the learner above. How it waits for its command is the business of `worker`; here it just does."""
    program: list[Instruction] = []
    for n in range(1, turns + 1):
        program += [
            ("until", f"command{w}", "seen"),
            ("set", "seen", lambda r, n=n: n),
            ("set", f"served{w}", lambda r, w=w: r[f"served{w}"] + 1),
            *send(f"status{w}", "learner", lambda r: r["seen"], p, f"{n}"),
        ]
    return [*program, ("end",)]


@dataclass
class Result:
    """What a search found."""

    states: int
    stuck: int
    """States from which nothing moves although the learner has not received everything."""
    wrong: int
    """Ends in which a half was not served exactly once per turn."""


def two_ends(halves: int, turns: int, protocol: Protocol) -> Machine:
    """The learner, and one worker that serves all halves."""
    return Machine([learner(halves, turns, protocol), worker(halves, protocol)], {f"served{h}": turns for h in range(halves)})


def one_bell(turns: tuple[int, ...], protocol: Protocol) -> Machine:
    """The learner that takes halves in any order, and a worker per half; turns: how many each is given."""
    senders = [sender(w, count, protocol) for w, count in enumerate(turns)]
    return Machine([taker(turns, protocol), *senders], {f"served{w}": count for w, count in enumerate(turns)})


class Machine:
    """Processors with store buffers over one memory; the first is the learner's."""

    def __init__(self, programs: list[list[Instruction]], served: dict[str, int]) -> None:
        """`served`: the registers of the workers that count turns, and what they are to hold in the end."""
        self.programs, self.served = programs, served
        self.labels = [{i[1]: at for at, i in enumerate(program) if i[0] == "label"} for program in programs]
        every = [instruction for program in programs for instruction in program]
        self.words = sorted({i[WORD_AT[i[0]]] for i in every if i[0] in WORD_AT})
        self.registers = sorted({i[REGISTER_AT[i[0]]] for i in every if i[0] in REGISTER_AT})
        self.at = {word: index for index, word in enumerate(self.words)}

    def initial(self) -> tuple[Any, ...]:
        """A state: memory, and per processor (place, registers, store buffer, asleep on a word or "")."""
        core = (0, (0,) * len(self.registers), (), "")
        return ((0,) * len(self.words), (core,) * len(self.programs))

    def successors(self, state: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """All states one step on: an instruction of any, or the oldest buffered store reaching memory."""
        found = []
        memory, cores = state
        for me, (place, registers, buffer, asleep) in enumerate(cores):
            if buffer:
                word, value = buffer[0]
                drained = self._put(memory, word, value)
                found.append(self._with(drained, cores, me, (place, registers, buffer[1:], asleep)))
            if not asleep:
                found += self._run(memory, cores, me)
        return found

    def _put(self, memory: tuple[int, ...], word: str, value: int) -> tuple[int, ...]:
        at = self.at[word]
        return (*memory[:at], value, *memory[at + 1 :])

    @staticmethod
    def _with(memory: Any, cores: Any, me: int, core: Any) -> tuple[Any, ...]:
        return (memory, (*cores[:me], core, *cores[me + 1 :]))

    def _run(self, memory: Any, cores: Any, me: int) -> list[tuple[Any, ...]]:
        place, registers, buffer, _ = cores[me]
        instruction = self.programs[me][place]
        kind = instruction[0]
        if kind == "end":
            return []
        if kind in ("wait", "wake", "add") and buffer:
            return []  # system calls and atomic increments are full barriers: they wait for the buffer
        r = dict(zip(self.registers, registers, strict=True))
        target, asleep = place + 1, ""
        if kind == "load":
            own = [value for word, value in buffer if word == instruction[2]]
            r[instruction[1]] = own[-1] if own else memory[self.at[instruction[2]]]
        elif kind == "set":
            r[instruction[1]] = instruction[2](r)
        elif kind == "jump":
            target = self.labels[me][instruction[2]] if instruction[1](r) else target
        elif kind == "store":
            if instruction[3] and buffer:
                return []  # likewise
            if instruction[3]:
                memory = self._put(memory, instruction[1], instruction[2](r))
            else:
                buffer = (*buffer, (instruction[1], instruction[2](r)))
        elif kind == "add":
            memory = self._put(memory, instruction[1], memory[self.at[instruction[1]]] + 1)
        elif kind == "until":
            if memory[self.at[instruction[1]]] == r[instruction[2]]:
                return []
        elif kind == "wait":
            asleep = instruction[1] if memory[self.at[instruction[1]]] == r[instruction[2]] else ""
        elif kind == "wake":
            cores = tuple((*core[:3], "") if core[3] == instruction[1] else core for core in cores)
        core = (target, tuple(r[name] for name in self.registers), buffer, asleep)
        return [self._with(memory, cores, me, core)]

    def _all_served(self, state: tuple[Any, ...]) -> bool:
        counts = dict.fromkeys(self.served, 0)
        for core in state[1][1:]:
            r = dict(zip(self.registers, core[1], strict=True))
            counts = {name: count + r[name] for name, count in counts.items()}
        return counts == self.served

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
            if ended and not self._all_served(state):
                wrong += 1
            for next_state in following:
                if next_state not in seen:
                    seen.add(next_state)
                    open_states.append(next_state)
        return Result(len(seen), stuck, wrong)
