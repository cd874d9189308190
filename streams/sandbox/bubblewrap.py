"""The embedded backend: namespaces by bwrap, a fork server in each, a fresh set of namespaces per job."""

import marshal
from pathlib import Path
from typing import Self

from schemas.errors import SandboxError
from schemas.executions import Action, ExecutionLimits, Outcome
from streams.sandbox import preflight
from streams.sandbox.bwrap import find_bwrap
from streams.sandbox.enforcement import Enforcement
from streams.sandbox.inside import wire
from streams.sandbox.leftovers import PoolName, sweep
from streams.sandbox.outcomes import Labels
from streams.sandbox.paths import check_relative
from streams.sandbox.pool import Pool
from streams.sandbox.rootfs import open_rootfs
from streams.sandbox.seccomp import build_filter
from streams.sandbox.session import BubblewrapSession
from streams.sandbox.slot import Slot, SlotFailedError, SlotSettings

_NUM_ATTEMPTS = 2
_JOBS_PER_SLOT = 2000
"""Then a fork server is replaced: what might have grown or gone wrong in it unseen does not get old."""


class BubblewrapSandbox:
    """See `Sandbox`. The first on a host builds the root file system.

    Raises:
        SandboxError: this host cannot; says why and what to do.
    """

    def __init__(
        self, *, num_slots: int, home: Path, jobs_per_slot: int = _JOBS_PER_SLOT, enforcement: Enforcement | None = None
    ) -> None:
        preflight.check_platform()
        rootfs = open_rootfs(home)
        self.num_slots = num_slots
        self.image_digest = rootfs.digest
        self._enforcement = enforcement or Enforcement()
        self._labels = Labels(
            backend="bubblewrap",
            isolation="namespaces",
            image_digest=rootfs.digest,
            limits_enforced=self._enforcement.names,
        )
        self._settings = SlotSettings(
            bwrap=find_bwrap(), rootfs=rootfs, seccomp=build_filter(), keep_bytes=ExecutionLimits().keep_bytes
        )
        sweep(home, self._enforcement.cgroups)
        self._name = PoolName(home)
        try:
            self._pool = Pool(self._start, num_slots, jobs_per_slot=jobs_per_slot)
        except SlotFailedError as error:
            self._name.release(self._enforcement.cgroups)
            raise SandboxError(preflight.explain(str(error))) from error
        self._try_out()

    def _try_out(self) -> None:
        """Run a program: a slot may start on a host that then denies a job's own namespaces."""
        tried = self.run(Action(code="print('ready')"))
        if tried.stdout != b"ready\n":
            self.close()
            raise SandboxError(preflight.explain(f"could not run a program: {tried.error or tried.stderr!r}"))

    def _start(self, number: int) -> Slot:
        return Slot(self._settings, number, self._enforcement.group(self._name.text, number))

    def run(self, action: Action) -> Outcome:
        """Run it in namespaces of its own, in whichever slot is free. Blocks; any thread."""
        return self._try_twice(action, fresh=False)

    def run_fresh(self, action: Action) -> Outcome:
        """Run it in a bwrap started for it alone, some 100 ms: for what should not even share a fork server."""
        return self._try_twice(action, fresh=True)

    def _try_twice(self, action: Action, *, fresh: bool) -> Outcome:
        try:
            for path in action.files:
                check_relative(path)
        except SandboxError as error:
            return self._labels.infra_error(str(error))
        payload = marshal.dumps(
            (action.kind, action.prelude, action.code, action.stdin, dict(action.files), action.tree, action.setup)
        )
        outcome = self._labels.infra_error("was not run")
        for attempt in range(1, _NUM_ATTEMPTS + 1):
            try:
                slot = self._pool.start_extra() if fresh else self._pool.take()
            except SlotFailedError as error:
                outcome = self._labels.infra_error(str(error), attempt=attempt)
                continue
            outcome, is_sound = self._run_in(slot, action, payload, attempt)
            if fresh:
                slot.kill()
            else:
                self._pool.give_back(slot, is_sound=is_sound)
            if outcome.status != "infra_error":
                break
        return outcome

    def _run_in(self, slot: Slot, action: Action, payload: bytes, attempt: int) -> tuple[Outcome, bool]:
        """Return the outcome, and whether the slot may be used again."""
        limits, keep_tree_bytes = action.limits, action.keep_tree_bytes
        kills_before = 0
        try:
            self._enforcement.limit(slot, limits)
            kills_before = self._enforcement.num_oom_kills(slot)
            request = self._enforcement.request(wire.JOB, len(payload), limits, keep_tree_bytes=keep_tree_bytes)
            answer = slot.run(request, payload)
        except SlotFailedError as error:
            if self._enforcement.num_oom_kills(slot) > kills_before:
                return self._labels.killed_for_memory(attempt=attempt), False
            return self._labels.infra_error(f"slot {slot.number} {error}", attempt=attempt), False
        except OSError as error:
            return self._labels.infra_error(f"slot {slot.number}: limits: {error}", attempt=attempt), False
        kills = self._enforcement.num_oom_kills(slot) - kills_before
        outcome = self._labels.outcome_of(
            answer, limits, num_oom_kills=kills, attempt=attempt, keeps_tree=keep_tree_bytes > 0
        )
        return outcome, not answer.is_last and outcome.status != "infra_error"

    def open_session(self, limits: ExecutionLimits | None = None) -> BubblewrapSession:
        """Start a slot beside the pool's, for the session alone. `limits` hold for all its turns.

        Raises:
            SandboxError: it could not be started.
        """
        return BubblewrapSession(
            self._pool.start_extra,
            limits=limits or ExecutionLimits(),
            enforcement=self._enforcement,
            labels=self._labels,
        )

    def close(self) -> None:
        """End all slots, and the sessions with them."""
        self._pool.close()
        self._name.release(self._enforcement.cgroups)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
