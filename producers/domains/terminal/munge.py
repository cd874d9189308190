"""A messy table to be made into a clean one."""

import csv
import io
import random
from typing import Any

import msgspec

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.terminal.verdicts import asked, bash, heredoc, machine, untouched
from schemas.parts import Part
from schemas.tasks import VerifierSpec

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
PEOPLE = ("Anna Berg", "Tom O'Hara", "Li Wei", "Mia Stone", "Jo King", "Ravi Nair", "Eva Lund", "Max Hall", "Ida Roy")
REGIONS = ("north", "south", "east", "west")
SEPARATORS = (";", "|", "\t")


class Sale(msgspec.Struct, frozen=True):
    """One row."""

    number: int
    day: tuple[int, int, int]
    name: str
    region: str
    cents: int
    state: str


@domain(family="terminal", levels=4, max_tokens=1024)
def terminal_text_munge(rng: random.Random, level: int) -> Item:
    """Make a clean CSV of a messy export."""
    num = 8 + 4 * level
    sales = draw_sales(rng, num)
    separator = rng.choice(SEPARATORS)
    steps, rows = clean(rng, sales, level)
    source, target = f"in/export_{rng.randint(10, 99)}.txt", f"out_{rng.choice(('sales', 'report', 'clean'))}.csv"
    text = messy(rng, sales, separator, level)
    execution = machine({source: text})
    told = "\n".join(f"- {step}" for step in steps)
    question = (
        f"{source} is an export whose fields are separated by {separator!r}: number, day, customer, region, amount in "
        f"euros, state. Make {target} of it, a CSV with commas and a header:\n{told}\nDo not change {source}. Answer "
        "with a short note once it is there."
    )
    table = written(rows)
    options = {"ordered": True, "written": "csv", "absolute": 0.001}
    return Item(
        prompt=asked(rng, question, execution),
        gold=(bash(f"cat -A {source} | head"), bash(heredoc(target, table)), f"{target} is written."),
        verifier=VerifierSpec(
            kind="parts",
            parts=(
                untouched(source, text),
                Part(kind="table", of=f"file:{target}", expected=rows, options=options),
            ),
        ),
        execution=execution,
        max_turns=6 + level,
        partials=((bash(heredoc(target, written(rows[: len(rows) // 2]))), "Done."),),
        wrongs=((bash(f"cp {source} {target}"), "Done."), (bash(f"head -n 1 {source}"), "Done.")),
        difficulty=len(steps) + level,
    )


def draw_sales(rng: random.Random, num: int) -> list[Sale]:
    """Return rows with numbers that rise."""
    numbers = sorted(rng.sample(range(1000, 9999), num))
    return [
        Sale(
            number,
            (rng.choice((2025, 2026)), rng.randint(1, 12), rng.randint(1, 28)),
            rng.choice(PEOPLE),
            rng.choice(REGIONS),
            rng.randint(100, 99_999),
            rng.choice(("ok", "ok", "ok", "void", "test")),
        )
        for number in numbers
    ]


def messy(rng: random.Random, sales: list[Sale], separator: str, level: int) -> str:
    """Return the export: spaces, mixed case, comments, blank lines and repeated rows."""
    lines = [f"# exported by tool v{rng.randint(2, 9)}", ""] if level > 0 else []
    for sale in rng.sample(sales, len(sales)):
        year, month, day = sale.day
        name = rng.choice((sale.name, sale.name.upper(), f" {sale.name} ")) if level > 0 else sale.name
        cells = [
            str(sale.number),
            f"{day} {MONTHS[month - 1]} {year}",
            name,
            sale.region if level < 2 else rng.choice((sale.region, sale.region.title())),
            f"{sale.cents // 100},{sale.cents % 100:02d}",
            sale.state,
        ]
        lines += [separator.join(cells)] * (2 if level > 1 and rng.random() < 0.2 else 1)
    return "\n".join(lines) + "\n"


def clean(rng: random.Random, sales: list[Sale], level: int) -> tuple[list[str], list[dict[str, Any]]]:
    """Return what is asked for, and the rows that it leads to."""
    steps = [
        "columns: id, date, customer, region, amount",
        "date as YYYY-MM-DD, amount with a decimal point (12.50)",
    ]
    kept = sales
    if level > 0:
        steps.append("leave out comments and blank lines; customer and region in small letters, without outer spaces")
    else:
        steps.append("customer and region in small letters")
    if level > 1:
        steps.append("a row that is there twice comes once")
    if rng.random() < 0.5:
        state = rng.choice(("void", "test"))
        steps.append(f"without rows of state {state}")
        kept = [sale for sale in kept if sale.state != state]
    else:
        year = rng.choice((2025, 2026))
        steps.append(f"only days of {year}")
        kept = [sale for sale in kept if sale.day[0] == year] or kept[:0]
    if level > 2:
        least = rng.randint(10, 200)
        steps.append(f"only amounts of at least {least} euros")
        kept = [sale for sale in kept if sale.cents >= least * 100]
    by, key = rng.choice(ORDERS[: 2 + level])
    steps.append(f"sorted by {by}")
    kept = sorted(kept, key=key)
    rows = [row_of(sale) for sale in kept]
    return (steps, rows) if len(rows) > 2 else clean(rng, sales, level)


ORDERS: tuple[tuple[str, Any], ...] = (
    ("id", lambda sale: sale.number),
    ("amount from high to low, then id", lambda sale: (-sale.cents, sale.number)),
    ("date, then id", lambda sale: (sale.day, sale.number)),
    ("customer, then id", lambda sale: (sale.name.lower(), sale.number)),
    ("region, then amount from high to low, then id", lambda sale: (sale.region, -sale.cents, sale.number)),
)


def row_of(sale: Sale) -> dict[str, Any]:
    """Return a row as it is wanted."""
    year, month, day = sale.day
    return {
        "id": sale.number,
        "date": f"{year}-{month:02d}-{day:02d}",
        "customer": sale.name.lower(),
        "region": sale.region,
        "amount": sale.cents / 100,
    }


def written(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(row | {"amount": f"{row['amount']:.2f}"} for row in rows)
    return out.getvalue()
