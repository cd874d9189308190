"""What the last program printed, against what was expected: the judgement of `stdout_match`, as a part."""

from typing import Literal

import msgspec

from schemas.executions import Outcome
from schemas.tasks import VerifierSpec
from streams.verifiers.credit import normalise, share_of
from streams.verifiers.parts.interface import Found, PartKind

Partial = Literal["none", "lines", "prefix"]


class StdoutOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What part of an output is worth."""

    partial: Partial = "none"
    """Credit for part of it: share of equal lines, share of an equal beginning, or all or nothing."""
    needs_ok: bool = True
    """Whether a program that failed earns half of its partial credit at most."""


def share_printed(outcome: Outcome, expected: str, partial: Partial) -> Found:
    """Return the share of `expected` that was printed. Raises ValueError where nobody can know."""
    if outcome.stdout_truncated:
        kept, wanted = len(outcome.stdout), len(normalise(expected.encode()))
        if wanted > kept:
            raise ValueError(f"stdout was cut to {kept} bytes and {wanted} are expected; raise limits.keep_bytes")
        return Found(0.0, f"stdout has {outcome.stdout_bytes} bytes")
    share = share_of(VerifierSpec(kind="stdout_match", expected=expected, partial=partial), outcome.stdout)
    return Found(share, "" if share == 1 else f"printed {outcome.stdout[:80]!r}")


def score(outcome: Outcome, expected: str, options: StdoutOptions) -> Found:
    """Return the credit for the output of the last program."""
    found = share_printed(outcome, expected, options.partial)
    if outcome.status == "ok" or not options.needs_ok:
        return found
    value = 0.0 if options.partial == "none" else found.value / 2
    return Found(value, f"the program ended with {outcome.status}")


def check(expected: str, _options: StdoutOptions) -> None:
    """Refuse to expect nothing: a program that prints nothing would be right."""
    if not expected.strip():
        raise ValueError("expected: got an empty text, which a program that does nothing prints; wanted some text")


STDOUT = PartKind(
    name="stdout", version=1, content="stream", expects=str, options=StdoutOptions, score=score, check=check
)
