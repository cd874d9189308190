"""The verifier `parts`: it reads a spec's parts one after the other and adds up what they are worth.

- A part that abstains counts for nothing either way and is named in the score. Where a gate or a veto abstains, or no
  credit is left to judge by, nobody can know what the whole is worth, and it is invalid.
- What there is nothing of, a file or an output, is worth 0. What is there and was not kept whole is so too, except to a
  veto or a penalty, which then applies in full: nobody escapes one by writing more than is kept.
- Without a part of role `credit`, what passes the gates is worth 1.

A reward's `verifier_version` is the interpreter's version plus how often any kind has changed, so that it grows with
each change; which kinds took part, and by which versions of them and of their libraries, stands in the evidence, under
`kinds`.
"""

import math
from typing import Any

import msgspec

from schemas.parts import Part
from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams.verifiers.interface import Score, Verifier
from streams.verifiers.parts import PART_KINDS, get_kind
from streams.verifiers.parts.extraction import extracted
from streams.verifiers.parts.interface import AbstainError, CostClass, Found, PartKind, TooMuchError
from streams.verifiers.parts.subjects import Absent, cases_of, last_outcome, look_at_text, steps_of
from streams.verifiers.parts.time_limit import time_limit

VERSION = 1
"""Of the interpreter, what it looks at and how it cuts pieces out; to be raised with every change to a score."""
KINDS = "kinds"
"""In the evidence: no part can have this name."""
MOST_EVIDENCE = 64 << 10
"""Characters by part."""


class Tally:
    """What the parts so far come to."""

    def __init__(self) -> None:
        self.credits: list[tuple[float, float]] = []
        """Weight and value."""
        self.penalty = 0.0
        self.parts: dict[str, float] = {}
        self.abstained: list[str] = []
        self.evidence: dict[str, str] = {}

    @property
    def credit(self) -> float | None:
        """Return the mean by weight; None where there is none yet."""
        weight = math.fsum(weight for weight, _ in self.credits)
        return math.fsum(weight * value for weight, value in self.credits) / weight if weight > 0 else None

    def take(self, part: Part) -> None:
        """Count an abstention."""
        self.abstained.append(part.label)

    def score(self, value: float, detail: str) -> Score:
        """Return the score of that value."""
        return Score(
            value=min(max(value, 0.0), 1.0),
            parts=self.parts,
            abstained=tuple(self.abstained),
            evidence=self.evidence,
            detail=detail,
        )


def score(spec: VerifierSpec, trajectory: Trajectory) -> Score:
    """Score a trajectory by the spec's parts. Raises ConfigError, ValueError, TimeoutError, OSError: none can know."""
    tally = Tally()
    if not spec.parts:
        raise ValueError("the spec has no parts: nothing to judge by")
    tally.evidence[KINDS] = ", ".join(sorted({get_kind(part.kind).maker for part in spec.parts}))
    for part in spec.parts:
        found = found_of(part, trajectory, tally)
        if found is None:
            continue
        tally.parts[part.label] = found.value
        tally.parts |= {f"{part.label}.{name}": value for name, value in found.parts.items()}
        if found.why:
            tally.evidence[part.label] = readable(found.why)
        end = counted(part, found, tally)
        if end is not None:
            return tally.score(0.0, end)
    return total(spec, tally)


def found_of(part: Part, trajectory: Trajectory, tally: Tally) -> Found | None:
    """Return what a part is worth, None where it abstains."""
    credit = tally.credit
    if part.after > 0 and credit is not None and credit < part.after:
        return Found(0.0, f"not looked at: credit {credit:.4g} is below {part.after:g}")
    try:
        return judged(part, trajectory)
    except AbstainError as error:
        if part.role in ("gate", "veto"):
            raise ValueError(f"{part.role} {part.label} cannot be judged: {error}") from error
        tally.take(part)
        tally.evidence[part.label] = f"abstained: {error}"
        return None


def counted(part: Part, found: Found, tally: Tally) -> str | None:
    """Count a part by its role; returns why the whole is worth nothing, None where it may be worth something."""
    match part.role:
        case "credit":
            tally.credits.append((part.weight, found.value))
        case "penalty":
            tally.penalty += part.weight * found.value
        case "gate" if found.value < part.at_least:
            return f"gate {part.label}: {found.value:.4g} is below {part.at_least:g}"
        case "veto" if found.value >= part.at_least:
            return f"veto {part.label}: {found.value:.4g} is at least {part.at_least:g}"
    return None


def total(spec: VerifierSpec, tally: Tally) -> Score:
    """Return the score once all parts were looked at. Raises ValueError where no credit is left to judge by."""
    credit = tally.credit
    if credit is None:
        if any(part.role == "credit" for part in spec.parts):
            raise ValueError(f"nothing is left to judge by: {', '.join(tally.abstained)} abstained")
        credit = 1.0
    low = [f"{name} {value:.4g}" for name, value in tally.parts.items() if value < 1 and "." not in name]
    return tally.score(credit - tally.penalty, ", ".join(low) if credit < 1 else "")


def judged(part: Part, trajectory: Trajectory) -> Found:
    """Return what a part is worth by itself. Raises ConfigError, ValueError, AbstainError, TimeoutError, OSError."""
    kind = get_kind(part.kind)
    expected, options = msgspec.convert(part.expected, kind.expects), msgspec.convert(part.options, kind.options)
    kind.load()
    try:
        with time_limit(kind.limit_s):
            content = content_of(part, kind, trajectory)
            found = content if isinstance(content, Absent) else kind.score(content, expected, options)
    except TooMuchError as error:
        found = Absent(str(error), is_hidden=True)
    except TimeoutError as error:
        raise TimeoutError(f"part {part.label}: {error}") from error
    except ValueError as error:
        raise ValueError(f"part {part.label}: {error}") from error
    if isinstance(found, Absent):
        return Found(float(found.is_hidden and part.role in ("veto", "penalty")), found.why)
    if not -1e-9 <= found.value <= 1 + 1e-9:  # True for NaN, too
        raise ValueError(f"part {part.label} is worth {found.value}; wanted 0 to 1")
    return msgspec.structs.replace(found, value=min(max(found.value, 0.0), 1.0))


def content_of(part: Part, kind: PartKind, trajectory: Trajectory) -> Any:
    """Return what the part looks at, in the shape that its kind wants, or `Absent`."""
    match kind.content:
        case "rollout":
            return trajectory
        case "cases":
            return cases_of(trajectory)
        case "steps":
            return steps_of(trajectory)
        case "stream":
            return last_outcome(trajectory)
    text = look_at_text(trajectory, part.of)
    if isinstance(text, Absent) or not part.extract:
        return text
    piece = extracted(text, part.extract)
    return Absent(f"{part.of} has nothing that is {part.extract}") if piece is None else piece


def readable(text: str) -> str:
    """Return a text as the log can hold it: short enough, and Unicode."""
    return text[:MOST_EVIDENCE].encode(errors="replace").decode()


def cost_of(spec: VerifierSpec) -> CostClass:
    """Return the lane of a spec: the dearest of its parts'; what is not known costs nothing, it fails at once."""
    kinds = (PART_KINDS.get(part.kind) for part in spec.parts)
    return "dear" if any(kind is not None and kind.cost == "dear" for kind in kinds) else "cheap"


PARTS = Verifier(
    name="parts",
    version=VERSION + sum(kind.version - 1 for kind in PART_KINDS.values()),
    score=score,
    reads=frozenset({"text", "executions"}),
)
