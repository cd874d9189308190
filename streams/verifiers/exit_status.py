"""Whether the last turn's program ran to its end, whatever it did.

This is what a policy learns to hack: any program that runs is worth all there is. It is for use as a part of a finer
judgement, as a shadow beside the verifier that trains, or to demonstrate a hack and its cure.
"""

from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams.verifiers.interface import Score, Verifier


def score(_spec: VerifierSpec, trajectory: Trajectory) -> Score:
    """Score the status of the last turn's program: 1 for `ok`, 0 for any other and where nothing ran."""
    last = trajectory.num_turns - 1
    if last not in trajectory.executions:
        return Score(value=0.0, parts={"ran": 0.0}, detail="the last turn ran nothing")
    status = trajectory.executions[last].record.outcome.status
    if status == "ok":
        return Score(value=1.0, parts={"ran": 1.0})
    return Score(value=0.0, parts={"ran": 0.0}, detail=f"the program ended with {status}")


EXIT_STATUS = Verifier(name="exit_status", version=1, score=score, reads=frozenset({"executions"}))
