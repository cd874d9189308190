"""Words that must be there (`contains`), or must not (`absent`).

As a veto, `contains` with `any` is what redaction needs: one leaked word and the whole is worth nothing. With `loose`,
spaces, punctuation, case, full-width letters and marks that cannot be seen do not hide a word.

Example: `Part(kind="contains", role="veto", expected=["Jane Roe", "555-0100"], options={"any": True, "loose": True})`.
"""

import unicodedata

import msgspec

from streams.verifiers.parts.exact import Texts, listed
from streams.verifiers.parts.interface import Found, PartKind, TooMuchError

MOST_LOOSE = 100_000
"""Characters that are searched loosely: one can stand for many."""


class ContainsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How words are looked for."""

    any: bool = False
    """Whether one of them is as good as all; else the value is the share of them."""
    ignore_case: bool = False
    loose: bool = False
    """Whether only letters and digits count."""


class AbsentOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How words are looked for."""

    ignore_case: bool = False
    loose: bool = False


def bare(text: str, options: ContainsOptions | AbsentOptions) -> str:
    """Return a text as it is searched. Raises TooMuchError."""
    if options.loose:
        if len(text) > MOST_LOOSE:
            raise TooMuchError(f"{len(text)} characters; at most {MOST_LOOSE} are looked at")
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        return "".join(filter(str.isalnum, folded))
    return text.casefold() if options.ignore_case else text


def those_in(text: str, expected: Texts, options: ContainsOptions | AbsentOptions) -> list[str]:
    """Return the expected words that the text has."""
    within = bare(text, options)
    return [word for word in listed(expected) if bare(word, options) in within]


def score_contains(text: str, expected: Texts, options: ContainsOptions) -> Found:
    """Return the share of words that are there; with `any`, 1 for one of them."""
    words, found = listed(expected), those_in(text, expected, options)
    value = float(bool(found)) if options.any else len(found) / len(words)
    return Found(value, f"{len(found)} of {len(words)} found")


def score_absent(text: str, expected: Texts, options: AbsentOptions) -> Found:
    """Return the share of words that are not there."""
    words, found = listed(expected), those_in(text, expected, options)
    return Found(1 - len(found) / len(words), f"{len(found)} of {len(words)} found")


def check(expected: Texts, options: ContainsOptions | AbsentOptions) -> None:
    """Refuse a word that is everywhere."""
    for word in listed(expected):
        if not bare(word, options).strip():
            raise ValueError(f"expected: got {word!r}, which is in every text; wanted a word")


CONTAINS = PartKind(
    name="contains", version=1, expects=Texts, options=ContainsOptions, score=score_contains, check=check
)
ABSENT = PartKind(
    name="absent",
    version=1,
    expects=Texts,
    options=AbsentOptions,
    score=score_absent,
    check=check,
    roles=frozenset({"gate"}),
)
"""A gate only: an answer that says nothing lacks everything, and must not earn by that."""
