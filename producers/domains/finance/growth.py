"""Growth: from year to year, compound, organic, and like for like by segment in constant currency."""

import random
from collections.abc import Callable

from producers.domains.catalogue import domain
from producers.domains.entities import company, table
from producers.domains.finance.statements import Amounts, draw_company, report, statement
from producers.domains.interface import Item
from producers.domains.verdicts import last_number, verdict

Question = tuple[str, str, float, list[float], int]
"""What is shown, what is asked, the growth in per cent, other numbers that are wrong, amounts to be found."""
LINES = ("revenue", "gross", "ebit", "net", "rnd", "sga", "cogs")
SEGMENTS = ("Europe", "North America", "Latin America", "Asia-Pacific", "Middle East", "Africa", "Nordics", "Iberia")
AMOUNTS: tuple[tuple[str, Callable[[Amounts], int]], ...] = (
    (
        "EBITDA (operating income plus depreciation and amortisation)",
        lambda now: now["ebit"] + now["da"],
    ),
    (
        "total operating costs (everything between revenue and operating income)",
        lambda now: now["revenue"] - now["ebit"],
    ),
    ("gross profit less research and development", lambda now: now["gross"] - now["rnd"]),
    ("total borrowings, short-term and long-term", lambda now: now["short_debt"] + now["long_debt"]),
    (
        "trade working capital (receivables plus inventories less payables)",
        lambda now: now["receivables"] + now["inventory"] - now["payables"],
    ),
)
"""Amounts that are made of several."""
FORM = " Show your working; the last line must hold only the {what}, as a percentage with two decimals."


def yearly(rng: random.Random) -> Question:
    """Ask for growth of a line from one year to the next."""
    of = draw_company(rng, num_years=3)
    line, year = rng.choice(LINES), max(of.years) - rng.randint(0, 1)
    now, before = of.years[year][line], of.years[year - 1][line]
    if before <= 0:
        return yearly(rng)
    asked = f"By how much did {of.labels[line].lower()} of {of.name} change from FY{year - 1} to FY{year}?"
    others = [100 * (now / of.years[other][line] - 1) for other in of.years if other < year - 1]
    order = sorted(of.years, reverse=rng.random() < 0.6)
    shown = statement(of, "Consolidated income statement", order)
    return shown, asked + FORM.format(what="change"), 100 * (now / before - 1), [*others, 100 * (1 - before / now)], 2


def compound(rng: random.Random) -> Question:
    """Ask for a compound annual rate over several years, of an amount that is made of two."""
    of = draw_company(rng, num_years=rng.randint(4, 6))
    first, last = min(of.years), max(of.years) - rng.randint(0, 1)
    what, amount = rng.choice(AMOUNTS)
    begin, end = amount(of.years[first]), amount(of.years[last])
    if begin <= 0 or end <= 0:
        return compound(rng)
    asked = f"What was the compound annual growth rate of {of.name}'s {what} from FY{first} to FY{last}?"
    rate, num = 100 * ((end / begin) ** (1 / (last - first)) - 1), last - first
    others = [100 * (end / begin - 1) / num, 100 * ((end / begin) ** (1 / (num + 1)) - 1)]
    shown = report(of, sorted(of.years, reverse=True), ("Consolidated income statement", "Consolidated balance sheet"))
    return shown, asked + FORM.format(what="rate"), rate, others, 4


def organic(rng: random.Random) -> Question:
    """Ask for growth without what was bought or sold, and without the effect of exchange rates."""
    name, year, currency = company(rng), rng.randint(2021, 2025), rng.choice(("USD", "EUR", "GBP"))
    before = rng.randint(900, 9_000) * 10
    bought, sold = rng.randint(before // 60, before // 10), rng.randint(before // 80, before // 20)
    lost, fx = rng.randint(before // 90, before // 25), rng.choice((-1, 1)) * rng.randint(before // 100, before // 20)
    now = round((before - sold) * rng.uniform(0.95, 1.15)) + bought + fx
    rate = 100 * ((now - bought - fx) / (before - sold) - 1)
    shown = (
        f"{name}, annual results FY{year} ({currency} thousands)\n"
        f"Reported revenue was {now:,} (FY{year - 1}: {before:,}). Businesses acquired after 1 January {year} "
        f"contributed {bought:,}. The distribution arm, sold on 31 December {year - 1}, had contributed {sold:,} in "
        f"FY{year - 1} and nothing since. A large contract worth {lost:,} a year was lost to a competitor during the "
        f"year. Translation at this year's exchange rates {'added' if fx > 0 else 'took away'} {abs(fx):,} "
        f"{'to' if fx > 0 else 'from'} FY{year} revenue compared with last year's rates."
    )
    asked = (
        f"What was {name}'s organic revenue growth in FY{year}, that is, growth without acquisitions and disposals and "
        "at constant exchange rates? Contracts won or lost in the ordinary course count as organic."
    )
    others = [
        100 * (now / before - 1),
        100 * ((now - bought) / before - 1),
        100 * ((now - bought - fx + lost) / (before - sold) - 1),
        100 * ((now - bought - fx) / before - 1),
    ]
    return shown, asked + FORM.format(what="growth rate"), rate, others, 5


def by_segment(rng: random.Random) -> Question:
    """Ask for growth of a group at constant rates, from segments in their own currencies, one of them moved."""
    num, year, name = rng.randint(4, 6), rng.randint(2021, 2025), company(rng)
    names = rng.sample(SEGMENTS, num)
    before = [rng.randint(400, 9_000) for _ in names]
    now = [round(amount * rng.uniform(0.85, 1.3)) for amount in before]
    rates = [
        (rate, round(rate * rng.uniform(0.88, 1.12), 3)) for rate in (round(rng.uniform(0.5, 1.6), 3) for _ in names)
    ]
    one, other = rng.sample(range(num), 2)
    moved = rng.randint(before[one] // 12 + 1, before[one] // 4)
    rows = [
        [segment, f"{a:,}", f"{b:,}", f"{r:.3f}", f"{s:.3f}"]
        for segment, a, b, (r, s) in zip(names, before, now, rates, strict=True)
    ]
    header = ["Segment", f"FY{year - 1} local m", f"FY{year} local m", f"Rate FY{year - 1}", f"Rate FY{year}"]
    left = rng.randrange(num)
    while left == one:
        left = rng.randrange(num)
    kept = [place for place in range(num) if place != left]
    old = sum((before[place] - (moved if place == one else 0)) * rates[place][0] for place in kept)
    taken = 0.0 if left == other else moved * rates[one][0]
    new = sum(now[place] * rates[place][0] for place in kept)
    shown = (
        f"{name}: revenue by segment in local currency (millions) and average exchange rates (group currency per unit "
        f"of local currency)\n{table(header, rows)}\n\nNote: since 1 January {year}, customers that had brought "
        f"{names[one]} {moved:,} million (local currency of {names[one]}) in FY{year - 1} are served and reported by "
        f"{names[other]}. The table shows FY{year - 1} as it was reported then, before the move. {names[left]} was "
        f"classified as a discontinued operation at the end of FY{year}."
    )
    asked = (
        f"What was the like-for-like revenue growth of {name}'s continuing operations in FY{year}, with both years at "
        f"FY{year - 1} exchange rates and FY{year - 1} restated for the move of customers?"
    )
    total = [sum(a * r for a, r in zip(amounts, (r for r, _ in rates), strict=True)) for amounts in (before, now)]
    reported = sum(now[place] * rates[place][1] for place in kept) / (old + taken)
    others = [
        100 * (total[1] / total[0] - 1),
        100 * (reported - 1),
        100 * (new / (old + moved * rates[one][0] * 2) - 1),
    ]
    return shown, asked + FORM.format(what="growth rate"), 100 * (new / (old + taken) - 1), others, 4 * num


LEVELS: tuple[Callable[[random.Random], Question], ...] = (yearly, compound, organic, by_segment)


@domain(family="finance", levels=4, max_tokens=700)
def finance_growth(rng: random.Random, level: int) -> Item:
    """Work out how much something grew, year on year, compound, organic or like for like."""
    shown, asked, rate, others, num_amounts = LEVELS[level](rng)
    return Item(
        prompt=f"{shown}\n\n{asked}",
        gold=(f"The growth works out at\n{rate:.2f}%",),
        verifier=verdict(last_number(rate, unit="%", absolute=0.011)),
        wrongs=tuple((f"{other:.2f}%",) for other in others if abs(other - rate) > 0.05),
        difficulty=10 * level + num_amounts,
    )
