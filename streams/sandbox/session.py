"""The host's side of a session: a slot of its own, started anew by the turn after one that lost the state."""

import marshal
from collections.abc import Callable
from typing import Self

import msgspec

from schemas.errors import SandboxError
from schemas.executions import ExecutionLimits, Outcome
from streams.sandbox.enforcement import Enforcement
from streams.sandbox.inside import wire
from streams.sandbox.outcomes import Labels
from streams.sandbox.paths import check_relative
from streams.sandbox.slot import Answer, Slot, SlotFailedError

_FILE_TURN_S = 30.0


class BubblewrapSession:
    """See `Session`. `limits` hold for the session, those of time and output for each turn."""

    def __init__(
        self, start: Callable[[], Slot], *, limits: ExecutionLimits, enforcement: Enforcement, labels: Labels
    ) -> None:
        self._start = start
        self._limits = limits
        self._enforcement = enforcement
        self._labels = labels
        self._slot: Slot | None = self._open()
        self._is_closed = False

    def _open(self) -> Slot:
        try:
            slot = self._start()
            self._enforcement.limit(slot, self._limits)
            opening = msgspec.structs.replace(
                self._limits, cpu_s=0.0
            )  # an interpreter that lives long is bounded turn by turn
            slot.start_session(self._enforcement.request(wire.SESSION, 0, opening))
        except SlotFailedError as error:
            msg = f"sandbox: the session {error}"
            raise SandboxError(msg) from error
        return slot

    def run_cell(self, code: str, wall_s: float) -> Outcome:
        """Run Python in the session's interpreter."""
        return self._run(wire.CELL, code, wall_s)

    def run_command(self, line: str, wall_s: float) -> Outcome:
        """Run a line by `sh -c`."""
        return self._run(wire.COMMAND, line, wall_s)

    def put(self, path: str, content: bytes) -> None:
        """Write a file below the working directory."""
        check_relative(path)
        self._transfer(wire.PUT, path, marshal.dumps((path, content)))

    def get(self, path: str) -> bytes:
        """Read a regular file below the working directory."""
        check_relative(path)
        return self._transfer(wire.GET, path, path.encode()).stdout

    def _run(self, kind: int, text: str, wall_s: float) -> Outcome:
        try:
            slot = self._live_slot()
        except SandboxError as error:
            if self._is_closed:
                raise
            return self._labels.infra_error(str(error))
        kills_before = self._enforcement.num_oom_kills(slot)
        limits = msgspec.structs.replace(self._limits, wall_s=wall_s)
        try:
            answer = self._turn(slot, kind, text.encode(errors="surrogatepass"), limits)
        except SlotFailedError as error:
            is_oom = self._enforcement.num_oom_kills(slot) > kills_before
            self._drop()
            lost = (
                self._labels.killed_for_memory(attempt=1)
                if is_oom
                else self._labels.infra_error(f"the session {error}")
            )
            return msgspec.structs.replace(lost, state_lost=True)
        kills = self._enforcement.num_oom_kills(slot) - kills_before
        if answer.is_last:
            self._drop()
        if answer.error:  # there was no place to write the cell, or no process to be had
            said = answer.error.encode()
            answer = answer._replace(stderr=answer.stderr + said, stderr_bytes=answer.stderr_bytes + len(said))
        outcome = self._labels.outcome_of(answer, limits, num_oom_kills=kills)
        return msgspec.structs.replace(outcome, state_lost=bool(answer.is_last))

    def _transfer(self, kind: int, path: str, payload: bytes) -> Answer:
        limits = msgspec.structs.replace(
            self._limits, wall_s=_FILE_TURN_S, output_bytes=max(self._limits.file_bytes, self._limits.output_bytes)
        )
        try:
            answer = self._turn(self._live_slot(), kind, payload, limits)
        except SlotFailedError as error:
            self._drop()
            msg = f"sandbox: the session {error} over file {path!r}"
            raise SandboxError(msg) from error
        if answer.error:
            msg = f"sandbox: file {path!r}: {answer.error}"
            raise SandboxError(msg)
        return answer

    def _turn(self, slot: Slot, kind: int, payload: bytes, limits: ExecutionLimits) -> Answer:
        return slot.run(self._enforcement.request(kind, len(payload), limits), payload)

    def _live_slot(self) -> Slot:
        if self._is_closed:
            msg = "sandbox: this session was closed"
            raise SandboxError(msg)
        if self._slot is None:
            self._slot = self._open()
        return self._slot

    def _drop(self) -> None:
        if self._slot is not None:
            self._slot.kill()
            self._slot = None

    def close(self) -> None:
        """End everything in it."""
        self._is_closed = True
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
