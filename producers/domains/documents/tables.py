"""Questions about a table: look up, filter, add up, rank, with footnotes that change what counts."""

import random
from collections.abc import Callable, Sequence
from types import MappingProxyType

import msgspec

from producers.domains.catalogue import domain
from producers.domains.entities import CITIES, FIRST, STEMS, half_up, people, table
from producers.domains.interface import Item
from producers.domains.verdicts import last_number, verdict
from schemas.parts import Part


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """A table of things, each of a group, with amounts."""

    title: str
    what: str
    """A thing, as `store`."""
    by: str
    """What groups them, as `region`."""
    names: list[str]
    groups: list[str]
    columns: dict[str, list[int]]

    def of(self, column: str, places: list[int]) -> list[int]:
        """Return amounts at places."""
        return [self.columns[column][place] for place in places]

    def within(self, group: str) -> list[int]:
        """Return the places of a group."""
        return [place for place, one in enumerate(self.groups) if one == group]


Bounds = tuple[float, float]
"""Of amounts; below 2 they are shares of the first column's."""
KINDS: MappingProxyType[str, tuple[str, str, tuple[str, ...], dict[str, Bounds]]] = MappingProxyType({
    "store": ("Stores of a retail chain, last quarter", "region", ("North", "South", "East", "West"),
              {"Visitors": (900, 60_000), "Purchases": (0.1, 0.5), "Staff": (4, 90), "Returns": (0.005, 0.03)}),
    "sales rep": ("Sales team, results of the year", "segment", ("Enterprise", "Mid-market", "Public", "Small "
    "business"),
                  {"Bookings (USD k)": (90, 5_000), "Deals won": (4, 90), "Calls": (200, 3_000),
                   "Discounts (USD k)": (0.02, 0.2)}),
    "site": ("Solar sites, June", "country", ("Spain", "Italy", "Greece", "Portugal"),
             {"Capacity (kW)": (200, 9_000), "Output (MWh)": (0.11, 0.19), "Outages (h)": (1, 140),
               "Panels": (1.8, 1.99)}),
    "ward": ("Hospital wards, first half-year", "building", ("A", "B", "C", "D"),
             {"Admissions": (200, 4_000), "Beds": (0.01, 0.03), "Nurses": (6, 70), "Complaints": (0.003, 0.02)}),
    "clinic": ("Trial of a blood pressure drug, patients by clinic", "arm", ("Placebo", "5 mg", "10 mg", "20 mg"),
               {"Enrolled": (60, 900), "Completed": (0.55, 0.95), "Adverse events": (0.05, 0.4),
                "Protocol deviations": (0.02, 0.2)}),
})  # fmt: skip
Answer = tuple[str, float | str, Sequence[float | str], int]
"""What is asked, what is right, what is wrong, cells to be read."""


def draw_sheet(rng: random.Random, num: int) -> Sheet:
    """Draw a table of so many rows; at most 34."""
    what = rng.choice(list(KINDS))
    title, by, groups, columns = KINDS[what]
    pool = {"store": [f"{a} {b}" for a, b in zip(rng.sample(CITIES, 20), rng.sample(FIRST, 20), strict=True)]}
    names = people(rng, num) if what == "sales rep" else pool.get(what, rng.sample(STEMS, 34))[:num]
    amounts: dict[str, list[int]] = {}
    for name, (low, high) in columns.items():
        first = next(iter(amounts.values()), [])
        amounts[name] = [
            max(1, round(rng.uniform(low, high) * (first[place] if high < 2 else 1))) for place in range(num)
        ]
    given = [rng.choice(groups) for _ in names]
    return Sheet(title=title, what=what, by=by, names=names, groups=given, columns=amounts)


def looked_up(rng: random.Random, sheet: Sheet) -> Answer:
    """Ask for a cell, or for whose amount is the largest or smallest."""
    column = rng.choice(list(sheet.columns))
    values = sheet.columns[column]
    if rng.random() < 0.5:
        place = rng.randrange(len(values))
        others = [one[place] for name, one in sheet.columns.items() if name != column]
        return f"What does the table give as {column} for {sheet.names[place]}?", values[place], [*others], 1
    most, how = rng.choice(((max, "highest"), (min, "lowest")))
    best = most(range(len(values)), key=values.__getitem__)
    if values.count(values[best]) > 1:
        return looked_up(rng, sheet)
    named = [name for name in sheet.names if name != sheet.names[best]][:2]
    return f"Which {sheet.what} has the {how} {column}?", sheet.names[best], named, len(values)


def filtered(rng: random.Random, sheet: Sheet) -> Answer:
    """Ask for a count, a sum or a mean within a group, or beyond a threshold."""
    first, second = rng.sample(list(sheet.columns), 2)
    group = rng.choice(sheet.groups)
    places = sheet.within(group)
    cut = sorted(sheet.columns[second])[len(sheet.names) // 2]
    over = [place for place in range(len(sheet.names)) if sheet.columns[second][place] > cut]
    total = sum(sheet.of(first, places))
    everything = sum(sheet.columns[first])
    return rng.choice((
        (f"What is the total of {first} in {sheet.by} {group}?", total, [everything], len(places) + 3),
        (f"What is the mean of {first} over the {sheet.what}s in {sheet.by} {group}, to two decimals?",
         total / len(places), [everything / len(sheet.names), total], len(places) + 3),
        (f"How many {sheet.what}s have {second} above {cut:,}?", len(over), [len(over) + 1, len(sheet.names)], 10),
        (f"What is the total of {first} over the {sheet.what}s with {second} above {cut:,}?",
         sum(sheet.of(first, over)), [everything], 12),
    ))  # fmt: skip


def related(rng: random.Random, sheet: Sheet) -> Answer:
    """Ask for a ratio, a share, or a gap between groups."""
    first, second = rng.sample(list(sheet.columns), 2)
    groups = sorted(set(sheet.groups))
    if len(groups) < 3:
        return filtered(rng, sheet)
    a, b = rng.sample(groups, 2)
    in_a, in_b = sheet.within(a), sheet.within(b)
    sum_a, sum_b, everything = sum(sheet.of(first, in_a)), sum(sheet.of(first, in_b)), sum(sheet.columns[first])
    ratios = {g: sum(sheet.of(first, sheet.within(g))) / sum(sheet.of(second, sheet.within(g))) for g in groups}
    best = max(groups, key=ratios.__getitem__)
    return rng.choice((
        (f"What share of all {first} falls to {sheet.by} {a}, in per cent with two decimals?",
         100 * sum_a / everything, [100 * sum_a / (everything - sum_a)], 24),
        (f"By how much does total {first} of {sheet.by} {a} exceed that of {sheet.by} {b} (negative if it is less)?",
         sum_a - sum_b, [sum_b - sum_a], 25),
        (f"In which {sheet.by} is the ratio of total {first} to total {second} the highest?", best,
         [group for group in groups if group != best][:2], 34),
        (f"For {sheet.by} {a}, what is total {first} divided by total {second}, with three decimals?", ratios[a],
         [sum(sheet.of(second, in_a)) / sum_a], 26),
    ))  # fmt: skip


def footnoted(rng: random.Random, sheet: Sheet) -> tuple[str, Sheet]:
    """Return notes that change what counts, and the table that then does."""
    out, fixed, moved = rng.sample(range(len(sheet.names)), 3)
    column = rng.choice(list(sheet.columns))
    low, high = min(sheet.columns[column]), max(sheet.columns[column])
    value, group = rng.randint(low, high), rng.choice(sorted({*sheet.groups} - {sheet.groups[moved]}))
    note = (
        f"Notes: (1) {sheet.names[out]} was closed during the period; it is listed but counts in no total, mean, count "
        f"or ranking. (2) {column} of {sheet.names[fixed]} should read {value:,}. (3) {sheet.names[moved]} now belongs "
        f"to {sheet.by} {group} and counts there.\n"
    )
    columns = {name: list(values) for name, values in sheet.columns.items()}
    columns[column][fixed] = value
    groups = list(sheet.groups)
    groups[moved] = group
    keep = [place for place in range(len(groups)) if place != out]
    return note, msgspec.structs.replace(
        sheet,
        names=[sheet.names[place] for place in keep],
        groups=[groups[place] for place in keep],
        columns={name: [values[place] for place in keep] for name, values in columns.items()},
    )


def with_notes(rng: random.Random, shown: Sheet) -> tuple[str, Answer]:
    """Return notes and a question that is answered otherwise without them."""
    while True:
        note, sheet = footnoted(rng, shown)
        seed = rng.getrandbits(32)
        asked, answer, others, num_cells = related(random.Random(seed), sheet)
        asked_without, without, *_ = related(random.Random(seed), shown)
        if asked == asked_without and answer != without:
            return note, (asked, answer, [*others, without], num_cells + 20)


LEVELS: tuple[Callable[[random.Random, Sheet], Answer], ...] = (looked_up, filtered, related)


@domain(family="documents", levels=4, max_tokens=600)
def documents_table_qa(rng: random.Random, level: int) -> Item:
    """Answer a question about a table."""
    shown = draw_sheet(rng, (8, 12, 16, 20)[level])
    note, found = with_notes(rng, shown) if level == 3 else ("", LEVELS[level](rng, shown))
    asked, answer, others, num_cells = found
    header = [shown.what.capitalize(), shown.by.capitalize(), *shown.columns]
    rows = [
        [name, group, *(f"{values[place]:,}" for values in shown.columns.values())]
        for place, (name, group) in enumerate(zip(shown.names, shown.groups, strict=True))
    ]
    text = table(header, rows, style=rng.choice(("text", "markdown", "csv")))
    return Item(
        prompt=f"{shown.title}\n\n{text}\n{note}\n{asked} You may reason first; the last line is to be the "
        "answer alone.",
        gold=(f"From the table:\n{said(answer)}",),
        verifier=verdict(wanted(answer)),
        wrongs=tuple((said(other),) for other in others if said(other) != said(answer)),
        difficulty=num_cells,
    )


def wanted(answer: float | str) -> Part:
    """Return what wants an answer on the last line: a name, a whole number, or one with decimals."""
    if isinstance(answer, str):
        return Part(kind="exact", name="name", extract="last_line", expected=answer, options={"ignore_case": True})
    if isinstance(answer, int):
        return last_number(answer)
    return last_number(answer, absolute=0.0101 if abs(answer) >= 1 else 0.00101)


def said(answer: float | str) -> str:
    """Return an answer as it is asked for."""
    if isinstance(answer, str):
        return answer
    return f"{answer:,}" if isinstance(answer, int) else f"{half_up(answer, 3 if abs(answer) < 1 else 2)}"
