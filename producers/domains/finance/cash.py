"""A cash flow statement that does not explain the change in cash: by how much, and which lines are wrong."""

import random

import msgspec

from producers.domains.catalogue import domain
from producers.domains.finance.statements import CASH_FLOW, Company, draw_company, report, shown, statement
from producers.domains.interface import Item
from producers.domains.verdicts import in_tags, shape, tagged_number, tagged_set, verdict

CHECKED = ("da", "d_receivables", "d_inventory", "d_payables", "d_debt", "net")
"""Lines that the other statements tell too."""
ASKED = (
    "The draft cash flow statement of {name} for FY{year} does not tie out to the balance sheet.",
    "You review the FY{year} draft accounts of {name}. The cash flow statement and the change in cash disagree.",
    "Before sign-off, the FY{year} cash flow statement of {name} has to be reconciled. It fails to.",
)


@domain(family="finance", levels=4, max_tokens=1000)
def finance_cashflow_tieout(rng: random.Random, level: int) -> Item:
    """Find what is wrong with a cash flow statement that does not tie out to the balance sheet."""
    of = draw_company(rng, num_years=2)
    year = max(of.years)
    right = of.years[year]
    lines = rng.sample(CHECKED, 1 + (level >= 2) + (level >= 3))
    wrong = {line: spoilt(rng, right[line], level) for line in lines}
    gap = right["d_cash"] - sum_of(right | wrong)
    if gap == 0 or min(abs(right[line] - amount) for line, amount in wrong.items()) < 9:
        return finance_cashflow_tieout(rng, level)
    names = [of.labels[line] for line in lines]
    prompt = (
        f"{report(of, sorted(of.years, reverse=True), ('Consolidated income statement', 'Consolidated balance sheet'))}"
        f"\n\n{draft(of, year, wrong, level)}\n\n{rng.choice(ASKED).format(name=of.name, year=year)} Both other "
        "statements are right, and so are share-based compensation, capital expenditure and dividends. Which lines of "
        "the cash flow statement are wrong (totals that follow from them aside), and how much cash does it leave "
        "unexplained (the change in cash by the balance sheet less the sum of the lines as drafted)? For the first "
        "wrong "
        f"line from the top, what should it be?\n{form(len(lines))}"
    )
    first = min(lines, key=CASH_FLOW.index)
    gold = in_tags(lines="; ".join(names), unexplained=gap, corrected=right[first])
    written = "\n".join(names)
    return Item(
        prompt=prompt,
        gold=(in_tags(lines=f"\n{written}\n", unexplained=f"{gap:,}", corrected=f"{right[first]:,}"),),
        verifier=verdict(
            tagged_set("lines", names, 0.3, written="lines"),
            tagged_number("unexplained", gap, 0.35, absolute=0.5),
            tagged_number("corrected", right[first], 0.35, absolute=0.5),
        ),
        partials=((in_tags(lines=written, unexplained=gap + 7, corrected=wrong[first]),),),
        wrongs=(
            (in_tags(lines=of.labels["sbc"], unexplained=0, corrected=wrong[first]),),
            (gold.replace("<", "[").replace(">", "]"),),
        ),
        difficulty=10 * len(lines) + level,
    )


def form(num: int) -> str:
    """Return how the answer is to be written."""
    lines = "the wrong line, named as in the statement" if num == 1 else "the wrong lines, named as there, one a line"
    return shape(lines=lines, unexplained="amount, negative if too much is explained", corrected="amount with its sign")


def spoilt(rng: random.Random, amount: int, level: int) -> int:
    """Return an amount as somebody got it wrong: two digits swapped, a sign turned, one digit off."""
    digits = str(abs(amount))
    places = [place for place in range(len(digits) - 1) if digits[place] != digits[place + 1]]
    if level and rng.random() < 0.4:
        return -amount
    if places and rng.random() < 0.6:
        place = rng.choice(places)
        swapped = digits[:place] + digits[place + 1] + digits[place] + digits[place + 2 :]
        return int(swapped) * (-1 if amount < 0 else 1)
    return amount + rng.choice((-1, 1)) * rng.choice((90, 100, 270, 900))


def sum_of(now: dict[str, int]) -> int:
    """Return the change in cash that the lines of a cash flow statement add up to."""
    taken = ("net", "da", "sbc", "d_receivables", "d_inventory", "d_payables", "d_debt")
    return sum(now[line] for line in taken) - now["capex"] - now["dividends"]


def draft(of: Company, year: int, wrong: dict[str, int], level: int) -> str:
    """Return the statement with its mistakes; on low levels its totals follow from its lines, on others they do not."""
    now = of.years[year] | wrong
    if level < 2:
        now["cfo"] = sum(now[line] for line in ("net", "da", "sbc", "d_receivables", "d_inventory", "d_payables"))
        now["cff"] = now["d_debt"] - now["dividends"]
        now["d_cash"] = now["cfo"] + now["cfi"] + now["cff"]
    drafted = msgspec.structs.replace(of, years={year: now})
    text = statement(drafted, "Consolidated statement of cash flows", [year])
    return (
        text.replace(": Consolidated", ": Draft consolidated")
        + f"\n(Cash at year end: {shown(of.years[year]['cash'])})"
    )
