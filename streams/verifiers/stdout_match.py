"""What the last turn's program printed, against what was expected.

- A program that failed (any status but `ok`) earns half of its partial credit at most, and nothing without partial
  credit: the right output on the way to a crash is no solution.
- A stream that was cut earns nothing, since what is missing was not seen. Where even the expected output would have
  been cut nobody can know, and the verifier says so.
"""

from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams.verifiers.credit import normalise, share_of
from streams.verifiers.interface import Score, Verifier


def score(spec: VerifierSpec, trajectory: Trajectory) -> Score:
    """Score the output of the last turn's program. Raises ValueError where its output was cut too short to judge."""
    last = trajectory.num_turns - 1
    if last not in trajectory.executions:
        return Score(value=0.0, parts={"ran": 0.0}, detail="the last turn ran nothing")
    outcome = trajectory.executions[last].record.outcome
    ran = 1.0 if outcome.status == "ok" else 0.0
    if outcome.stdout_truncated:
        kept, expected = len(outcome.stdout), len(normalise(spec.expected.encode()))
        if expected > kept:
            raise ValueError(
                f"stdout was cut to {kept} bytes and {expected} are expected; raise the task's limits.keep_bytes"
            )
        return Score(value=0.0, parts={"ran": ran, "stdout": 0.0}, detail=f"stdout has {outcome.stdout_bytes} bytes")
    share = share_of(spec, outcome.stdout)
    parts = {"ran": ran, "stdout": share}
    if outcome.status == "ok":
        return Score(value=share, parts=parts)
    value = 0.0 if spec.partial == "none" else share / 2
    return Score(value=value, parts=parts, detail=f"the program ended with {outcome.status}")


STDOUT_MATCH = Verifier(name="stdout_match", version=1, score=score, reads=frozenset({"executions"}))
