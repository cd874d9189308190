"""Problems on text: durations, tags, settings, masks, brackets, versions."""

import random
from typing import Any

from producers.domains.code.problem import Plan

NAMES = ("retries", "port", "host", "mode", "region", "depth", "cache", "limit", "colour", "zone")
_WORDS = "the disk of node seven is full and the backup job on node two is late so the queue is long again"
WORDS = tuple(_WORDS.split())


def draw_duration(rng: random.Random) -> list[Any]:
    """Draw texts such as `2h05m`."""
    units = sorted(rng.sample("dhms", rng.randint(1, 4)), key="dhms".index)
    return ["".join(f"{rng.randint(0, 59)}{unit}" for unit in units)]


def draw_sentence(rng: random.Random) -> list[Any]:
    """Draw a text and how many words are asked for."""
    return [" ".join(rng.choices(WORDS, k=rng.randint(6, 18))), rng.randint(1, 4)]


def draw_settings(rng: random.Random) -> list[Any]:
    """Draw lines of settings, some of which are comments or broken."""
    lines = []
    for _ in range(rng.randint(4, 9)):
        name, value = rng.choice(NAMES), str(rng.choice((rng.randint(1, 99), "on", "off", "eu-1")))
        forms = (f"{name} = {value}", f"{name}={value}", f"# {name} = {value}", name)
        lines.append(rng.choices(forms, (5, 3, 1, 1))[0])
    return [lines]


def draw_runs(rng: random.Random) -> list[Any]:
    """Draw a text of runs of one letter."""
    return ["".join(rng.choice("abcx") * rng.randint(1, 6) for _ in range(rng.randint(2, 7)))]


def draw_card(rng: random.Random) -> list[Any]:
    """Draw an identifier of digits with separators, in a sentence."""
    parts = ["".join(rng.choices("0123456789", k=rng.randint(2, 5))) for _ in range(rng.randint(2, 4))]
    return [f"{rng.choice(('id', 'card', 'acct', 'ref'))} {rng.choice('-. ').join(parts)}"]


def draw_brackets(rng: random.Random) -> list[Any]:
    """Draw brackets of which most are in order."""
    stack: list[str] = []
    text = ""
    for _ in range(rng.randint(4, 14)):
        if stack and rng.random() < 0.5:
            text += stack.pop() if rng.random() < 0.85 else rng.choice(")]}")
        else:
            opening = rng.choice("([{")
            text += opening + rng.choice(("", "x", "y"))
            stack.append({"(": ")", "[": "]", "{": "}"}[opening])
    return [text + "".join(reversed(stack)) if rng.random() < 0.5 else text]


def draw_versions(rng: random.Random) -> list[Any]:
    """Draw version numbers."""
    return [[".".join(str(rng.randint(0, 12)) for _ in range(rng.randint(1, 4))) for _ in range(rng.randint(3, 7))]]


def draw_log(rng: random.Random) -> list[Any]:
    """Draw lines of a log."""
    kinds = ("INFO", "WARN", "ERROR", "DEBUG")
    parts = ("auth", "db", "web", "mail", "cron")
    return [
        [
            f"{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d} {rng.choice(kinds)} {rng.choice(parts)}: "
            f"took {rng.randint(1, 900)} ms"
            for _ in range(rng.randint(4, 10))
        ]
    ]


PLANS = (
    Plan(
        name="duration_in_seconds",
        params=(("text", "str"),),
        returns="int",
        statement="""A duration is written as numbers, each followed by a unit: d (days of $hours hours), h, m or s, as
in 1h30m. Return it in $unit, rounded down.""",
        source="""
def duration_in_seconds(text):
    sizes = {"d": $hours * 3600, "h": 3600, "m": 60, "s": 1}
    total = 0
    number = 0
    for char in text:
        if char.isdigit():
            number = number * 10 + int(char)
        else:
            total += number * sizes[char]
            number = 0
    return total // $size
""",
        draw=draw_duration,
        choices=(
            ({"hours": 24}, {"hours": 8}, {"hours": 10}),
            ({"unit": "seconds", "size": 1}, {"unit": "whole minutes", "size": 60}),
        ),
        level=0,
    ),
    Plan(
        name="frequent_words",
        params=(("text", "str"), ("num", "int")),
        returns="words",
        statement="""Return the `num` most frequent words of at least $least letters, most frequent first; of equally
frequent ones $rule first. Fewer where there are not so many.""",
        source="""
def frequent_words(text, num):
    counts = {}
    for place, word in enumerate(text.split()):
        if len(word) >= $least:
            count, first = counts.get(word, (0, place))
            counts[word] = (count + 1, first)
    ordered = sorted(counts, key=lambda word: (-counts[word][0], $key))
    return ordered[:num]
""",
        draw=draw_sentence,
        choices=(
            tuple({"least": least} for least in (2, 3, 4)),
            (
                {"rule": "the one that comes first in the alphabet", "key": "word"},
                {"rule": "the one that appears first in the text", "key": "counts[word][1]"},
                {"rule": "the shorter one (then the one first in the alphabet)", "key": "len(word), word"},
            ),
        ),
        level=1,
    ),
    Plan(
        name="read_settings",
        params=(("lines", "lines"),),
        returns="records",
        statement="""Each line holds a setting, `name = value`, with or without spaces around the sign. Lines that begin
with # and lines without a sign are passed over. Where a name comes several times, the $which one counts. Return
[name, value] pairs of texts, by name in alphabetical order$also.""",
        source="""
def read_settings(lines):
    settings = {}
    for line in lines:
        if line.startswith("#") or "=" not in line:
            continue
        name, value = line.split("=", 1)
        name, value = name.strip(), value.strip()
        if $skip:
            continue
        settings[name] = value
    return [[name, settings[name]] for name in sorted(settings)]
""",
        draw=draw_settings,
        choices=(
            (
                {"which": "last", "skip": "not name", "also": ""},
                {"which": "first", "skip": "name in settings", "also": ""},
                {"which": "last", "skip": 'value == "off"', "also": "; a line whose value is `off` changes nothing"},
                {"which": "last", "skip": "not value.isdigit()", "also": "; only settings whose value is a number"},
            ),
        ),
        level=1,
    ),
    Plan(
        name="pack_runs",
        params=(("text", "str"),),
        returns="str",
        statement="""Shorten a text: a run of at least $least times the same letter becomes $form, shorter runs stay
as they are. No number may be above $most: a longer run is written as several, full ones first, and what is left over
goes by the same rule.""",
        source="""
def pack_runs(text):
    packed = ""
    place = 0
    while place < len(text):
        end = place
        while end < len(text) and text[end] == text[place] and end - place < $most:
            end += 1
        length = end - place
        packed += $code if length >= $least else text[place:end]
        place = end
    return packed
""",
        draw=draw_runs,
        choices=(
            tuple({"least": least} for least in (2, 3, 4)),
            tuple({"most": most} for most in (4, 5, 9)),
            (
                {"form": "the length and the letter, as in 4a", "code": "str(length) + text[place]"},
                {"form": "the letter and the length, as in a4", "code": "text[place] + str(length)"},
            ),
        ),
        level=2,
    ),
    Plan(
        name="mask_digits",
        params=(("text", "str"),),
        returns="str",
        statement="""Replace digits of the text by `$sign`, all but the $where $num digits; other characters stay. A
text of at most $num digits stays as it is.""",
        source="""
def mask_digits(text):
    total = sum(char.isdigit() for char in text)
    masked = ""
    seen = 0
    for char in text:
        if char.isdigit():
            seen += 1
            masked += char if $keep else "$sign"
        else:
            masked += char
    return masked
""",
        draw=draw_card,
        choices=(
            tuple({"sign": sign} for sign in "*#X"),
            (
                {"where": "last", "num": 4, "keep": "seen > total - 4"},
                {"where": "last", "num": 3, "keep": "seen > total - 3"},
                {"where": "first", "num": 2, "keep": "seen <= 2"},
                {"where": "first", "num": 4, "keep": "seen <= 4"},
            ),
        ),
        level=0,
    ),
    Plan(
        name="first_misplaced",
        params=(("text", "str"),),
        returns="int",
        statement="""The text holds brackets ( ) [ ] { } and other characters. Return the index, from $base, of the
first closing bracket that does not close the innermost open one; where there is none, but some bracket is never closed,
the index of the $which such one; else -1.""",
        source="""
def first_misplaced(text):
    partner = {")": "(", "]": "[", "}": "{"}
    stack = []
    for place, char in enumerate(text, start=$base):
        if char in "([{":
            stack.append((char, place))
        elif char in partner:
            if not stack or stack[-1][0] != partner[char]:
                return place
            stack.pop()
    return stack[$index][1] if stack else -1
""",
        draw=draw_brackets,
        choices=(
            ({"base": 0}, {"base": 1}),
            ({"which": "innermost", "index": -1}, {"which": "outermost", "index": 0}),
        ),
        level=2,
    ),
    Plan(
        name="order_versions",
        params=(("versions", "words"),),
        returns="words",
        statement="""Order version numbers $order. Parts are compared as numbers, and missing parts count as 0; of equal
ones the $tie comes first$also.""",
        source="""
def order_versions(versions):
    def key(version):
        parts = [int(part) for part in version.split(".")]
        parts += [0] * (4 - len(parts))
        return [$sign part for part in parts] + [$length len(version)]
    return sorted($taken, key=key)
""",
        draw=draw_versions,
        choices=(
            ({"order": "from old to new", "sign": ""}, {"order": "from new to old", "sign": "-"}),
            (
                {"tie": "text that is shorter", "length": ""},
                {"tie": "text that is longer", "length": "-"},
            ),
            (
                {"also": "", "taken": "versions"},
                {
                    "also": ". Leave out pre-releases, whose first part is 0",
                    "taken": '[v for v in versions if int(v.split(".")[0]) > 0]',
                },
            ),
        ),
        level=1,
    ),
    Plan(
        name="slowest_parts",
        params=(("lines", "lines"),),
        returns="records",
        statement="""Lines of a log read `HH:MM LEVEL part: took N ms`. Of the lines $which, return for each part
[part, $what], sorted by that number from high to low and then by part.""",
        source="""
def slowest_parts(lines):
    found = {}
    for line in lines:
        time, level, part, _, took, _ = line.split()
        if $skip:
            continue
        found.setdefault(part.rstrip(":"), []).append(int(took))
    rows = [[part, $code] for part, values in found.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))
""",
        draw=draw_log,
        choices=(
            (
                {"which": "that are not DEBUG", "skip": 'level == "DEBUG"'},
                {"which": "from 12:00 on", "skip": 'time < "12:00"'},
                {"which": "before 18:00 that are not INFO", "skip": 'time >= "18:00" or level == "INFO"'},
            ),
            (
                {"what": "the sum of its milliseconds", "code": "sum(values)"},
                {"what": "the largest of its milliseconds", "code": "max(values)"},
                {"what": "the mean of its milliseconds, rounded down", "code": "sum(values) // len(values)"},
            ),
        ),
        level=2,
    ),
)
