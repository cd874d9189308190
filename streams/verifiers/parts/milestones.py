"""What has to happen in a rollout, in its order; credit is the share of the list that was reached before the first gap.

Each milestone is one turn that fits all that it says: which tool was called, with which arguments, how that ended, what
it printed, or what the turn's text has. A turn reaches one milestone at most, and the next one needs a later turn. Ask
for what was printed rather than for what was typed: `echo grep` is no search.

Example: `Part(kind="milestones", expected=[{"call": "search", "prints": "10-K"}, {"answers": "covenant"}])`.
"""

import re
from typing import Annotated, Any

import msgspec

from streams.verifiers.parts.interface import Found, PartKind
from streams.verifiers.parts.subjects import Step, text_of

MOST_CHARS = 20_000
"""Of what is searched by a pattern; the rest is not looked at."""


class Milestone(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one turn has to be. Patterns are searched for, without regard to case."""

    name: str = ""
    """For people."""
    call: str = ""
    """The tool that it calls."""
    arguments: dict[str, Any] = {}
    """Arguments that it calls it with, each equal; others may be there."""
    matches: dict[str, str] = {}
    """By argument, a pattern that is found in its text, or in its JSON where it is no text."""
    status: str = "ok"
    """How the call ended; empty is anyhow."""
    prints: str = ""
    """Pattern that is found in what the call printed."""
    answers: str = ""
    """Pattern that is found in the text of a turn that calls nothing."""


Milestones = Annotated[list[Milestone], msgspec.Meta(min_length=1)]


class MilestonesOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What they are worth."""

    all_or_nothing: bool = False


def score(steps: tuple[Step, ...], expected: Milestones, options: MilestonesOptions) -> Found:
    """Return the share of milestones that were reached in their order."""
    num_reached = 0
    for step in steps:
        if num_reached < len(expected) and fits(step, expected[num_reached]):
            num_reached += 1
    share = num_reached / len(expected)
    why = f"{num_reached} of {len(expected)} reached"
    if num_reached < len(expected):
        missed = expected[num_reached]
        why += f"; not: {missed.name or missed.call or missed.answers}"
    return Found(0.0 if options.all_or_nothing and share < 1 else share, why)


def fits(step: Step, wanted: Milestone) -> bool:
    """Return whether a turn is what the milestone wants."""
    if wanted.answers:
        return step.is_answer and is_found(wanted.answers, step.text)
    if step.call is None or step.call.name != wanted.call or step.outcome is None:
        return False
    if wanted.status and step.outcome.status != wanted.status:
        return False
    arguments = step.call.arguments
    if any(name not in arguments or arguments[name] != value for name, value in wanted.arguments.items()):
        return False
    if not all(name in arguments and is_found(wanted.matches[name], shown(arguments[name])) for name in wanted.matches):
        return False
    return not wanted.prints or is_found(wanted.prints, text_of(step.outcome.stdout))


def is_found(pattern: str, text: str) -> bool:
    """Return whether a pattern is found in the beginning of a text."""
    return re.search(pattern, text[:MOST_CHARS], re.IGNORECASE | re.MULTILINE) is not None


def shown(value: Any) -> str:
    """Return an argument as it is searched."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def check(expected: Milestones, _options: MilestonesOptions) -> None:
    """Refuse a milestone that no turn can reach, or that every turn does."""
    for place, wanted in enumerate(expected):
        if bool(wanted.call) == bool(wanted.answers):
            raise ValueError(f"expected[{place}]: got call {wanted.call!r}, answers {wanted.answers!r}; wanted one")
        for pattern in (wanted.prints, wanted.answers, *wanted.matches.values()):
            try:
                is_anything = pattern != "" and re.search(pattern, "") is not None
            except re.error as error:
                raise ValueError(f"expected[{place}]: got {pattern!r}, which is no pattern: {error}") from error
            if is_anything:
                raise ValueError(f"expected[{place}]: got {pattern!r}, which an empty text fits")


MILESTONES = PartKind(
    name="milestones",
    version=1,
    content="steps",
    expects=Milestones,
    options=MilestonesOptions,
    score=score,
    check=check,
)
