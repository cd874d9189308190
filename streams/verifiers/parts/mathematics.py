r"""Mathematics: an expression that is equal to the expected one, by math-verify and sympy.

The text is one expression, in LaTeX or as one types it; of several between `$` the last one counts, and `extract` finds
one in prose. Tuples are compared element by element and `1e6` is read as a number, which math-verify gets wrong.

math-verify's own time limit is an alarm, of which a process has one, and by which a worker ends itself. It is turned
off, and the part's limit, which gives the clock back, is there instead. Numbers that take for ever to write down are
worth 0 without being tried.

Example: `Part(kind="math", extract="boxed", expected="\\frac{1}{2}")`.
"""

import logging
import re
from typing import Any

import msgspec

from streams.verifiers.parts.exact import Texts, listed
from streams.verifiers.parts.interface import Found, PartKind

MOST_CHARS = 500
MOST_EXPONENT = 10_000
"""That all exponents of a text may have as their product."""
DOLLARS = re.compile(r"\$\$?([^$]+)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
SCIENTIFIC = re.compile(r"(?<![\w.])([0-9]+(?:\.[0-9]+)?)[eE]([-+]?[0-9]{1,4})(?![\w.])")
EXPONENT = re.compile(r"(?:\^|\*\*)\s*[{(]?\s*[-+]?([0-9]+)")
TOWER = re.compile(r"[0-9})\]!]\s*(?:\^|\*\*)\s*[{(]?[^{}()+*/-]*[0-9})\]]\s*(?:\^|\*\*)")
BIG = re.compile(r"[0-9]{41}|(?:[0-9]{4}|[)}\]!])\s*!|\\d?t?binom\D*[0-9]{5}")
GROWS = re.compile(
    r"\\(?:sum|prod|int|iint|iiint|oint|lim|d?t?binom)(?![a-z])|matrix|\{array|factorial|\bgamma\b", re.IGNORECASE
)
"""What can take long to work out, and is no answer where the expected one has none of it."""
SIZING = re.compile(r"\\(?:left|right|big|Big|bigl|bigr|Bigl|Bigr)(?![a-zA-Z])|(?<!\\)\\[,;! ]")
LABELLED = re.compile(r"\\(?:text|mathrm|operatorname|begin|end)\s*\{[^{}]*\}")
WORD = re.compile(r"(?<![\\a-zA-Z])(?:[a-zA-Z]{3,}|or|is)(?![a-zA-Z])")
FUNCTIONS = frozenset(
    {"sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "log", "ln", "exp", "sqrt", "pi"}
)
OPERATION = re.compile(r"[+*!^/]|(?<=[\w)}\]])\s*-|\\(?:times|cdot|div|d?t?frac|sqrt|d?t?binom|log|ln)|(?<!\\)sqrt")
MOST_DEPTH = 20


class MathOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which differences do not count."""

    strict: bool = True
    """Whether names of variables matter, and a set is another thing than a tuple."""
    worked_out: bool = False
    """Whether an expression with more operations than the expected one is wrong. Without, `17*23` is as good an answer
    as 391, and so may be the question."""
    digits: int = 6
    """Places after the point to which numbers that are not whole are compared."""


def score(text: str, expected: Texts, options: MathOptions) -> Found:
    """Return 1 for an expression that is equal to one of the expected ones, else 0."""
    wanted = listed(expected)
    got = expression_in(text)
    refusal = why_refused(got, wanted)
    if refusal is not None:
        return Found(0.0, refusal)
    if options.worked_out and num_operations(got) > max(map(num_operations, wanted)):
        return Found(0.0, f"not worked out: {got[:80]!r}")
    is_right = any(are_equal(expression_in(one), got, options) for one in wanted)
    return Found(float(is_right), f"got {got[:80]!r}")


def expression_in(text: str) -> str:
    """Return the one expression of a text, without what only sets its size."""
    between = [first or second or third for first, second, third in DOLLARS.findall(text)]
    bare = SIZING.sub("", between[-1] if between else text).strip().rstrip(".")
    return SCIENTIFIC.sub(r"\1*10^{\2}", bare).strip()


def num_operations(text: str) -> int:
    """Return how many operations an expression has."""
    return len(OPERATION.findall(text))


def why_refused(text: str, wanted: list[str]) -> str | None:
    """Return why an expression is worth nothing without being looked at."""
    if not text:
        return "there is no expression"
    if len(text) > MOST_CHARS:
        return f"{len(text)} characters; at most {MOST_CHARS} are looked at"
    if text.count("$") % 2 or (text.count("$") and not DOLLARS.search(text)):
        return "a $ without another"
    if any(c.isdigit() and not c.isascii() for c in text):
        return "digits other than 0 to 9"
    if not is_balanced(text):
        return f"brackets that do not close, or over {MOST_DEPTH} within each other"
    if words_in(text):
        return f"words, where an expression is asked for: {' '.join(words_in(text))[:80]}"
    product = 1
    for exponent in EXPONENT.findall(text)[:MOST_CHARS]:
        product *= max(int(exponent[:6]), 1)
    if product > MOST_EXPONENT or TOWER.search(text) or BIG.search(text):
        return "a number that is too large to be written down"
    if GROWS.search(text) and not any(GROWS.search(one) for one in wanted):
        return "a sum, product, integral, limit, binomial or matrix, where a value is asked for"
    return None


def words_in(text: str) -> list[str]:
    """Return the words of a text that are no functions."""
    return [word for word in WORD.findall(LABELLED.sub("", text)) if word not in FUNCTIONS]


def is_balanced(text: str) -> bool:
    """Return whether all brackets close and few are within each other; an interval may mix round and square ones."""
    depths = {"(": 0, "{": 0}
    for letter in text:
        kind = "{" if letter in "{}" else "("
        depths[kind] += (letter in "([{") - (letter in ")]}")
        if not 0 <= depths[kind] <= MOST_DEPTH:
            return False
    return not any(depths.values())


def are_equal(wanted: str, got: str, options: MathOptions) -> bool:
    """Return whether two expressions are, tuples and intervals element by element."""
    pieces = elements(wanted), elements(got)
    if pieces[0] and pieces[1]:
        return len(pieces[0]) == len(pieces[1]) and all(
            a == b if a in "()[]" or b in "()[]" else are_equal(a, b, options) for a, b in zip(*pieces, strict=True)
        )
    if pieces[0] or pieces[1]:
        return False
    return verified(wanted, got, options)


def elements(text: str) -> list[str]:
    """Return bracket, elements and bracket of a tuple or an interval; nothing where it is none."""
    if len(text) < 2 or text[0] not in "([" or text[-1] not in ")]":
        return []
    inner, depth, start, found = text[1:-1], 0, 0, []
    for place, letter in enumerate(inner):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return []
        if letter == "," and depth == 0:
            found.append(inner[start:place].strip())
            start = place + 1
    return [text[0], *found, inner[start:].strip(), text[-1]] if found else []


def verified(wanted: str, got: str, options: MathOptions) -> bool:
    """Return whether math-verify takes two expressions for equal."""
    library = load()
    gold, target = (library.parse(f"${one}$", parsing_timeout=None) for one in (wanted, got))
    return bool(
        gold
        and target
        and library.verify(gold, target, strict=options.strict, float_rounding=options.digits, timeout_seconds=None)
    )


def load() -> Any:
    """Import what is heavy: sympy, seconds."""
    import math_verify

    for name in ("math_verify", "latex2sympy2_extended"):
        logging.getLogger(name).setLevel(logging.ERROR)  # each process would be told that the alarm is off
    return math_verify


def check(expected: Texts, options: MathOptions) -> None:
    """Refuse what cannot be read as an expression, or would be refused as an answer."""
    for one in listed(expected):
        text = expression_in(one)
        refusal = why_refused(text, [text])
        if refusal is not None or not are_equal(text, text, options):
            raise ValueError(f"expected: got {one!r}; wanted an expression that is equal to itself ({refusal or 'no'})")


MATH = PartKind(
    name="math",
    version=1,
    cost="dear",
    expects=Texts,
    options=MathOptions,
    score=score,
    check=check,
    library="math-verify",
    load=load,
    limit_s=10.0,
)
