"""From what a slot answered to the `Outcome` that the log keeps."""

import os
import signal

import msgspec

from schemas.executions import ExecutionLimits, Isolation, Outcome, Status
from streams.sandbox.inside import wire
from streams.sandbox.slot import Answer

_LIMIT_STATUS: dict[int, Status] = {wire.WALL: "timed_out", wire.OUTPUT: "output_limit", wire.CPU: "cpu_limit"}


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """What every outcome of a sandbox says of it."""

    backend: str
    isolation: Isolation
    image_digest: str
    limits_enforced: tuple[str, ...]

    def infra_error(self, error: str, *, attempt: int = 1) -> Outcome:
        """Say that the sandbox could not, and why."""
        return self._put_on(Outcome(status="infra_error", error=error, attempt=attempt))

    def killed_for_memory(self, *, attempt: int) -> Outcome:
        """Say that it was, so thoroughly that no other fact is left."""
        return self._put_on(Outcome(status="oom", signal=int(signal.SIGKILL), attempt=attempt))

    def outcome_of(
        self,
        answer: Answer,
        limits: ExecutionLimits,
        *,
        num_oom_kills: int,
        attempt: int = 1,
        keeps_tree: bool = False,
    ) -> Outcome:
        """Give all facts of a run.

        `num_oom_kills`: processes that the kernel killed during it for its memory limit. `keeps_tree`: whether the
        working directory was to be kept.
        """
        status, exit_code, by_signal = _judge(answer, limits, num_oom_kills)
        return self._put_on(
            Outcome(
                status=status,
                exit_code=exit_code,
                signal=by_signal,
                stdout=answer.stdout,
                stderr=answer.stderr,
                stdout_bytes=answer.stdout_bytes,
                stderr_bytes=answer.stderr_bytes,
                wall_ms=1e3 * answer.wall_s,
                cpu_ms=1e3 * answer.cpu_s,
                max_rss_bytes=answer.max_rss_bytes,
                num_leftover=answer.num_leftover,
                attempt=attempt,
                error=answer.error if status == "infra_error" or keeps_tree else "",
                tree=answer.tree if keeps_tree else None,
            )
        )

    def _put_on(self, outcome: Outcome) -> Outcome:
        return msgspec.structs.replace(
            outcome,
            backend=self.backend,
            isolation=self.isolation,
            image_digest=self.image_digest,
            limits_enforced=self.limits_enforced,
        )


def _judge(answer: Answer, limits: ExecutionLimits, num_oom_kills: int) -> tuple[Status, int | None, int | None]:
    """Return status, exit code, signal: a limit that was passed comes before what the main process made of it."""
    exit_code, by_signal = _of_wait_status(answer.wait_status)
    if answer.reason in _LIMIT_STATUS:
        return _LIMIT_STATUS[answer.reason], None, int(signal.SIGKILL)
    if num_oom_kills and exit_code != 0:
        return "oom", exit_code, by_signal
    if answer.reason == wire.FAILED or answer.wait_status == wire.NO_STATUS:
        return "infra_error", None, None
    if by_signal == signal.SIGXCPU or (by_signal == signal.SIGKILL and answer.cpu_s >= limits.cpu_s):
        return "cpu_limit", None, by_signal
    if by_signal is not None:
        return "signaled", None, by_signal
    return ("nonzero" if exit_code else "ok"), exit_code, None


def _of_wait_status(wait_status: int) -> tuple[int | None, int | None]:
    if wait_status == wire.NO_STATUS:
        return None, None
    code = os.waitstatus_to_exitcode(wait_status)
    return (code, None) if code >= 0 else (None, -code)
