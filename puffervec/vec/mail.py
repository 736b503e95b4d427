# SPDX-FileCopyrightText: 2026 the puffervec authors
# SPDX-License-Identifier: MIT
"""Messages between Python envs and the learner that do not fit the rows.

They are calls, reset options, infos, and actions that rows cannot hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from puffervec._ffi import lib
from puffervec.core import actions as action_border
from puffervec.core.actions import Native
from puffervec.core.info_area import InfoArea, InfoReader, gather
from puffervec.core.infos import Infos
from puffervec.errors import ConfigError, WorkerError
from puffervec.vec.rows import Lane, Rows
from puffervec.workers.python.mailbox import Mailbox


class Mail:
    """The mailboxes and info areas of a vector env of Python envs.

    Attributes:
        boxes: the mailboxes by worker.
        readers: for each half, one (position, reader) per worker: the position of the worker's
            first env in the half, and its info reader.
        shared: whether the workers are other processes.
    """

    def __init__(self, rows: Rows, shared: bool) -> None:
        self._rows, self.shared = rows, shared
        served: list[list[int]] = [[] for _ in range(rows.num_workers)]
        self.readers: list[list[tuple[int, InfoReader]]] = [[] for _ in rows.halves]
        for worker, half in rows.lanes(range(len(rows.halves))):
            served[worker].append(half)
            span = rows.span(worker, half)
            area = InfoArea(rows.buffer, lib.pv_slab_infos(rows.slab, worker, half), len(span))
            self.readers[half].append(
                (span.start - int(rows.halves[half].env_ids[0]), InfoReader(area))
            )
        self.boxes = [Mailbox(halves, shared) for halves in served]

    def encoded(self, questions: Mapping[Lane, Any], what: str) -> dict[Lane, Any]:
        """Return the questions, encoded for the mailboxes.

        Raises:
            ConfigError: a question cannot be sent.
        """
        try:
            return {
                (w, half): self.boxes[w].questions[half].encode(asked)
                for (w, half), asked in questions.items()
            }
        except Exception as error:
            raise ConfigError(
                f"{what}: the arguments cannot be sent to workers ({type(error).__name__}: {error})"
            ) from error

    def post(self, encoded: Mapping[Lane, Any]) -> None:
        """Put questions into the mailboxes."""
        for (worker, half), question in encoded.items():
            self.boxes[worker].questions[half].put(question)

    def answer(self, worker: int, half: int) -> list[Any]:
        """Take the answers of a lane, one per env.

        Raises:
            WorkerError: the answers cannot be read in this process.
        """
        try:
            return list(self.boxes[worker].answers[half].take())
        except Exception as error:
            envs = self._rows.span(worker, half)
            raise WorkerError(
                f"worker {worker}: the answers of its envs {envs.start} to {envs.stop - 1} cannot "
                f"be read in the learner: {type(error).__name__}: {error}",
                worker=worker, doing="call",
            ) from error  # fmt: skip

    def forget_answers(self) -> None:
        """Drop the answers that were not taken."""
        for box in self.boxes:
            for answer in box.answers.values():
                answer.clear()

    def forget_infos(self, half: int) -> None:
        """Drop the infos of the last turn of a half, which must have no turn under way."""
        for _, reader in self.readers[half]:
            reader.forget()

    def infos(self, halves: Sequence[int]) -> Infos:
        """Return the infos that the envs of the halves have reported.

        Positions of envs count from the first env of the first half.
        """
        envs = len(self._rows.halves[0].env_ids)
        readers, others = [], []
        for i, half in enumerate(halves):
            for worker, (first, reader) in zip(
                self._rows.workers[half], self.readers[half], strict=True
            ):
                readers.append((i * envs + first, reader))
                if reader.others:
                    found = self._other_infos(worker, half)
                    others += [(i * envs + first + position, info) for position, info in found]
        return Infos(numeric=gather(readers, envs * len(halves)), others=others)

    def _other_infos(self, worker: int, half: int) -> list[tuple[int, Any]]:
        """Return a lane's non-numeric infos, each with the position of its env.

        They stay in the mailbox.
        """
        slot = self.boxes[worker].answers[half]
        first = self._rows.span(worker, half).start
        found = []
        for position, encoded in slot.read():
            try:
                found.append((position, slot.decode(encoded)))
            except Exception as error:
                raise WorkerError(
                    f"worker {worker}, env {first + position}: its info was sent, but cannot be "
                    f"read in the learner: {type(error).__name__}: {error}",
                    worker=worker, env=first + position, doing="step",
                ) from error  # fmt: skip
        return found

    def native(self, half: int, actions: Any, strict: bool) -> dict[Lane, Any] | None:
        """Return actions that the rows of a half cannot hold, encoded for the mailboxes.

        The result is None if the rows can hold them.
        """
        group, views = self._rows.spec.groups[0], self._rows.halves[half]
        native = action_border.native(group, views.groups[group.name], actions, strict)
        if native is None:
            return None
        first, shares = int(views.env_ids[0]), {}
        for worker in self._rows.workers[half]:
            span = self._rows.span(worker, half)
            rows = slice((span.start - first) * group.agents, (span.stop - first) * group.agents)
            shares[worker, half] = Native(native.entries[rows])
        return self.encoded(shares, "actions")

    def post_native(self, half: int, encoded: Mapping[Lane, Any]) -> None:
        """Put the result of `native` into the mailboxes of a half, and set its info areas' flag."""
        self.post(encoded)
        for _, reader in self.readers[half]:
            reader.area.head["native"] = 1
