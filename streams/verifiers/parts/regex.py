"""Text in which a pattern is found. The pattern is the spec's, so that its cost is; the text is whose it may.

A pattern with nested quantifiers can take for ever on a hostile text. A long text is not looked at, and the part's time
limit is the end of it: then nothing is known. Atomic groups, `(?>...)`, keep a pattern from that.
"""

import re

import msgspec

from streams.verifiers.parts.interface import Found, PartKind, TooMuchError


class RegexOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the pattern is looked for."""

    ignore_case: bool = False
    whole: bool = False
    """Whether the whole text, without white space at its ends, must be it."""
    most_chars: int = 20_000
    """Characters that are looked at; a longer text is too much."""


def compiled(pattern: str, options: RegexOptions) -> re.Pattern[str]:
    """Return the pattern; `re` keeps it. Raises re.error."""
    return re.compile(pattern, re.MULTILINE | (re.IGNORECASE if options.ignore_case else 0))


def score(text: str, expected: str, options: RegexOptions) -> Found:
    """Return 1 where the pattern is found, else 0. Raises TooMuchError."""
    text = text.strip()
    if len(text) > options.most_chars:
        raise TooMuchError(f"{len(text)} characters, and at most {options.most_chars} are looked at")
    pattern = compiled(expected, options)
    found = pattern.fullmatch(text) if options.whole else pattern.search(text)
    return Found(0.0, "not found") if found is None else Found(1.0, f"found {found[0][:80]!r}")


def check(expected: str, options: RegexOptions) -> None:
    """Refuse what is no pattern, and one that an empty text fits."""
    try:
        pattern = compiled(expected, options)
    except re.error as error:
        raise ValueError(f"expected: got {expected!r}, which is no pattern: {error}") from error
    if options.most_chars <= 0:
        raise ValueError(f"most_chars: got {options.most_chars}; wanted more than 0")
    if pattern.fullmatch("") if options.whole else pattern.search(""):
        raise ValueError(f"expected: got {expected!r}, which an empty text fits; wanted a pattern that needs something")


REGEX = PartKind(name="regex", version=1, expects=str, options=RegexOptions, score=score, check=check)
