"""A ratio from a company's statements."""

import random

from producers.domains.catalogue import domain
from producers.domains.finance.measures import ACROSS, AVERAGED, EASY, HOW, TOUCHED, Measure
from producers.domains.finance.statements import Amounts, Company, draw_company, report
from producers.domains.interface import Item
from producers.domains.verdicts import last_number, verdict

ASKED = (
    "What was {name}'s {measure} for FY{year}?",
    "You cover {name} as a credit analyst. Work out its {measure} for fiscal year {year}.",
    "For the peer table we need the FY{year} {measure} of {name}.",
    "An investor asks for the {measure} of {name} in FY{year}.",
)
CHARGES = ("restructuring costs", "a litigation settlement", "costs of an abandoned IPO", "a plant closure charge")


@domain(family="finance", levels=4, max_tokens=600)
def finance_ratio(rng: random.Random, level: int) -> Item:
    """Work out a ratio from statements of several years."""
    of = draw_company(rng, num_years=2 + (level >= 2) + (level >= 3))
    measure = rng.choice((EASY, ACROSS, AVERAGED, TOUCHED)[level])
    year = max(of.years) - rng.randint(0, len(of.years) - 2)
    note, years = adjusted(rng, of, year) if level == 3 else ("", of.years)
    expected = measure.of(years, year)
    asked = rng.choice(ASKED).format(name=of.name, measure=measure.name, year=year)
    shown = sorted(of.years, reverse=rng.random() < 0.7)
    prompt = (
        f"{report(of, shown)}\n\n{note}{asked} It is defined as {measure.words}. "
        f"Work it out step by step, then give the {measure.name} {HOW[measure.unit]} alone on the last line."
    )
    others = [measure.of(of.years, other) for other in of.years if other - 1 in of.years and other != year]
    others += [measure.of(of.years, year)] if note else []
    return Item(
        prompt=prompt,
        gold=(f"{measure.name} for FY{year}, by that definition:\n{said(measure, expected)}",),
        verifier=verdict(last_number(expected, unit="%" if measure.unit == "%" else "", absolute=near(measure))),
        wrongs=tuple((said(measure, other),) for other in others if abs(other - expected) > 3 * near(measure)),
        difficulty=10 * level + measure.num_amounts,
    )


def near(measure: Measure) -> float:
    """Return how far from the ratio is right: what rounding allows."""
    return 0.06 if measure.unit == "days" else 0.011


def said(measure: Measure, value: float) -> str:
    """Return a ratio as it is asked for."""
    return f"{value:.1f}" if measure.unit == "days" else f"{value:.2f}{'%' if measure.unit == '%' else ''}"


def adjusted(rng: random.Random, of: Company, year: int) -> tuple[str, dict[int, Amounts]]:
    """Return a note on a charge that is to be left out and restores tax, and the statements without it."""
    now = of.years[year]
    charge, rate = max(20, round(now["ebit"] * rng.uniform(0.06, 0.2))), rng.choice((20, 25))
    relief = round(charge * rate / 100)
    without = now | {
        "sga": now["sga"] - charge,
        "ebit": now["ebit"] + charge,
        "pretax": now["pretax"] + charge,
        "tax": now["tax"] + relief,
        "net": now["net"] + charge - relief,
    }
    why = rng.choice(CHARGES)
    note = (
        f"Note: in FY{year} {of.labels['sga'].lower().replace('sg&a', 'SG&A')} include {why} of {charge:,} "
        f"({of.currency} {of.scale}), on which tax relief of {relief:,} was booked. Use figures adjusted for it: "
        "add the charge back before tax and take the relief out of tax; leave balance sheet and cash flow as they "
        "are.\n\n"
    )
    return note, of.years | {year: without}
