"""A file that several people have kept, each in a way of their own, to be brought into one form."""

import random
from datetime import date, timedelta
from typing import Any

import msgspec

from producers.domains.catalogue import domain
from producers.domains.entities import CITIES, MONTHS, people
from producers.domains.interface import Item
from producers.domains.tools import BASH, PYTHON, machine_tools, with_tools
from producers.domains.verdicts import verdict
from schemas.parts import Part
from schemas.tools import written

Row = dict[str, Any]
PLANS = ("basic", "plus", "pro")
SPELLINGS = {"basic": ("basic", "BASIC", " Basic", "bsc"), "plus": ("plus", "Plus ", "PLUS", "pls"),
             "pro": ("pro", "PRO", " Pro", "prof")}  # fmt: skip
HISTORIES = (
    "was kept by several people",
    "was put together from three older lists",
    "came out of a form without any checks",
)
NONE = ("", "N/A", "-", "unknown")


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be done, more on higher levels."""

    dates: bool = True
    amounts: bool = True
    plans: bool = False
    missing: bool = False
    duplicates: bool = False
    units: bool = False


LEVELS = (
    Rules(),
    Rules(plans=True, missing=True),
    Rules(plans=True, missing=True, duplicates=True),
    Rules(plans=True, missing=True, duplicates=True, units=True),
)


def draw_clean(rng: random.Random, num: int) -> list[Row]:
    """Draw the rows as they should be."""
    start, number = date(rng.randint(2022, 2026), 1, 1), rng.randint(100, 800)
    names = people(rng, num)
    return [
        {
            "id": number + place,
            "name": names[place],
            "city": rng.choice(CITIES),
            "joined": (start + timedelta(days=rng.randrange(365))).isoformat(),
            "plan": rng.choice(PLANS),
            "fee": rng.randint(500, 250_000) / 100,
            "height_cm": rng.randint(150, 205),
        }
        for place in range(num)
    ]


def muddled(rng: random.Random, row: Row, rules: Rules) -> list[str]:
    """Return a row as somebody has typed it; never as it should be."""
    year, month, day = row["joined"].split("-")
    when = rng.choice((f"{day}/{month}/{year}", f"{int(day)} {MONTHS[int(month) - 1]} {year}", f"{year}.{month}.{day}"))
    fee = rng.choice((f"EUR {row['fee']:,.2f}", f"{row['fee']:,.2f} EUR", f"€{row['fee']:.2f}"))
    height = "" if row["height_cm"] is None else str(row["height_cm"])
    if rules.missing and row["height_cm"] is None:
        height = rng.choice(NONE)
    elif rules.units:
        height = rng.choice((height, f"{row['height_cm'] / 100:.2f} m", f"{height} cm"))
    name = rng.choice((row["name"], f" {row['name']} ", row["name"].replace(" ", "  ")))
    plan = rng.choice(SPELLINGS[row["plan"]]) if rules.plans else row["plan"]
    return [str(row["id"]), name, row["city"], when, plan, f'"{fee}"', height]


@domain(family="data", levels=4, max_tokens=1200)
def data_clean(rng: random.Random, level: int) -> Item:
    """Bring a muddled file into a form."""
    rules = LEVELS[level]
    rows = draw_clean(rng, 8 + 5 * level)
    if rules.missing:
        for row in rng.sample(rows, 2 + level):
            row["height_cm"] = None
    lines = [muddled(rng, row, rules) for row in rows]
    for row in rng.sample(rows, 2 * level) if rules.duplicates else []:
        lines.insert(rng.randint(0, len(lines)), muddled(rng, row, rules))
    header = "Id,Full Name,City,Joined,Plan,Fee,Height"
    text = "\n".join([header, *(",".join(line) for line in lines), ""])
    execution = machine_tools(PYTHON, BASH, files={"members.csv": text.encode()})
    begins, how = "\n".join(text.split("\n")[:5]), rng.choice(HISTORIES)
    question = (
        f"members.csv in your working directory {how}. It has {len(lines)} rows and "
        f"begins\n{begins}\n"
        f"Write clean.csv there, with the header id,name,city,joined,plan,fee,height_cm and\n{in_words(rules)}\n"
        "Answer `done` once the file is written."
    )
    return Item(
        prompt=with_tools(question, execution),
        gold=(written("python", code=program(rules)), "done"),
        verifier=verdict(Part(kind="table", of="file:clean.csv", expected=rows, options={"absolute": 0.001})),
        execution=execution,
        max_turns=8,
        partials=((written("python", code=program(rules) + SPOIL), "done"),),
        wrongs=(("done",), (written("bash", command="cp members.csv clean.csv"), "done")),
        difficulty=len(lines) + 6 * level,
    )


def in_words(rules: Rules) -> str:
    """Return what has to be done."""
    told = [
        "- name without blanks around it, and one blank between words",
        "- joined as YYYY-MM-DD (dates with slashes have the day first)",
        "- fee as a plain number with a point and no thousands separator",
    ]
    if rules.plans:
        told.append(
            "- plan as basic, plus or pro; bsc, pls and prof are short for these, case and blanks do not matter"
        )
    if rules.missing:
        told.append(f"- height_cm empty where there is none: {', '.join(repr(one) for one in NONE)}")
    if rules.units:
        told.append("- height_cm in whole centimetres; some are in metres")
    if rules.duplicates:
        told.append("- each id once; rows with one id are about one person and agree once they are cleaned")
    return "\n".join(told)


SPOIL = """
lines = open('clean.csv').read().splitlines()
open('clean.csv', 'w').write('\\n'.join([lines[0], *lines[2:]]))
"""
"""Loses a row."""


def program(rules: Rules) -> str:
    """Return a program that does it."""
    text = (
        "import csv, re\nfrom datetime import datetime\n"
        "def day(text):\n"
        "    for form in ('%d/%m/%Y', '%d %B %Y', '%Y.%m.%d'):\n"
        "        try:\n            return datetime.strptime(text, form).date().isoformat()\n"
        "        except ValueError:\n            pass\n"
        "plans = {'bsc': 'basic', 'pls': 'plus', 'prof': 'pro'}\n"
        "done = {}\n"
        "for row in csv.DictReader(open('members.csv')):\n"
        "    height = row['Height'].strip()\n"
        f"    if height in {NONE!r}:\n        height = ''\n"
        "    elif height.endswith(' m'):\n        height = str(round(100 * float(height[:-2])))\n"
        "    height = height.removesuffix(' cm')\n"
        "    plan = row['Plan'].strip().lower()\n"
        "    fee = re.sub('[^0-9.]', '', row['Fee'])\n"
        "    name = ' '.join(row['Full Name'].split())\n"
    )
    key = "row['Id']" if rules.duplicates else "len(done)"
    return text + (
        f"    done[{key}] = [row['Id'], name, row['City'], day(row['Joined']), plans.get(plan, plan), fee, height]\n"
        "with open('clean.csv', 'w', newline='') as file:\n"
        "    out = csv.writer(file)\n"
        "    out.writerow('id name city joined plan fee height_cm'.split())\n"
        "    out.writerows(done.values())\n"
    )
