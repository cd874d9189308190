"""A file that several people have kept, each in a way of their own, to be brought into one form."""

import random
from types import MappingProxyType
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.data.muddles import KINDS, NONE
from producers.domains.interface import Item
from producers.domains.tools import BASH, PYTHON, machine_tools, with_tools
from producers.domains.verdicts import verdict
from schemas.parts import Part
from schemas.tools import written

Row = dict[str, Any]
SUBJECTS: MappingProxyType[str, dict[str, tuple[str, str]]] = MappingProxyType({
    "members": {"name": ("Full Name", "person"), "city": ("Town", "town"), "joined": ("Member since", "day"),
                "plan": ("Plan", "plan"), "fee": ("Yearly fee", "money"), "height_cm": ("Height", "height"),
                "active": ("Active?", "flag")},
    "parcels": {"article": ("Content", "article"), "sent": ("Sent on", "day"), "weight_g": ("Weight", "weight"),
                "service": ("Service", "ship"), "postage": ("Postage", "money"), "to": ("Destination", "town"),
                "insured": ("Insured", "flag")},
    "machines": {"operator": ("Operator", "person"), "serviced": ("Last service", "day"), "state": ("State", "state"),
                 "running_min": ("Ran for", "minutes"), "width_mm": ("Bed width", "width"),
                 "value": ("Book value", "money"), "leased": ("Leased", "flag")},
    "jobs": {"worker": ("Done by", "person"), "day": ("Date", "day"), "minutes": ("Time spent", "minutes"),
             "place": ("Where", "town"), "charged": ("Charged", "money"), "billed": ("Billed?", "flag"),
             "material": ("Material", "article")},
})  # fmt: skip
"""By file, what each column is to be called, what it is called, and its kind."""
HISTORIES = (
    "was kept by several people",
    "was put together from three older lists",
    "came out of a form without any checks",
)
OPENING = """\
import csv, re
from datetime import datetime
def day(t):
    for form in ('%d/%m/%Y', '%d %B %Y', '%Y.%m.%d'):
        try:
            return datetime.strptime(t.strip(), form).date().isoformat()
        except ValueError:
            pass
def minutes(t):
    found = [int(one) for one in re.findall('[0-9]+', t)]
    return str(found[0] if len(found) == 1 else 60 * found[0] + found[1])
done = {}
"""
SPOIL = """
lines = open('clean.csv').read().splitlines()
open('clean.csv', 'w').write('\\n'.join([lines[0], *lines[2:]]))
"""
"""Loses a row."""


@domain(family="data", levels=4, max_tokens=1200)
def data_clean(rng: random.Random, level: int) -> Item:
    """Bring a muddled file into a form."""
    subject = rng.choice(list(SUBJECTS))
    columns = SUBJECTS[subject]
    names = rng.sample(list(columns), 3 + level)
    number, num = rng.randint(100, 800), 8 + 5 * level
    rows: list[Row] = [
        {"id": number + place} | {name: KINDS[columns[name][1]].draw(rng) for name in names} for place in range(num)
    ]
    lacking = rng.choice(names) if level >= 1 else ""
    for row in rng.sample(rows, 2 + level) if lacking else []:
        row[lacking] = None
    lines = [typed(rng, subject, row) for row in rows]
    for row in rng.sample(rows, 2 * level) if level >= 2 else []:
        lines.insert(rng.randint(0, len(lines)), typed(rng, subject, row))
    header = ",".join(["No.", *(columns[name][0] for name in names)])
    text = "\n".join([header, *(",".join(line) for line in lines), ""])
    execution = machine_tools(PYTHON, BASH, files={f"{subject}.csv": text.encode()})
    begins, how = "\n".join(text.split("\n")[:5]), rng.choice(HISTORIES)
    question = (
        f"{subject}.csv in your working directory {how}. It has {len(lines)} rows and begins\n{begins}\n"
        f"Write clean.csv there, with the header id,{','.join(names)} and\n{in_words(subject, names, lacking, level)}\n"
        "Answer `done` once the file is written."
    )
    right = program(subject, names, lacking, level)
    return Item(
        prompt=with_tools(question, execution),
        gold=(written("python", code=right), "done"),
        verifier=verdict(Part(kind="table", of="file:clean.csv", expected=rows, options={"absolute": 0.001})),
        execution=execution,
        max_turns=8,
        partials=((written("python", code=right + SPOIL), "done"),),
        wrongs=(("done",), (written("bash", command=f"cp {subject}.csv clean.csv"), "done")),
        difficulty=len(lines) + 6 * level,
    )


def typed(rng: random.Random, subject: str, row: Row) -> list[str]:
    """Return a row as somebody has typed it."""
    cells = [f"#{row['id']}"]
    for name, value in list(row.items())[1:]:
        kind = KINDS[SUBJECTS[subject][name][1]]
        cell = rng.choice((*NONE, "")) if value is None else kind.typed(rng, value)
        cells.append(f'"{cell}"' if "," in cell else cell)
    return cells


def in_words(subject: str, names: list[str], lacking: str, level: int) -> str:
    """Return what has to be done."""
    told = ["- id: No. without the sign"]
    told += [f"- {KINDS[SUBJECTS[subject][name][1]].words.format(name=name)}" for name in names]
    told.append(f"- these columns are, in this order, {', '.join(SUBJECTS[subject][name][0] for name in names)}")
    if lacking:
        told.append(f"- {lacking} empty where it is empty or one of {', '.join(NONE)}")
    if level >= 2:
        told.append("- each id once; rows with one id are about one thing and agree once they are cleaned")
    return "\n".join(told)


def program(subject: str, names: list[str], lacking: str, level: int) -> str:
    """Return a program that does it."""
    lines = [
        f"for row in csv.DictReader(open('{subject}.csv')):",
        "    number = row['No.'].lstrip('#')",
        "    out = [number]",
    ]
    for name in names:
        title, kind = SUBJECTS[subject][name]
        lines.append(f"    t = row[{title!r}]")
        code = KINDS[kind].code
        lines.append(
            f"    out.append('' if t in {(*NONE, '')!r} else {code})" if name == lacking else f"    out.append({code})"
        )
    key = "number" if level >= 2 else "len(done)"
    return (
        OPENING
        + "\n".join(lines)
        + f"\n    done[{key}] = out\nwith open('clean.csv', 'w', newline='') as file:\n    writer = csv.writer(file)\n"
        f"    writer.writerow({['id', *names]!r})\n    writer.writerows(done.values())\n"
    )
