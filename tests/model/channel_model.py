# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""All interleavings of the channel's protocol (csrc/core/channel.h), with store buffers of a real
processor, crashes and signals.

A lost wake-up is no data race, so no sanitizer sees it, and it is too rare for a stress test. Here
the learner and its workers are little programs over shared words; every order of their steps is
tried, also those in which a store sits in its processor's buffer while later loads run ahead, and
those in which somebody dies, a futex call returns for no reason, or a signal ends a wait and the
learner closes. What holds in every state (machine.py looks):

    somebody can always move, and an end can always be reached: no lost wake-up; after any crash the
    survivors end each turn runs once: what a worker finds is the turn after the last one that it
    ran a worker writes rows only while their turn is open, the learner reads them only while it is
    closed, and finds that turn's actions likewise, the other way round

Turns count modulo 4 here and begin at 3, so that they wrap in every search.

    python -m tests.model.channel_model      (make model) the large searches, and every sabotage:
                                             states, problems, seconds
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.model.machine import (
    CLOSING,
    PLAIN,
    RELEASE,
    SEQ_CST,
    Faults,
    Instruction,
    Machine,
    Payload,
    Registers,
    Result,
)

FIRST_TURN, TURNS = 3, 4


@dataclass(frozen=True)
class Protocol:
    """What may be left out, to see that the search finds it."""

    recheck: bool = True
    """The sleeper looks at the turns again after it said that it sleeps."""
    recheck_all: bool = True
    """... at those of all its halves (else at the first one's)."""
    turn_order: str = SEQ_CST
    """The turn is stored behind the payload and before the look at the flag. RELEASE: not the
        latter; PLAIN: neither.
    """
    turn_last: bool = True
    """The turn is stored after the payload."""
    sleeping_seq_cst: bool = True
    """The flag is stored with a full barrier, before the sleeper looks at the turn."""
    bump: bool = True
    """A sender that sees a sleeper changes the futex word before it wakes."""
    wake: bool = True
    """... and wakes."""
    look_after: bool = True
    """The sender looks at the flag after it stored the turn (else before)."""
    word_first: bool = True
    """The sleeper reads the futex word before it looks at the turn (else after)."""
    atomic: bool = True
    """The futex word is incremented in one step (else read and then stored)."""
    home_doorbell: bool = True
    """The learner rings the doorbell of the worker's first half (else that of the half it sends
    to).
    """
    inequality: bool = True
    """A turn is new if it differs (else if it is greater)."""
    note_turn: bool = True
    """The worker remembers which turn it served."""
    whole_half: bool = True
    """First come, first served: a half is taken when all of its workers are done (else when one
        is).
    """
    read_late: bool = True
    """The learner reads rows after it has seen the turn (else before)."""
    poll: bool = True
    """Between two slices the learner looks whether a worker died."""


@dataclass(frozen=True)
class Setup:
    """Who takes part.

    shared: each worker serves all halves (else one worker per half)
    workers_sleep: else a worker's wait for its only half is one step: the learner's side, with more
        workers and turns
    """

    workers: int = 1
    halves: int = 1
    turns: int = 1
    shared: bool = True
    any_order: bool = False
    workers_sleep: bool = True

    def workers_of(self, half: int) -> range:
        """The workers that serve a half."""
        return range(self.workers) if self.shared else range(half, half + 1)

    def halves_of(self, worker: int) -> range:
        """The halves that a worker serves."""
        return range(self.halves) if self.shared else range(worker, worker + 1)

    def learner_doorbell(self, worker: int, half: int) -> str:
        """pv_learner_doorbell."""
        return "learner" if self.any_order else f"learner{worker}{half}"

    def worker_doorbell(self, worker: int, half: int, p: Protocol) -> str:
        """pv_worker_doorbell of csrc/core/channel.c."""
        if not self.workers_sleep:
            return ""
        return f"worker{worker}{self.halves_of(worker)[0] if p.home_doorbell else half}"


def always(r: Registers) -> bool:
    return True


def turn(number: int) -> int:
    """The turn's value after `number` turns."""
    return (FIRST_TURN + number) % TURNS


def is_new(value: int, seen: int, p: Protocol) -> bool:
    return value != seen if p.inequality else value > seen


# ---- the two halves of channel.c -----------------------------------------------------------------


def publish(
    line: str,
    doorbell: str,
    payload: list[Instruction],
    value: Callable[[Registers], int],
    p: Protocol,
    mark: str,
) -> list[Instruction]:
    """pv_publish: payload, turn, look whether the reader sleeps, ring. doorbell: "" where the
    reader never does.
    """
    bump: list[Instruction] = [("add", f"{doorbell}.word")]
    if not p.atomic:
        bump = [
            ("load", "word", f"{doorbell}.word"),
            ("store", f"{doorbell}.word", lambda r: r["word"] + 1, PLAIN),
        ]
        bump += [("set", "word", lambda r: 0)]
    store: list[Instruction] = [("store", line, value, p.turn_order)]
    if not doorbell:
        return [*payload, *store]
    awake: list[Instruction] = [
        ("branch", f"{doorbell}.sleeping", lambda value, r: not value, f"sent {mark}")
    ]
    store = payload + store if p.turn_last else store + payload
    return [
        *(store + awake if p.look_after else awake + store),
        *(bump if p.bump else []),
        *([("wake", f"{doorbell}.word")] if p.wake else []),
        ("jump", f"rung {mark}", always),
        ("label", f"sent {mark}"),
        *([] if p.look_after else store),
        ("label", f"rung {mark}"),
    ]


def sleep(watched: list[Instruction], doorbell: str, p: Protocol) -> list[Instruction]:
    """The end of pv_wait. watched: branches to "awake ..." for each turn that may have changed."""
    word: list[Instruction] = [("load", "seen", f"{doorbell}.word")]
    recheck = (watched if p.recheck_all else watched[:1]) if p.recheck else []
    return [
        *(word if p.word_first else []),
        ("store", f"{doorbell}.sleeping", lambda r: 1, SEQ_CST if p.sleeping_seq_cst else PLAIN),
        *recheck,
        *([] if p.word_first else word),
        ("wait", f"{doorbell}.word", "seen"),
        ("label", watched[0][3]),
        ("set", "seen", lambda r: 0),
        ("store", f"{doorbell}.sleeping", lambda r: 0, SEQ_CST),
    ]


# ---- the learner ---------------------------------------------------------------------------------


def send(s: Setup, half: int, p: Protocol, mark: str) -> list[Instruction]:
    """pv_turn_send: the turn after those received, to all workers of a half."""
    program: list[Instruction] = []
    for w in s.workers_of(half):
        lane = f"{w}{half}"

        def value(r: Registers) -> int:
            return turn(r[f"got{half}"] + 1)

        payload: list[Instruction] = [("store", f"asked{lane}", value, PLAIN)]
        program += publish(
            f"command{lane}", s.worker_doorbell(w, half, p), payload, value, p, f"{mark} {lane}"
        )
    return program


def take(s: Setup, half: int) -> list[Instruction]:
    """Read the rows of a half; then another turn of it is received."""

    def value(r: Registers) -> int:
        return turn(r[f"got{half}"] + 1)

    reads: list[Instruction] = [("read", f"rows{w}{half}", value) for w in s.workers_of(half)]
    return [*reads, ("set", f"got{half}", lambda r: r[f"got{half}"] + 1)]


def answered(w: int, half: int, label: str, p: Protocol) -> Instruction:
    return (
        "branch",
        f"status{w}{half}",
        lambda value, r: is_new(value, turn(r[f"got{half}"]), p),
        label,
    )


def waits(
    s: Setup, watched: list[tuple[int, int]], doorbell: str, look: str, p: Protocol
) -> list[Instruction]:
    """pv_wait by the learner, and what Python does between two slices: look at the workers, run
    signal handlers.
    """
    mark = f"{look} awake"
    return [
        *sleep([answered(w, h, mark, p) for w, h in watched], doorbell, p),
        *[answered(w, h, look, p) for w, h in watched],
        ("poll", "failed" if p.poll else look, "close"),
        ("jump", look, always),
    ]


def in_order(s: Setup, p: Protocol) -> list[Instruction]:
    """recv and send, half after half."""
    program: list[Instruction] = [("label", "again")]
    for h in range(s.halves):
        early = take(s, h)[:-1] if not p.read_late else []
        program += early
        for w in s.workers_of(h):
            look, done = f"look {w}{h}", f"done {w}{h}"
            program += [("label", look), answered(w, h, done, p)]
            program += [*waits(s, [(w, h)], s.learner_doorbell(w, h), look, p), ("label", done)]
        program += take(s, h) if p.read_late else take(s, h)[-1:]
        program += [
            ("jump", f"last {h}", lambda r, h=h: r[f"got{h}"] == s.turns),
            *send(s, h, p, "next"),
            ("label", f"last {h}"),
        ]
    return [*program, ("jump", "again", lambda r: r[f"got{s.halves - 1}"] < s.turns)]


def first_come(s: Setup, p: Protocol) -> list[Instruction]:
    """pv_turn_recv_any: take whichever half is done; else wait on the doorbell that all workers
    ring.
    """
    program: list[Instruction] = [("label", "look")]
    finished = [(lambda r, h=h: r[f"got{h}"] == s.turns) for h in range(s.halves)]
    for h in range(s.halves):
        lanes = [(w, h) for w in s.workers_of(h)]
        program += [("jump", f"not {h}", finished[h])]
        if p.whole_half:
            for w, _ in lanes:  # the first that is not done sends us on
                program += [
                    answered(w, h, f"done {w}{h}", p),
                    ("jump", f"not {h}", always),
                    ("label", f"done {w}{h}"),
                ]
            program += [("jump", f"take {h}", always)]
        else:
            program += [answered(w, h, f"take {h}", p) for w, _ in lanes]
        program += [("label", f"not {h}")]
    program += any_wait(s, p)
    for h in range(s.halves):
        program += [
            ("label", f"take {h}"),
            *take(s, h),
            ("jump", f"last {h}", finished[h]),
            *send(s, h, p, "next"),
        ]
        program += [
            ("label", f"last {h}"),
            ("jump", "look", lambda r: any(r[f"got{h}"] < s.turns for h in range(s.halves))),
        ]
        program += [("jump", "close", always)]
    return program


def any_wait(s: Setup, p: Protocol) -> list[Instruction]:
    """watch_half: collect the lanes that are not done (register `open<lane>`); then sleep until one
    of them is.
    """
    lanes = [(w, h) for h in range(s.halves) for w in s.workers_of(h)]
    program: list[Instruction] = []
    for w, h in lanes:
        program += [
            ("set", f"open{w}{h}", lambda r: 0),
            ("jump", f"closed {w}{h}", lambda r, h=h: r[f"got{h}"] == s.turns),
            answered(w, h, f"closed {w}{h}", p),
            ("set", f"open{w}{h}", lambda r: 1),
            ("label", f"closed {w}{h}"),
        ]

    def watch(w: int, h: int, label: str) -> Instruction:
        def changed(value: int, r: Registers) -> bool:
            return bool(r[f"open{w}{h}"]) and is_new(value, turn(r[f"got{h}"]), p)

        return ("branch", f"status{w}{h}", changed, label)

    forget: list[Instruction] = [("set", f"open{w}{h}", lambda r: 0) for w, h in lanes]
    nothing = ("jump", "look", lambda r: not any(r[f"open{w}{h}"] for w, h in lanes))
    return [
        *program, nothing, *sleep([watch(w, h, "awake") for w, h in lanes], "learner", p),
        *[watch(w, h, "look") for w, h in lanes],
        ("poll", "failed" if p.poll else "look", "close"),
        *forget, ("jump", "look", always),
    ]  # fmt: skip


def learner(s: Setup, p: Protocol) -> list[Instruction]:
    """Send to all halves, receive and send until each had its turns, close."""
    program: list[Instruction] = []
    for h in range(s.halves):
        program += send(s, h, p, "first")
    program += first_come(s, p) if s.any_order else in_order(s, p)
    program += [("label", "close")]
    for w in range(s.workers):
        home = s.halves_of(w)[0]
        asked: list[Instruction] = [("store", f"asked{w}{home}", lambda r: CLOSING, PLAIN)]
        program += [("load", "sent", f"command{w}{home}")]
        program += publish(
            f"command{w}{home}",
            s.worker_doorbell(w, home, p),
            asked,
            lambda r: (r["sent"] + 1) % TURNS,
            p,
            f"close {w}",
        )
    joins: list[Instruction] = [("join", 1 + w) for w in range(s.workers)]
    return [*program, *joins, ("end",), ("label", "failed"), ("kill",), ("end",)]


# ---- a worker ------------------------------------------------------------------------------------


def worker(w: int, s: Setup, p: Protocol) -> list[Instruction]:
    """pv_worker_run: look at all halves, serve what changed, else sleep."""
    halves = s.halves_of(w)

    def called(h: int, label: str) -> Instruction:
        return (
            "branch",
            f"command{w}{h}",
            lambda value, r: is_new(value, r[f"served{h}"], p),
            label,
        )

    doorbell = s.worker_doorbell(w, halves[0], p)
    program: list[Instruction] = [("label", "look")]
    if s.workers_sleep:
        program += [called(h, f"serve {h}") for h in halves]
        program += [
            *sleep([called(h, "awake") for h in halves], doorbell, p),
            ("jump", "look", always),
        ]
    else:
        program += [("until", *called(halves[0], "")[1:3])]
    for h in halves:
        program += serve(w, h, s, p)
    return program


def serve(w: int, h: int, s: Setup, p: Protocol) -> list[Instruction]:
    """serve of csrc/core/worker.c: the semaphore is read before the envs run, and again after
    them.
    """
    lane = f"{w}{h}"
    closes = ("branch", f"asked{lane}", lambda value, r: value == CLOSING, f"closing {h}")
    rows: list[Instruction] = [("store", f"rows{lane}", lambda r: r["turn"], PLAIN)]
    status, doorbell = f"status{lane}", s.learner_doorbell(w, h)
    return [
        ("label", f"serve {h}"),
        ("load", "turn", f"command{lane}"),
        closes,
        ("check", lambda r: r["turn"] == (r[f"served{h}"] + 1) % TURNS),
        ("read", f"asked{lane}", lambda r: r["turn"]),
        ("set", f"served{h}", lambda r: r["turn"] if p.note_turn else r[f"served{h}"]),
        *publish(status, doorbell, [*rows, closes], lambda r: r["turn"], p, f"status {h}"),
        ("set", "turn", lambda r: 0),
        ("jump", "look", always),
        ("label", f"closing {h}"),
        *publish(status, doorbell, [], lambda r: r["turn"], p, f"closed {h}"),
        ("end",),
    ]


# ---- searching -----------------------------------------------------------------------------------


def machine(s: Setup, faults: Faults | None = None, p: Protocol | None = None) -> Machine:
    """The learner and all workers of a setup."""
    p = p or Protocol()
    programs = [learner(s, p), *(worker(w, s, p) for w in range(s.workers))]
    lanes = [f"{w}{h}" for w in range(s.workers) for h in s.halves_of(w)]
    payloads = {f"rows{lane}": Payload(f"command{lane}", f"status{lane}", True) for lane in lanes}
    payloads |= {
        f"asked{lane}": Payload(f"command{lane}", f"status{lane}", False) for lane in lanes
    }
    memory = {f"{line}{lane}": FIRST_TURN for lane in lanes for line in ("command", "status")}
    registers = {f"served{h}": FIRST_TURN for h in range(s.halves)}
    return Machine(programs, faults or Faults(), payloads, memory, registers)


ONE = Setup(turns=2)
TWO_HALVES = Setup(halves=2)
SHARED_BELL = Setup(2, 2, 2, shared=False, any_order=True, workers_sleep=False)
TOGETHER = Setup(workers=2, any_order=True, workers_sleep=False)
CRASH = Faults(crashes=1)

# What each part is for: the protocol without it, and the smallest setup in which the search finds
# that.
SABOTAGES: dict[str, tuple[Setup, Faults, Protocol]] = {
    "no recheck": (ONE, Faults(), Protocol(recheck=False)),
    "recheck of one half only": (TWO_HALVES, Faults(), Protocol(recheck_all=False)),
    "no barrier behind the turn": (ONE, Faults(), Protocol(turn_order=RELEASE)),
    "turn without release": (ONE, Faults(), Protocol(turn_order=PLAIN)),
    "turn before payload": (ONE, Faults(), Protocol(turn_last=False)),
    "no barrier behind the flag": (ONE, Faults(), Protocol(sleeping_seq_cst=False)),
    "doorbell word unchanged": (ONE, Faults(), Protocol(bump=False)),
    "no wake": (ONE, Faults(), Protocol(wake=False)),
    "flag looked at before the turn is stored": (ONE, Faults(), Protocol(look_after=False)),
    "doorbell word read after the recheck": (ONE, Faults(), Protocol(word_first=False)),
    "plain increment of a shared word": (
        Setup(2, 1, 2, any_order=True, workers_sleep=False),
        Faults(),
        Protocol(atomic=False),
    ),
    "doorbell of the wrong half": (TWO_HALVES, Faults(), Protocol(home_doorbell=False)),
    "turns compared by less than": (ONE, Faults(), Protocol(inequality=False)),
    "served turn not noted": (ONE, Faults(), Protocol(note_turn=False)),
    "half taken when one worker is done": (TOGETHER, Faults(), Protocol(whole_half=False)),
    "rows read before the turn": (ONE, Faults(), Protocol(read_late=False)),
    "nobody looks for dead workers": (ONE, CRASH, Protocol(poll=False)),
    "the learner sleeps without slices": (ONE, Faults(crashes=1, slices=False), Protocol()),
    "workers do not watch the learner": (ONE, Faults(crashes=1, watch=False), Protocol()),
    "nobody looks for dead workers, shared doorbell": (TOGETHER, CRASH, Protocol(poll=False)),
}

# The large searches of `make model`; tests/model/test_channel_model.py has the small ones.
LARGE: tuple[tuple[Setup, Faults], ...] = (
    (Setup(turns=4), Faults(2, 2, 1)),
    (Setup(halves=2, turns=2), Faults(1, 1, 1)),
    (Setup(halves=3), Faults(1, 2, 1)),
    (Setup(workers=2, turns=2), Faults()),
    (Setup(2, 2, 2, shared=False), Faults()),
    (Setup(3, 3, 2, shared=False, workers_sleep=False), Faults()),
    (Setup(3, 1, 2, workers_sleep=False), Faults()),
    (Setup(3, 1, 3, workers_sleep=False), Faults()),
    (SHARED_BELL, Faults(1, 1, 1)),
    (Setup(3, 1, 2, any_order=True, workers_sleep=False), Faults()),
    (Setup(3, 3, 1, shared=False, any_order=True, workers_sleep=False), Faults(1, 0, 0)),
)


def describe(s: Setup, faults: Faults) -> str:
    """One line for the table."""
    served = "each serves all halves" if s.shared else "one half each"
    order = "first come" if s.any_order else "in order"
    counts = f"{faults.crashes} crashes, {faults.spurious} spurious, {faults.interrupts} interrupts"
    asleep = "" if s.workers_sleep else ", learner's side"
    return (
        f"{s.workers} workers, {s.halves} halves, {s.turns} turns, {served}, {order}{asleep}; "
        f"{counts}"
    )


def report(name: str, searched: Machine, first_problem: bool) -> Result:
    """Search, and print a line of the table."""
    begin = time.perf_counter()
    result = searched.search(first_problem)
    seconds = time.perf_counter() - begin
    print(
        f"{result.states:>9,} states  {result.stuck:>3} stuck  {result.wrong:>3} wrong  "
        f"{seconds:6.1f} s  {name}",
        flush=True,
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 1 if the protocol has a problem or a sabotage
    none.
    """
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument(
        "--trace",
        metavar="SABOTAGE",
        choices=SABOTAGES,
        help="print how this one goes wrong, and nothing else",
    )
    options = flags.parse_args(arguments)
    if options.trace:
        print("\n".join(machine(*SABOTAGES[options.trace]).search(first_problem=True).trace))
        return 0
    bad = []
    for name, sabotage in SABOTAGES.items():
        result = report(f"sabotage: {name}", machine(*sabotage), first_problem=True)
        bad += [] if result.stuck or result.wrong else [name]
    total = 0
    for s, faults in LARGE:
        result = report(describe(s, faults), machine(s, faults), first_problem=False)
        total += result.states
        bad += [describe(s, faults), *result.trace] if result.stuck or result.wrong else []
    found = len(SABOTAGES) - len(set(bad) & set(SABOTAGES))
    print(f"{total:,} states of the protocol; sabotages found: {found} of {len(SABOTAGES)}")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
