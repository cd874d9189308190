"""Text that must be the expected one. White space around it never counts; all else does, unless an option says so.

Example: `Part(kind="exact", expected=["yes", "y"], options={"ignore_case": True})`.
"""

import unicodedata
from typing import Annotated, Literal

import msgspec

from streams.verifiers.parts.interface import Found, PartKind

Texts = str | Annotated[list[str], msgspec.Meta(min_length=1)]
Form = Literal["", "NFC", "NFKC"]


class ExactOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which differences do not count."""

    ignore_case: bool = False
    white_space: Literal["ends", "runs", "all"] = "ends"
    """Which of it does not count: at the ends of the text, how much stands between words, or any."""
    unicode: Form = ""
    """Normal form in which texts are compared; without, two spellings of one letter differ, and so do `7` and its
    full-width twin."""


def normal(text: str, options: ExactOptions) -> str:
    """Return a text as it is compared."""
    if options.unicode:
        text = unicodedata.normalize(options.unicode, text)
    if options.ignore_case:
        text = text.casefold()
    match options.white_space:
        case "runs":
            return " ".join(text.split())
        case "all":
            return "".join(text.split())
    return text.strip()


def listed(expected: Texts) -> list[str]:
    """Return one text or several as several."""
    return [expected] if isinstance(expected, str) else expected


def score(text: str, expected: Texts, options: ExactOptions) -> Found:
    """Return 1 for one of the expected texts, 0 for any other."""
    got = normal(text, options)
    if any(got == normal(one, options) for one in listed(expected)):
        return Found(1.0)
    return Found(0.0, f"got {got[:80]!r}")


def check(expected: Texts, options: ExactOptions) -> None:
    """Refuse to expect nothing: an empty answer would be right."""
    if not all(normal(one, options) for one in listed(expected)):
        raise ValueError("expected: got an empty text, which an empty answer equals; wanted some text")


EXACT = PartKind(name="exact", version=1, expects=Texts, options=ExactOptions, score=score, check=check)
