"""What a program that checks says itself: the number on the last line of what it printed, in its one case.

For checkers that are somebody else's, which are laid into the working directory after the policy was done. What is no
number there is worth nothing: a checker that did not come to its end has found nothing right.

Example: `Part(kind="reported", of="cases")`.
"""

import math
from typing import Any

from schemas.executions import Outcome
from streams.verifiers.parts.interface import Found, NoOptions, PartKind


def score(cases: tuple[Outcome, ...], _expected: Any, _options: NoOptions) -> Found:
    """Return the number, held to what a reward can be."""
    if not cases:
        return Found(0.0, "nothing was checked")
    lines = cases[-1].stdout.decode(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    try:
        value = float(said) if said.isascii() else float("nan")
    except ValueError:
        value = float("nan")
    if not (math.isfinite(value) and value >= 0):
        return Found(0.0, f"it said {said[:80]!r}; wanted a number")
    return Found(min(value, 1.0), "" if value >= 1 else "\n".join(lines[-12:])[-400:])


REPORTED = PartKind(name="reported", version=1, content="cases", expects=Any, score=score)
