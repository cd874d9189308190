r"""How much of a text another one has, in its order: ROUGE-L, the F1 of the longest common subsequence of words.

Words are what `\w+` finds, in lower case, as in Lin, "ROUGE: A Package for Automatic Evaluation of Summaries" (2004).
Any two texts in one language share some, so that `floor` says what is worth nothing.
"""

import re

import msgspec

from streams.verifiers.parts.exact import Texts, listed
from streams.verifiers.parts.interface import Found, PartKind, TooMuchError
from streams.verifiers.parts.rows import f1

WORD = re.compile(r"\w+")
MOST_WORDS = 20_000
"""Of the text; a longer one is too much."""


class RougeOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What counts."""

    floor: float = 0.0
    """F1 up to which it is worth nothing; credit rises from there to 1."""


def words_of(text: str) -> list[str]:
    """Return its words."""
    return [word.lower() for word in WORD.findall(text)]


def score(text: str, expected: Texts, options: RougeOptions) -> Found:
    """Return the credit for the nearest of the expected texts. Raises TooMuchError."""
    got = words_of(text)
    if len(got) > MOST_WORDS:
        raise TooMuchError(f"{len(got)} words, and at most {MOST_WORDS} are looked at")
    best = max(rouge_l(got, words_of(one)) for one in listed(expected))
    return Found(max(0.0, (best - options.floor) / (1 - options.floor)), f"F1 {best:.4f}")


def rouge_l(got: list[str], wanted: list[str]) -> float:
    """Return the F1 of their longest common subsequence."""
    from rapidfuzz.distance import LCSseq  # 12 MB, which no other part needs

    numbers: dict[str, int] = {}  # not the words, whose hashes differ from process to process
    coded = [[numbers.setdefault(word, len(numbers)) for word in words] for words in (got, wanted)]
    return f1(LCSseq.similarity(*coded), len(got), len(wanted))


def check(expected: Texts, options: RougeOptions) -> None:
    """Refuse a text without words, and a floor that nothing is above."""
    for text in listed(expected):
        if not 0 < len(words_of(text)) <= MOST_WORDS:
            raise ValueError(f"expected: got {len(words_of(text))} words; wanted 1 to {MOST_WORDS}")
    if not 0 <= options.floor < 1:
        raise ValueError(f"floor: got {options.floor}; wanted 0 to less than 1")


def load() -> object:
    """Import what is heavy."""
    from rapidfuzz.distance import LCSseq

    return LCSseq


ROUGE_L = PartKind(
    name="rouge_l",
    version=1,
    expects=Texts,
    options=RougeOptions,
    score=score,
    check=check,
    library="rapidfuzz",
    load=load,
)
