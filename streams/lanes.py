"""Scoring in lanes by cost: processes for what is cheap, and others, with more time, for what is dear.

What must hold: a render, or a judge that thinks, never stands before a comparison of texts. Which lane a spec goes by
is a function of the spec.
"""

from collections.abc import Callable

from schemas.config import JudgeSettings, VerifierSettings
from streams.scoring import Finding, Job
from streams.scoring_pool import ScoringPool
from streams.verifiers.parts.interpreter import cost_of
from streams.verifiers.parts.judging import KEY_FROM, MODEL, TIMEOUT_S, URL


def judge_environment(settings: JudgeSettings) -> dict[str, str]:
    """Return the variables by which a scoring process knows its judge; none where none is served."""
    if not settings.url:
        return {}
    return {
        URL: settings.url,
        MODEL: settings.model,
        KEY_FROM: settings.key_from,
        TIMEOUT_S: str(settings.timeout_s),
    }


class Lanes:
    """A pool by cost class. One event loop owns them; a lane starts no process before its first job."""

    def __init__(self, settings: VerifierSettings, *, on_error: Callable[[BaseException], None]) -> None:
        """`on_error` hears why a pool gave up."""
        self._pools = {
            "cheap": ScoringPool(
                num_processes=settings.num_processes,
                timeout_s=settings.timeout_s,
                attempts=settings.attempts,
                on_error=on_error,
            ),
            "dear": ScoringPool(
                num_processes=settings.num_dear_processes,
                timeout_s=settings.dear_timeout_s,
                attempts=settings.attempts,
                on_error=on_error,
                environment=judge_environment(settings.judge),
                num_ahead=1,
            ),
        }

    def submit(self, job: Job, then: Callable[[Finding], None]) -> None:
        """Queue a job in the lane of its spec; `then` gets a finding, however the verifier behaves."""
        self._pools[cost_of(job.spec)].submit(job, then)

    async def close(self) -> None:
        """Kill the processes; open jobs stay unanswered."""
        for pool in self._pools.values():
            await pool.close()
