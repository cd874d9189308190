"""What the policy wrote in its last turn, against what was expected."""

from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams.verifiers.credit import share_of
from streams.verifiers.interface import Score, Verifier


def score(spec: VerifierSpec, trajectory: Trajectory) -> Score:
    """Score the text of the last turn; a rollout without turns is an empty answer."""
    last = trajectory.num_turns - 1
    text = trajectory.turns[last].record.text if last >= 0 else ""
    share = share_of(spec, text.encode(errors="surrogatepass"))
    return Score(value=share, parts={"text": share})


EXACT_MATCH = Verifier(name="exact_match", version=1, score=score, reads=frozenset({"text"}))
