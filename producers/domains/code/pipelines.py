"""Problems that are made of small steps: each is a clause of the statement and a line of the program."""

import random
from string import Template
from typing import Any

import msgspec

from producers.domains.code.problem import Draw, Problem

MOST_BRANCHES = 3


class Step(msgspec.Struct, frozen=True):
    """One step from a list to a list or to a value."""

    clause: str
    line: str
    choices: tuple[dict[str, Any], ...] = ({},)


KS = tuple({"k": k} for k in range(2, 8))
BOUNDS = tuple({"bound": bound} for bound in range(10, 60, 7))
NUMBER_STEPS = (
    Step("keep only those that are divisible by $k", "items = [x for x in items if x % $k == 0]", KS[:2]),
    Step("leave out those that are divisible by $k", "items = [x for x in items if x % $k != 0]", KS),
    Step("replace those above $bound by $bound", "items = [min(x, $bound) for x in items]", BOUNDS),
    Step("leave out those below $bound", "items = [x for x in items if x >= $bound]", BOUNDS[:3]),
    Step(
        "double those at even places (the first is place 0)",
        "items = [2 * x if i % 2 == 0 else x for i, x in enumerate(items)]",
    ),
    Step("replace each by its distance from $bound", "items = [abs(x - $bound) for x in items]", BOUNDS),
    Step("replace each by the sum of it and all before it", "items = [sum(items[: i + 1]) for i in range(len(items))]"),
    Step(
        "replace each but the first by its difference to the one before it",
        "items = items[:1] + [b - a for a, b in zip(items, items[1:])]",
    ),
    Step("leave out those that came before", "items = list(dict.fromkeys(items))"),
    Step("sort them from high to low", "items = sorted(items, reverse=True)"),
    Step(
        "sort them by their last digit, equal ones staying in order", "items = sorted(items, key=lambda x: abs(x) % 10)"
    ),
    Step(
        "reverse each group of $k neighbours (the last group may be shorter)",
        "items = [x for i in range(0, len(items), $k) for x in items[i : i + $k][::-1]]",
        KS[:3],
    ),
    Step("move the first $k of them to the end", "items = items[$k:] + items[:$k]", KS[:3]),
    Step(
        "replace each by the largest of it and its two neighbours",
        "items = [max(items[max(i - 1, 0) : i + 2]) for i in range(len(items))]",
    ),
    Step("add its place (from 1) to each", "items = [x + i for i, x in enumerate(items, start=1)]"),
    Step(
        "replace those above $bound by the sum of their digits",
        "items = [sum(int(c) for c in str(x)) if x > $bound else x for x in items]",
        BOUNDS,
    ),
)
NUMBER_ENDS = (
    Step("return them", "return items"),
    Step("return their sum", "return sum(items)"),
    Step("return the sum of the $k largest ones", "return sum(sorted(items)[-$k:])", KS[:3]),
    Step(
        "return the difference between the largest and the smallest (0 where there are none)",
        "return max(items) - min(items) if items else 0",
    ),
)
WORD_STEPS = (
    Step("keep only those of at least $k letters", "items = [x for x in items if len(x) >= $k]", KS[1:3]),
    Step(
        "leave out those that contain `$letter`",
        'items = [x for x in items if "$letter" not in x]',
        tuple({"letter": c} for c in "aeiour"),
    ),
    Step("turn round those that begin with a vowel", 'items = [x[::-1] if x[0] in "aeiou" else x for x in items]'),
    Step("cut each to its first $k letters", "items = [x[:$k] for x in items]", KS[2:5]),
    Step("sort them by length, equal ones by the alphabet", "items = sorted(items, key=lambda x: (len(x), x))"),
    Step("sort them by their last letter, equal ones staying in order", "items = sorted(items, key=lambda x: x[-1])"),
    Step("leave out those that came before", "items = list(dict.fromkeys(items))"),
    Step("put the number of its letters behind each", "items = [x + str(len(x)) for x in items]"),
    Step(
        "write those at odd places (the first is place 0) in capitals",
        "items = [x.upper() if i % 2 else x for i, x in enumerate(items)]",
    ),
    Step("move the first letter of each to its end", "items = [x[1:] + x[0] for x in items]"),
    Step(
        "join each with the one after it by a hyphen, the last staying alone",
        'items = [a + "-" + b for a, b in zip(items, items[1:])] + items[-1:]',
    ),
    Step(
        "replace each `$letter` by `$other`",
        'items = [x.replace("$letter", "$other") for x in items]',
        tuple({"letter": a, "other": b} for a, b in ("ae", "ou", "rl", "st")),
    ),
    Step(
        "leave out every ${k}th one, the first of them at place $k (the first place is 1)",
        "items = [x for i, x in enumerate(items, start=1) if i % $k]",
        tuple({"k": k} for k in range(4, 8)),
    ),
)
WORD_ENDS = (
    Step("return them", "return items"),
    Step(
        "return them joined by `$sign`", 'return "$sign".join(items)', tuple({"sign": sign} for sign in ("/", "+", "_"))
    ),
    Step("return the first letters of all, joined", 'return "".join(x[0] for x in items)'),
    Step(
        "return the longest, of equal ones the first (an empty text where there are none)",
        'return max(items, key=len, default="")',
    ),
)
NUMBER_SUBJECTS = ("readings", "quantities", "delays", "prices", "scores", "weights", "temperatures", "ages", "stocks")
WORD_SUBJECTS = ("tags", "cities", "labels", "names", "keys", "streets", "products", "teams", "commands")
VERBS = ("clean", "prepare", "reduce", "convert", "arrange", "process", "normalise", "select", "report", "digest")
_VOCABULARY = """
amber basil cedar delta ember fjord garnet harbor indigo juniper kettle lantern meadow nickel orchid pepper quartz river
saffron timber umber velvet willow yarrow zephyr apple oak iris echo olive under atlas
"""
VOCABULARY = tuple(_VOCABULARY.split())


def draw_numbers(rng: random.Random) -> list[Any]:
    """Draw a list of numbers."""
    return [[rng.randint(0, 80) for _ in range(rng.randint(5, 10))]]


def draw_words(rng: random.Random) -> list[Any]:
    """Draw a list of words."""
    return [[rng.choice(VOCABULARY) for _ in range(rng.randint(4, 9))]]


def filled(step: Step, rng: random.Random) -> tuple[str, str]:
    """Return a step's clause and line, with what is chosen filled in."""
    values = rng.choice(step.choices)
    return Template(step.clause).substitute(values), Template(step.line).substitute(values)


def draw_pipeline(rng: random.Random, num_steps: int) -> Problem:
    """Return a problem of that many steps, of which the last one says what to return."""
    is_numbers = rng.random() < 0.5
    steps, ends = (NUMBER_STEPS, NUMBER_ENDS) if is_numbers else (WORD_STEPS, WORD_ENDS)
    subject = rng.choice(NUMBER_SUBJECTS if is_numbers else WORD_SUBJECTS)
    chosen = [*rng.sample(steps, num_steps - 1), rng.choice(ends)]
    parts = [filled(step, rng) for step in chosen]
    name = f"{rng.choice(VERBS)}_{subject}"
    kind = "ints" if is_numbers else "words"
    clauses = "\n".join(f"{number}. {clause};" for number, (clause, _) in enumerate(parts, start=1)).rstrip(";") + "."
    lines = "\n    ".join(line for _, line in parts)
    draw: Draw = draw_numbers if is_numbers else draw_words
    return Problem(
        name=name,
        params=((subject, kind),),
        returns=returned(chosen[-1], kind),
        statement=f"Take the {subject} in the order given, and in this order:\n{clauses}",
        source=f"def {name}({subject}):\n    items = list({subject})\n    {lines}\n",
        draw=draw,
    )


def returned(end: Step, kind: str) -> str:
    """Return the kind of what the last step returns."""
    return kind if end.line == "return items" else {"ints": "int", "words": "str"}[kind]
