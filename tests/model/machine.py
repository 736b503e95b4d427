# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Processors with store buffers over one memory, and a search of all states that they can reach.
Run by channel_model.py.

A program is a list of instructions, each a tuple:

    ("load", register, word)
    ("store", word, value(r), order)         order: SEQ_CST, RELEASE, PLAIN
    ("branch", word, test(value, r), label)
    ("add", word)                            ... atomically, in memory
    ("read", word, value(r))                 a load of payload: wrong unless it is its reader's turn
                                             and the value is that
    ("wait", word, register)                 a futex
    ("wake", word)                           ... and its other end
    ("until", word, test(value, r))          a load that waits: what is abstracted from
    ("poll", failed, left)                   jump to `failed` if a process died; to `left` if an
                                             interrupt is to come
    ("kill",)                                ends all others
    ("join", other)                          waits until it ended
    ("set", register, value(r))  ("jump", label, when(r))  ("label", name)
    ("check", holds(r))  ("end",)

`r` is a dict of the processor's registers. Instructions of the last two lines touch no memory: they
run together with the one before them, which leaves out no order that matters, and no place for a
crash either.

A store enters its processor's buffer and reaches memory later; what another processor sees is
memory. A PLAIN store may overtake others in the buffer (weaker than x86, where buffers keep their
order), a RELEASE store overtakes nothing, a SEQ_CST store waits for an empty buffer and goes
straight to memory, as do atomic increments and system calls.

Faults are counted, so that each search is finite: crashes (of any process at any place), spurious
returns of the futex, interrupts. A futex has no time limit here: what a time slice would hide is a
state from which nothing moves. The exception is the first process's sleep after another one has
died, since that is what its slices are for. A cycle of states is a problem too: every run has to
come to an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Registers = Mapping[str, int]
Instruction = tuple[Any, ...]
State = tuple[
    int, ...
]  # memory, the number of each core's state, faults left: interrupts, crashes, spurious

SEQ_CST, RELEASE, PLAIN = "seq_cst", "release", "plain"
LOCAL = ("set", "jump", "label", "check")
WORD_AT = {
    "load": 2,
    "until": 1,
    "branch": 1,
    "read": 1,
    "store": 1,
    "add": 1,
    "wait": 1,
    "wake": 1,
}
REGISTER_AT = {"load": 1, "set": 1, "wait": 2}
BELL_MODULUS = 8  # more rings than can fall into one wait
DEAD, WRONG = -1, -2  # places of a core
CLOSING = 99  # a payload that may be written at any time, and read instead of any other


class Core(NamedTuple):
    """One processor. asleep: index of the futex word, or -1."""

    place: int
    registers: tuple[int, ...]
    buffer: tuple[tuple[int, int, str], ...]
    asleep: int


class Move(NamedTuple):
    """What an instruction does: the core's next state, and a word that it writes (-1: none) or
    wakes.
    """

    core: int
    word: int = -1
    value: int = 0
    wakes: int = -1
    kills: bool = False


@dataclass(frozen=True)
class Payload:
    """Who may touch a word of data: a turn is open while its command and its status differ."""

    command: str
    status: str
    written_when_open: bool


@dataclass(frozen=True)
class Faults:
    """How many of each may happen. watch: a process whose first process died is ended; slices: see
    above.
    """

    crashes: int = 0
    spurious: int = 0
    interrupts: int = 0
    watch: bool = True
    slices: bool = True


@dataclass
class Result:
    """What a search found.

    stuck: states from which nothing moves although somebody has not ended, and those on a cycle or
    after one
    wrong: states in which payload is touched out of turn or stale, or a check fails
    trace: the way to the first of them
    """

    states: int = 0
    stuck: int = 0
    wrong: int = 0
    trace: list[str] = field(default_factory=list)


class Machine:
    """Programs over one memory. The first is the learner's, which slices and `poll` are about."""

    def __init__(
        self,
        programs: Sequence[list[Instruction]],
        faults: Faults,
        payloads: Mapping[str, Payload],
        memory: Mapping[str, int],
        registers: Mapping[str, int],
    ) -> None:
        """memory, registers: values at the start, where they are not 0."""
        self.programs, self.faults = programs, faults
        self.labels = [
            {i[1]: at for at, i in enumerate(program) if i[0] == "label"} for program in programs
        ]
        every = [instruction for program in programs for instruction in program]
        self.words = sorted({i[WORD_AT[i[0]]] for i in every if i[0] in WORD_AT})
        self.registers = sorted({i[REGISTER_AT[i[0]]] for i in every if i[0] in REGISTER_AT})
        self.at = {word: index for index, word in enumerate(self.words)}
        self.payloads = {
            self.at[word]: (
                self.at[payload.command],
                self.at[payload.status],
                payload.written_when_open,
            )
            for word, payload in payloads.items()
        }
        self.count, self.cores_at = len(programs), len(self.words)
        self.faults_at = self.cores_at + self.count
        self.cores: list[Core] = []
        self._numbers: dict[tuple[int, Core], int] = {}
        self._owner: list[int] = []
        self._moves: dict[tuple[int, int], Move | None] = {}
        first = [
            Core(0, tuple(registers.get(name, 0) for name in self.registers), (), -1)
        ] * self.count
        cores = [self._number(me, self._settle(me, core)) for me, core in enumerate(first)]
        self.first: State = (
            *(memory.get(word, 0) for word in self.words), *cores, faults.interrupts,
            faults.crashes, faults.spurious
        )  # fmt: skip

    # ---- one core --------------------------------------------------------------------------------

    def _number(self, me: int, core: Core) -> int:
        """A core's state as a number: states are compared and kept in thousands."""
        number = self._numbers.get((me, core))
        if number is None:
            number = self._numbers[me, core] = len(self.cores)
            self.cores.append(core)
            self._owner.append(me)
        return number

    def _settle(self, me: int, core: Core) -> Core:
        """Run what touches no memory."""
        place, r = core.place, dict(zip(self.registers, core.registers, strict=True))
        while self.programs[me][place][0] in LOCAL:
            match self.programs[me][place]:
                case ("set", register, value):
                    r[register] = value(r)
                case ("jump", label, when) if when(r):
                    place = self.labels[me][label]
                case ("check", holds) if not holds(r):
                    return core._replace(place=WRONG)
            place += 1
        return core._replace(place=place, registers=tuple(r[name] for name in self.registers))

    def is_over(self, number: int) -> bool:
        """Dead, or at its program's end."""
        core = self.cores[number]
        return core.place == DEAD or self.programs[self._owner[number]][core.place][0] == "end"

    def died(self, number: int) -> int:
        """Return the number of this core's state once dead: its stores still reach memory."""
        return self._number(self._owner[number], Core(DEAD, (), self.cores[number].buffer, -1))

    def awake(self, number: int) -> int:
        """The number of this core's state after its futex call returned."""
        return self._number(self._owner[number], self.cores[number]._replace(asleep=-1))

    def drains(self, number: int) -> Iterator[tuple[int, int, int]]:
        """Yield (word, value, the core's number after it) of stores that may reach memory next."""
        core = self.cores[number]
        for index, (word, value, order) in enumerate(core.buffer):
            earlier = core.buffer[:index]
            if earlier and order != PLAIN:
                continue
            if any(other == word or kind != PLAIN for other, _, kind in earlier):
                continue
            yield (
                word,
                value,
                self._number(
                    self._owner[number], core._replace(buffer=earlier + core.buffer[index + 1 :])
                ),
            )

    def _looks_at(self, number: int) -> int:
        """Index of the word that the core's next instruction depends on, or -1."""
        instruction = self.programs[self._owner[number]][self.cores[number].place]
        return self.at[instruction[WORD_AT[instruction[0]]]] if instruction[0] in WORD_AT else -1

    def _move(self, number: int, seen: int) -> Move | None:
        """The core's next instruction, where memory holds `seen`; None: it has to wait."""
        me, core = self._owner[number], self.cores[number]
        instruction = self.programs[me][core.place]
        kind, r = instruction[0], dict(zip(self.registers, core.registers, strict=True))
        word = self._looks_at(number)
        if core.buffer and (
            kind in ("wait", "wake", "add") or (kind == "store" and instruction[3] == SEQ_CST)
        ):
            return None
        own = [value for at, value, _ in core.buffer if at == word]
        seen = own[-1] if own else seen
        effect = Move(0)
        core = core._replace(place=core.place + 1)
        match instruction:
            case ("load", register, _):
                r[register] = seen
            case ("until", _, test) if not test(seen, r):
                return None
            case ("branch", _, test, label) if test(seen, r):
                core = core._replace(place=self.labels[me][label])
            case ("read", _, value) if seen not in (value(r), CLOSING):
                return Move(self._number(me, core._replace(place=WRONG)))
            case ("store", _, value, order) if order == SEQ_CST:
                effect = Move(0, word, value(r))
            case ("store", _, value, order):
                core = core._replace(buffer=(*core.buffer, (word, value(r), order)))
            case ("add", _):
                effect = Move(0, word, (seen + 1) % BELL_MODULUS)
            case ("wait", _, register):
                core = core._replace(asleep=word if seen == r[register] else -1)
                r[register] = 0
            case ("wake", _):
                effect = Move(0, wakes=word)
            case ("kill",):
                effect = Move(0, kills=True)
            case ("end",):
                return None
        core = self._settle(me, core._replace(registers=tuple(r[name] for name in self.registers)))
        return effect._replace(core=self._number(me, core))

    # ---- all of them -----------------------------------------------------------------------------

    def _is_out_of_turn(self, state: State, word: int, value: int, writes: bool) -> bool:
        if word not in self.payloads or value == CLOSING:
            return False
        command, status, written_when_open = self.payloads[word]
        return (state[command] != state[status]) != (
            written_when_open if writes else not written_when_open
        )

    def _put(
        self, state: State, at: int, core: int, word: int = -1, value: int = 0
    ) -> State | None:
        """The state after a core's change and a store; None: the store is out of turn."""
        if word >= 0 and self._is_out_of_turn(state, word, value, writes=True):
            return None
        following = list(state)
        following[at] = core
        if word >= 0:
            following[word] = value
        return tuple(following)

    def _jumped(self, state: State, at: int, label: str, interrupt: bool = False) -> State:
        me, core = at - self.cores_at, self.cores[state[at]]
        settled = self._settle(me, core._replace(place=self.labels[me][label]))
        following = list(state)
        following[at] = self._number(me, settled)
        following[self.faults_at] -= interrupt
        return tuple(following)

    def _step(self, state: State, at: int) -> Iterator[State | None]:
        """Yield what follows when the core at this place of the state goes on; None: something
        wrong.
        """
        number = state[at]
        core = self.cores[number]
        instruction = self.programs[at - self.cores_at][core.place]
        others = [state[other] for other in range(self.cores_at, self.faults_at) if other != at]
        if instruction[0] == "join" and not self.is_over(state[self.cores_at + instruction[1]]):
            return
        if instruction[0] == "poll":
            if state[self.faults_at]:
                yield self._jumped(state, at, instruction[2], interrupt=True)
            if any(self.cores[other].place == DEAD for other in others):
                yield self._jumped(state, at, instruction[1])
                return
        word = self._looks_at(number)
        key = (number, state[word] if word >= 0 else 0)
        if key not in self._moves:
            self._moves[key] = self._move(*key)
        move = self._moves[key]
        if move is None:
            return
        if self.cores[move.core].place == WRONG or (
            instruction[0] == "read"
            and self._is_out_of_turn(state, word, state[word], writes=False)
        ):
            yield None
            return
        following = self._put(state, at, move.core, move.word, move.value)
        yield (
            self._others(following, at, move)
            if following and (move.wakes >= 0 or move.kills)
            else following
        )

    def _others(self, state: State, at: int, move: Move) -> State:
        """Wake who sleeps on the word, or end all others."""
        following = list(state)
        for other in range(self.cores_at, self.faults_at):
            if other == at:
                continue
            if move.kills:
                following[other] = self.died(state[other])
            elif self.cores[state[other]].asleep == move.wakes:
                following[other] = self.awake(state[other])
        return tuple(following)

    def ordinary(self, state: State) -> Iterator[State | None]:
        """Yield what may follow without another fault; None: something wrong."""
        learner_died = self.cores[state[self.cores_at]].place == DEAD
        died = any(
            self.cores[number].place == DEAD for number in state[self.cores_at : self.faults_at]
        )
        for at in range(self.cores_at, self.faults_at):
            number = state[at]
            core = self.cores[number]
            for word, value, after in self.drains(number):
                yield self._put(state, at, after, word, value)
            if self.is_over(number):
                continue
            if core.asleep < 0:
                yield from self._step(state, at)
            elif at == self.cores_at and died and self.faults.slices:
                yield self._put(state, at, self.awake(number))
            if learner_died and self.faults.watch:
                yield self._put(state, at, self.died(number))

    def faulty(self, state: State) -> Iterator[State]:
        """Yield what may follow by a fault."""
        crashes_at, spurious_at = self.faults_at + 1, self.faults_at + 2
        for at in range(self.cores_at, self.faults_at):
            number = state[at]
            if self.is_over(number):
                continue
            if state[crashes_at]:
                yield self._after_fault(state, at, self.died(number), crashes_at)
            if state[spurious_at] and self.cores[number].asleep >= 0:
                yield self._after_fault(state, at, self.awake(number), spurious_at)

    @staticmethod
    def _after_fault(state: State, at: int, core: int, fault_at: int) -> State:
        following = list(state)
        following[at] = core
        following[fault_at] -= 1
        return tuple(following)

    def search(self, first_problem: bool = False) -> Result:
        """Visit every state that can be reached, nearest first; or stop at the first problem."""
        numbers, states, parents = {self.first: 0}, [self.first], [-1]
        result, edges, problem = Result(), [], -1
        for now, state in enumerate(states):  # `states` grows meanwhile
            moves, wrong = False, False
            for following in self.ordinary(state):
                moves = True
                if following is None:
                    wrong = True
                else:
                    edges.append((now, self._add(following, now, numbers, states, parents)))
            for following in self.faulty(state):
                edges.append((now, self._add(following, now, numbers, states, parents)))
            over = all(self.is_over(core) for core in state[self.cores_at : self.faults_at])
            result.wrong += wrong
            result.stuck += not moves and not over
            if problem < 0 and (wrong or (not moves and not over)):
                problem = now
                if first_problem:
                    break
        result.states = len(states)
        if problem < 0:
            endless = self._endless(len(states), edges)
            result.stuck += len(endless)
            problem = int(endless[0]) if len(endless) else -1
        result.trace = self._trace(states, parents, problem)
        return result

    @staticmethod
    def _add(
        state: State,
        parent: int,
        numbers: dict[State, int],
        states: list[State],
        parents: list[int],
    ) -> int:
        number = numbers.setdefault(state, len(states))
        if number == len(states):
            states.append(state)
            parents.append(parent)
        return number

    @staticmethod
    def _endless(count: int, edges: list[tuple[int, int]]) -> Any:
        """Return the states that lie on a cycle or after one; without any, every run comes to an
        end.
        """
        before, after = np.array(edges, np.int64).reshape(-1, 2).T
        order = np.argsort(before, kind="stable")
        after, first = after[order], np.searchsorted(before[order], np.arange(count + 1))
        arrivals = np.bincount(after, minlength=count)
        open_states = np.flatnonzero(arrivals == 0).tolist()
        while open_states:  # peel off what nothing leads to any more
            state = open_states.pop()
            for following in after[first[state] : first[state + 1]].tolist():
                arrivals[following] -= 1
                if not arrivals[following]:
                    open_states.append(following)
        return np.flatnonzero(arrivals)

    def _trace(self, states: list[State], parents: list[int], problem: int) -> list[str]:
        """The way to a state, one line per step: who moved, the instruction, what memory holds
        then.
        """
        way: list[int] = []
        while problem >= 0:
            way.append(problem)
            problem = parents[problem]
        lines = []
        for now in reversed(way):
            memory = " ".join(
                f"{word}={value}"
                for word, value in zip(self.words, states[now], strict=False)
                if value
            )
            places = []
            for me, number in enumerate(states[now][self.cores_at : self.faults_at]):
                core = self.cores[number]
                doing = (
                    "dead"
                    if core.place == DEAD
                    else " ".join(map(str, self.programs[me][core.place][:2]))
                )
                buffered = "".join(
                    f" [{self.words[word]}={value}]" for word, value, _ in core.buffer
                )
                places.append(f"{'asleep at ' if core.asleep >= 0 else ''}{doing}{buffered}")
            lines.append(f"{' | '.join(places)} || {memory}")
        return lines
