"""A set of things, whatever their order: the harmonic mean of how much of it is right and how much of it is there.

So naming everything that could be right earns little. Example: `Part(kind="set_f1", expected=["anna", "ben"])`.
"""

from typing import Annotated, Any, Literal

import msgspec

from streams.verifiers.parts.exact import ExactOptions, Form, normal
from streams.verifiers.parts.extraction import read_json
from streams.verifiers.parts.interface import Found, PartKind
from streams.verifiers.parts.rows import f1

Things = Annotated[list[str | int | float | bool], msgspec.Meta(min_length=1)]


class SetOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the things are written, and which differences do not count."""

    written: Literal["auto", "json", "lines", "commas"] = "auto"
    """`auto`: a JSON array where the text is one, else by lines where it has several, else by commas."""
    ignore_case: bool = False
    unicode: Form = ""
    only_whole: bool = False
    """Whether less than all of it is nothing."""


def score(text: str, expected: Things, options: SetOptions) -> Found:
    """Return the F1 of the set that the text names."""
    got = {key_of(one, options) for one in things_in(text, options.written)} - {""}
    wanted = {key_of(one, options) for one in expected}
    num_same = len(got & wanted)
    value = f1(num_same, len(got), len(wanted))
    if options.only_whole and value < 1:
        value = 0.0
    return Found(value, f"{num_same} right of {len(got)} named; wanted {len(wanted)}")


def things_in(text: str, written: str) -> list[Any]:
    """Return the things that a text names; none where it is not written so."""
    text = text.strip()
    if written == "json" or (written == "auto" and text.startswith("[")):
        try:
            value = read_json(text)
        except ValueError:
            return []
        plain = isinstance(value, list) and all(isinstance(one, str | int | float | bool) for one in value)
        return value if plain else []
    if written == "lines" or (written == "auto" and "\n" in text):
        return [line.strip().removeprefix("- ").removeprefix("* ") for line in text.split("\n")]
    return text.split(",")


def key_of(thing: Any, options: SetOptions) -> str:
    """Return a thing as it is compared: as it would be written."""
    if isinstance(thing, bool):
        thing = "true" if thing else "false"
    elif isinstance(thing, float) and thing.is_integer():
        thing = f"{thing:.0f}"
    return normal(str(thing), ExactOptions(ignore_case=options.ignore_case, unicode=options.unicode))


def check(expected: Things, options: SetOptions) -> None:
    """Refuse things that nobody can name."""
    for thing in expected:
        if not key_of(thing, options):
            raise ValueError("expected: got an empty text among the things; wanted something that can be named")
        if isinstance(thing, float) and not abs(thing) < float("inf"):
            raise ValueError(f"expected: got {thing} among the things; wanted no NaN and no infinity")


SET_F1 = PartKind(name="set_f1", version=1, expects=Things, options=SetOptions, score=score, check=check)
