"""A small archive of filings that tools search and read: find the right ones, compute, conclude."""

import random
import re
from typing import Any

import msgspec

from producers.domains.catalogue import domain
from producers.domains.entities import STEMS, TRADES, company
from producers.domains.finance.measures import EASY
from producers.domains.finance.statements import Amounts, Company, draw_company, shown, statement
from producers.domains.interface import Item
from producers.domains.tools import with_tools, world_tools
from producers.domains.verdicts import in_tags, shape, tagged_number, tagged_word, verdict
from schemas.parts import Part
from schemas.tools import written

LINES = ("revenue", "gross", "ebit", "net", "rnd", "sga")


def search(world: dict[str, dict[str, dict[str, str]]], query: str) -> list[dict[str, str]]:
    """Search the archive of filings; gives the best matches, each with its id, title and first words.

    query: words such as a company, a year, a kind of filing
    """
    import re

    words = set(re.findall(r"[a-z0-9/-]+", query.lower()))
    found = []
    for name, document in world["documents"].items():
        title = set(re.findall(r"[a-z0-9/-]+", document["title"].lower()))
        body = set(re.findall(r"[a-z0-9/-]+", document["text"].lower()))
        found.append((-(3 * len(words & title) + len(words & body)), name))
    documents = world["documents"]
    return [
        {"document": name, "title": documents[name]["title"], "begins": documents[name]["text"][:80]}
        for score, name in sorted(found)[:6]
        if score < 0
    ]


def read(world: dict[str, dict[str, dict[str, str]]], document: str) -> str:
    """Read a filing.

    document: its id, as search gives it
    """
    if document not in world["documents"]:
        raise ValueError(f"there is no document {document!r}; use search to find ids")
    return world["documents"][document]["text"]


OPENERS = (
    "An archive holds filings of several companies.",
    "You are an equity analyst with access to an archive of filings.",
    "Use the filings in the archive, and nothing that you remember.",
)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of an archive."""

    text: str
    number: float
    unit: str
    needs: tuple[str, ...]
    """Filings that have to be read."""
    conclusion: str = ""
    says: str = ""
    """What a conclusion may be."""
    wrong: float
    """What the wrong filing leads to."""


@domain(family="finance", levels=4, max_tokens=600)
def finance_filings(rng: random.Random, level: int) -> Item:
    """Find filings among others by search, and work out what they say together."""
    last = rng.randint(2022, 2025)
    filers = [draw_company(rng, num_years=4, last_year=last) for _ in range(2)]
    stem = rng.choice(STEMS)
    trades = rng.sample(TRADES, 2)
    filers = [
        msgspec.structs.replace(of, name=f"{stem} {trade}" if level else company(rng), currency="USD", scale=scale)
        for of, trade, scale in zip(filers, trades, rng.sample(("thousands", "millions"), 2), strict=True)
    ]
    filers = [enlarged(of, rng.randint(700, 1300)) if of.scale == "thousands" else of for of in filers]
    if filers[0].name == filers[1].name:
        return finance_filings(rng, level)
    amended = restated(rng, filers[0], last - 1) if level == 3 else None
    documents = archive(rng, filers, last, amended)
    question = (single, spread, compared, superseded)[level](rng, filers, last, amended or {})
    form = {"number": question.unit} | ({"conclusion": question.says} if question.says else {})
    execution = world_tools(search, read, world={"documents": documents})
    said = {"number": f"{question.number:.2f}"} | ({"conclusion": question.conclusion} if question.says else {})
    reads = [written("read", document=name) for name in question.needs]
    asked = f"{rng.choice(OPENERS)} {question.text}\n{shape(**form)}"
    miss = in_tags(**(said | {"number": f"{question.wrong:.2f}", "conclusion": "unclear"}))
    return Item(
        prompt=with_tools(asked, execution),
        gold=(written("search", query=f"{filers[0].name} annual report"), *reads, in_tags(**said)),
        verifier=verdict(*wanted(question)),
        execution=execution,
        max_turns=8 + 2 * level,
        partials=((reads[0], miss),),
        wrongs=((miss,), (written("search", query="revenue"), "<number>0</number>")),
        difficulty=3 * len(question.needs) + 4 * level,
    )


def wanted(question: Question) -> tuple[Part, ...]:
    """Return what is looked at: the number, the filings that were read, and the conclusion that the number bears."""
    unit: Any = "%" if "percent" in question.unit else "m" if "million" in question.unit else ""
    near = 0.0101 if unit == "%" else max(0.0101, abs(question.number) * 1e-4)
    parts = [tagged_number("number", question.number, 0.6, absolute=near, unit=unit)]
    share = 0.3 / len(question.needs)
    parts += [
        Part(kind="milestones", name=f"read {name}", of="calls", weight=share,
             expected=[{"call": "read", "arguments": {"document": name}}])
        for name in question.needs
    ]  # fmt: skip
    if question.says:
        word = tagged_word("conclusion", question.conclusion, 0.3)
        parts.append(msgspec.structs.replace(word, after=0.6))
    return tuple(parts)


def single(rng: random.Random, filers: list[Company], last: int, _amended: Amounts) -> Question:
    """Ask for a ratio that one filing tells."""
    of, year, measure = filers[0], last - rng.randint(0, 2), rng.choice(EASY[:5])
    return Question(
        text=f"What was the {measure.name} ({measure.words}) of {of.name} in FY{year}, "
        "by its annual report for that year?",
        number=measure.of(of.years, year),
        unit="percentage, two decimals",
        needs=(id_of(of, "10-K", year),),
        wrong=measure.of(filers[1].years, year),
    )


def spread(rng: random.Random, filers: list[Company], last: int, _amended: Amounts) -> Question:
    """Ask for growth between years that no one filing has."""
    of, line = filers[0], rng.choice(LINES)
    first = last - 3
    now, before = of.years[last][line], of.years[first][line]
    if before <= 0:
        return spread(rng, filers, last, _amended)
    num = last - first
    return Question(
        text=f"At what compound annual rate did {of.labels[line].lower()} of {of.name} grow from FY{first} to "
        f"FY{last}? Each annual report has figures of its own year and of the one before.",
        number=100 * (max(now / before, 1e-9) ** (1 / num) - 1),
        unit="percentage, two decimals",
        needs=(id_of(of, "10-K", last), id_of(of, "10-K", first + 1)),
        wrong=100 * (now / before - 1),
    )


def compared(rng: random.Random, filers: list[Company], last: int, _amended: Amounts) -> Question:
    """Ask for the difference of amounts of two companies that report in different scales, and whose is larger."""
    line, year = rng.choice(LINES), last - rng.randint(0, 1)
    amounts = [of.years[year][line] * (1 if of.scale == "millions" else 1 / 1000) for of in filers]
    larger = filers[amounts[1] > amounts[0]].name
    return Question(
        text=f"Compare {line_name(line)} of {filers[0].name} and {filers[1].name} in FY{year} by their annual reports "
        "for that year: how large is the difference, and whose is larger? Mind the units of the reports.",
        number=abs(amounts[0] - amounts[1]),
        unit="difference in USD million, two decimals",
        needs=tuple(id_of(of, "10-K", year) for of in filers),
        conclusion=larger,
        says="name of the company whose is larger",
        wrong=abs(filers[0].years[year][line] - filers[1].years[year][line]) + 1.0,
    )


def superseded(rng: random.Random, filers: list[Company], last: int, amended: Amounts) -> Question:
    """Ask for the change of a margin from a year that was amended to the next."""
    of, line, year = filers[0], rng.choice(("gross", "ebit", "net")), last - 1
    now, before = of.years[last], amended
    number = 100 * (now[line] / now["revenue"] - before[line] / before["revenue"])
    old = of.years[year]
    return Question(
        text=f"By how many percentage points did {line_name(line)} as a share of revenue of {of.name} change "
        f"from FY{year} to FY{last}? Where a filing was amended, the amended figures count; comparatives in later "
        "annual reports were not updated. Did the margin rise or fall?",
        number=number,
        unit="percentage points, two decimals, negative for a fall",
        needs=(id_of(of, "10-K/A", year), id_of(of, "10-K", last)),
        conclusion="rise" if number > 0 else "fall",
        says="rise or fall",
        wrong=100 * (now[line] / now["revenue"] - old[line] / old["revenue"]) + 0.05,
    )


def enlarged(of: Company, factor: int) -> Company:
    """Return a company whose every amount is so many times as large, so that scales do not tell who is larger."""
    years = {year: {line: factor * amount for line, amount in now.items()} for year, now in of.years.items()}
    return msgspec.structs.replace(of, years=years)


def line_name(line: str) -> str:
    """Return what a line is called when several companies are meant."""
    return {
        "revenue": "revenue",
        "gross": "gross profit",
        "ebit": "operating income",
        "net": "net income",
        "rnd": "research and development expense",
        "sga": "selling, general and administrative expense",
    }[line]


def restated(rng: random.Random, of: Company, year: int) -> Amounts:
    """Return a year's income statement with revenue that was recognised too early taken out."""
    now = dict(of.years[year])
    less = round(now["revenue"] * rng.uniform(0.02, 0.06))
    relief = round(less * 0.25)
    for line in ("revenue", "gross", "ebit", "pretax"):
        now[line] -= less
    now["tax"] -= relief
    now["net"] -= less - relief
    return now


def id_of(of: Company, kind: str, year: int) -> str:
    """Return the id of a filing."""
    name = re.sub(r"[^a-z]+", "-", of.name.lower()).strip("-")
    return f"{name}-{kind.lower().replace('/', '')}-fy{year}"


def archive(rng: random.Random, filers: list[Company], last: int, amended: Amounts | None) -> dict[str, dict[str, str]]:
    """Return filings by id: annual reports, an amendment, and others whose figures look like theirs."""
    documents: dict[str, dict[str, str]] = {}
    title = "Consolidated income statement"
    for of in filers:
        for year in range(last - 2, last + 1):
            shown_years = statement(of, title, [year, year - 1], style="markdown")
            text = f"{shown_years}\nAudited. Amounts in {of.currency} {of.scale}."
            add(documents, of, "10-K", year, f"annual report FY{year}", text)
        near = {line: round(of.years[last][line] * rng.uniform(0.96, 1.04)) for line in LINES}
        lines = "; ".join(f"{of.labels[line]} {shown(amount)}" for line, amount in near.items())
        add(
            documents, of, "8-K", last, f"preliminary results FY{last}, unaudited", f"Preliminary, {of.scale}: {lines}."
        )
        part = "; ".join(f"{of.labels[line]} {shown(round(of.years[last][line] * 0.74))}" for line in LINES)
        add(documents, of, "10-Q", last, f"nine months of FY{last}", f"Nine months, {of.scale}: {part}.")
    if amended is not None:
        of = filers[0]
        text = statement(msgspec.structs.replace(of, years={last - 1: amended}), title, [last - 1])
        told = f"This amendment restates the annual report FY{last - 1}: revenue had been recognised too early.\n{text}"
        add(documents, of, "10-K/A", last - 1, f"amended annual report FY{last - 1}", told)
    return documents


def add(documents: dict[str, dict[str, str]], of: Company, kind: str, year: int, about: str, text: str) -> None:  # noqa: PLR0917
    """Put a filing into the archive."""
    title = f"{of.name}: {kind}, {about}"
    documents[id_of(of, kind, year)] = {"title": title, "text": f"{title}\n\n{text}"}
