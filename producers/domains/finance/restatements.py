"""Restated comparatives: which lines were corrected, which only moved, and what that did to profit and equity."""

import random

import msgspec

from producers.domains.catalogue import domain
from producers.domains.finance.statements import Amounts, Company, draw_company, report, with_totals
from producers.domains.interface import Item
from producers.domains.verdicts import in_tags, shape, tagged_number, tagged_set, verdict

ERRORS = (
    ("revenue", -1, "receivables", -1, "sales were recognised before the goods had left the warehouse"),
    ("cogs", 1, "inventory", -1, "inventory was counted twice at one site"),
    ("cogs", 1, "payables", 1, "goods received before year end were not accrued for"),
    ("rnd", 1, "ppe", -1, "development costs were capitalised that did not qualify"),
    ("sga", 1, "payables", 1, "a bonus for the year was not accrued for"),
    ("da", 1, "ppe", -1, "a machine was written off over too long a life"),
)  # fmt: skip
"""Line of the income statement and how it changes, the same of the balance sheet, and what went wrong."""
OPENERS = ("", "You are the auditor of the following year. ", "A short seller points at the restated comparatives. ")
MOVES = (("sga", "cogs"), ("rnd", "sga"), ("sga", "rnd"), ("rnd", "cogs"))


@domain(family="finance", levels=4, max_tokens=1000)
def finance_restatement(rng: random.Random, level: int) -> Item:
    """Compare what was reported with what it was restated to, and tell corrections from moves."""
    of = draw_company(rng, num_years=3)
    year = max(of.years) - 1
    before = of.years[year]
    errors = pick_errors(rng, 2 if level >= 2 else 1)
    touched = {error[0] for error in errors}
    moves = [move for move in MOVES if not touched & set(move)] if level >= 1 else []
    if level and not moves:
        return finance_restatement(rng, level)
    move = rng.choice(moves) if moves else None
    amounts = [max(8, round(before["net"] * rng.uniform(0.02, 0.08))) for _ in errors]
    earlier = [round(amount * rng.uniform(0.2, 0.8)) if level >= 2 else 0 for amount in amounts]
    after = corrected(
        before, errors, amounts, earlier, rng.choice((20, 25)), move, rng.randint(40, max(60, before["rnd"] // 2))
    )
    if after["net"] == before["net"] or after["rnd"] <= 0 or before["net"] <= 0:
        return finance_restatement(rng, level)
    lines = [of.labels[line] for error in errors for line in (error[0], error[2]) if line != "payables"]
    net = after["net"] - before["net"]
    gold: dict[str, object] = {
        "corrected": "\n".join(lines),
        "profit": net,
        "equity": after["equity"] - before["equity"],
    }
    parts = [tagged_set("corrected", lines, 0.4, written="lines"), tagged_number("profit", net, 0.3, absolute=0.5)]
    parts.append(tagged_number("equity", after["equity"] - before["equity"], 0.15, absolute=0.5))
    if move is not None:
        moved = [of.labels[line] for line in move]
        gold["moved"] = "\n".join(moved)
        parts.append(tagged_set("moved", moved, 0.15, written="lines"))
    if level == 3:
        per_share = 100 * net / of.shares
        gold["eps"] = f"{per_share:.2f}"
        parts.append(tagged_number("eps", per_share, 0.2, absolute=0.0101))
    empty = {"corrected": of.labels["goodwill"], "profit": 0, "equity": 0, "moved": of.labels["cash"], "eps": 0}
    return Item(
        prompt=asked(rng, of, year, after, errors, level),
        gold=(in_tags(**gold),),
        verifier=verdict(*parts),
        partials=((in_tags(**(gold | {"profit": net + 3})),),),
        wrongs=((in_tags(**{name: empty[name] for name in gold}),), (in_tags(profit=before["net"]),)),
        difficulty=4 * len(lines) + 6 * level,
    )


def pick_errors(rng: random.Random, num: int) -> list[tuple[str, int, str, int, str]]:
    """Draw errors that touch different lines."""
    while True:
        drawn = rng.sample(ERRORS, num)
        lines = [line for error in drawn for line in (error[0], error[2])]
        if len(set(lines)) == len(lines):
            return drawn


def corrected(  # noqa: PLR0917  read in this order
    before: Amounts,
    errors: list[tuple[str, int, str, int, str]],
    amounts: list[int],
    earlier: list[int],
    rate: int,
    move: tuple[str, str] | None,
    moved: int,
) -> Amounts:
    """Return a year's amounts put right, tax with them, and an amount moved from one line to another.

    `earlier` is by how much the same errors had made the profits of years before too high: it is in balances alone.
    """
    now, charge = dict(before), sum(amounts)
    for (line, sign, balance, change, _), amount, old in zip(errors, amounts, earlier, strict=True):
        now[line] += sign * amount
        now[balance] += change * (amount + old)
    relief = max(1, round(charge * rate / 100))
    if move is not None:
        now[move[0]] -= moved
        now[move[1]] += moved
    now["gross"] = now["revenue"] - now["cogs"]
    now["ebit"] = now["gross"] - now["sga"] - now["rnd"] - now["da"]
    now["pretax"] = now["ebit"] - now["interest"]
    now["tax"] -= relief
    now["net"] = now["pretax"] - now["tax"]
    relief_before = round(sum(earlier) * rate / 100)
    now["equity"] += now["net"] - before["net"] - sum(earlier) + relief_before
    now["payables"] -= relief + relief_before
    return with_totals(now)


def asked(  # noqa: PLR0917  as above
    rng: random.Random, of: Company, year: int, after: Amounts, errors: list[tuple[str, int, str, int, str]], level: int
) -> str:
    """Return both reports and what is asked of them."""
    titles = ("Consolidated income statement", "Consolidated balance sheet")
    old = report(
        msgspec.structs.replace(of, years={y: of.years[y] for y in (year - 1, year)}), [year, year - 1], titles
    )
    new_years = {year: after, year + 1: of.years[year + 1]}
    new = report(msgspec.structs.replace(of, years=new_years), [year + 1, year], titles)
    why = "".join(f"It was found that {error[4]}. " for error in errors) if level < 2 else ""
    form = {"corrected": "lines, one a line, named as in the statements", "profit": "effect on net income",
            "equity": "effect on equity"}  # fmt: skip
    if level:
        form["moved"] = "lines that were only reclassified, one a line"
    if level == 3:
        form["eps"] = "effect on earnings per share in cents, two decimals"
    return (
        f"ANNUAL REPORT FY{year}, as published\n{old}\n\nANNUAL REPORT FY{year + 1}, with comparatives "
        f"restated\n{new}\n\n{why}{rng.choice(OPENERS)}Compare FY{year} as first published with FY{year} as restated a "
        "year later. Which lines that are not totals or results (gross profit, operating, pre-tax and net income, "
        "equity) were corrected, in either statement? Leave tax and payables aside, which change along with the "
        "others. By how much did net income and equity change, equity by what was wrong in earlier years too?"
        + (" Lines between which costs only moved, without effect on profit, are to be named apart." if level else "")
        + (f" There were {of.shares:,} {of.scale[:-1]} shares outstanding." if level == 3 else "")
        + f"\n{shape(**form)}"
    )
