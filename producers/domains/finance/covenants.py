"""Financial covenants: what an agreement says of a company's figures on a test date."""

import random

import msgspec

from producers.domains.catalogue import domain
from producers.domains.entities import CITIES, company, table
from producers.domains.interface import Item
from producers.domains.verdicts import in_tags, shape, tagged_number, tagged_set, tagged_word, verdict

QUARTERS = ("31 March", "30 June", "30 September", "31 December")
LETTERS = "abcd"
OPENERS = ("", "You prepare the compliance certificate. ", "The lender's agent wants to know where things stand. ")


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What an agreement says."""

    clause: str
    steps: tuple[float, float, float]
    """Most leverage in the first year, the second and later."""
    cover: float
    liquidity: int
    capex: int
    add_back_cap: int
    """Per cent of EBITDA before add-backs; 0 where nothing may be added back."""
    cash_cap: int
    """Most cash that counts; 0 where all does."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a company reports; flows by quarter, the oldest first."""

    operating: tuple[int, ...]
    depreciation: tuple[int, ...]
    one_off: tuple[int, ...]
    interest: tuple[int, ...]
    capex: tuple[int, ...]
    term: int
    drawn: int
    undrawn: int
    leases: int
    cash: int


def ebitda(terms: Terms, figures: Figures, num: int = 4) -> float:
    """Return EBITDA of the last quarters as the agreement defines it."""
    base = sum(figures.operating[-num:]) + sum(figures.depreciation[-num:])
    return base + min(sum(figures.one_off[-num:]), base * terms.add_back_cap / 100)


def net_debt(terms: Terms, figures: Figures) -> int:
    """Return net debt as the agreement defines it: no leases, and only so much cash."""
    counted = min(figures.cash, terms.cash_cap) if terms.cash_cap else figures.cash
    return figures.term + figures.drawn - counted


def breached(terms: Terms, figures: Figures, limit: float) -> list[str]:
    """Return the letters of the covenants that are not kept."""
    profit = ebitda(terms, figures)
    kept = (
        net_debt(terms, figures) <= limit * profit,
        profit >= terms.cover * sum(figures.interest[-4:]),
        figures.cash + figures.undrawn >= terms.liquidity,
        sum(figures.capex[-4:]) <= terms.capex,
    )
    return [letter for letter, is_kept in zip(LETTERS, kept, strict=True) if not is_kept]


@domain(family="finance", levels=4, max_tokens=1200)
def finance_covenant(rng: random.Random, level: int) -> Item:
    """Say whether covenants are kept, which are not, and how much room is left."""
    year, place = rng.randint(2023, 2026), rng.randrange(3) if level else 2
    figures = draw_figures(rng)
    terms = draw_terms(rng, figures, level)
    limit = terms.steps[place]
    profit, debt = ebitda(terms, figures), net_debt(terms, figures)
    ratio, room = debt / profit, limit * profit - debt
    failed = breached(terms, figures, limit)
    if abs(room) < 0.02 * debt or (level < 3 and failed not in ([], ["a"])):
        return finance_covenant(rng, level)
    agreed = year - place
    borrower, bank = company(rng), f"{rng.choice(CITIES)} Bank plc"
    asked, gold = question(level, terms, failed, ratio, room)
    prompt = (
        f"{agreement(terms, borrower, bank, agreed, level)}\n\n{accounts(figures, borrower, year)}\n\n"
        f"{rng.choice(OPENERS)}Test Date: 31 December {year}. {asked}"
    )
    status = gold["status"]
    parts = [tagged_word("status", status, gate=True), tagged_number("ratio", ratio, 0.35, absolute=0.0101)]
    parts.append(tagged_number("headroom", room, 0.35, absolute=max(1.0, 0.006 * profit)))
    # Which clause it is takes no figures where only one is asked about, and none where the status says it already.
    says_little = level < 3 or gold["clauses"] == "none"
    parts.append(tagged_set("clauses", gold["clauses"].split(", "), 0.1 if says_little else 0.3))
    turned = {"status": "compliant" if status == "breached" else "breached"}
    return Item(
        prompt=prompt,
        gold=(f"By the definitions in the agreement:\n{in_tags(**gold)}",),
        verifier=verdict(*parts),
        partials=((in_tags(**(gold | {"headroom": "0"})),),),
        wrongs=((in_tags(**(gold | turned)),), (in_tags(status=status, ratio=limit, headroom=0, clauses="1.1"),)),
        difficulty=4 + 6 * level,
    )


def question(level: int, terms: Terms, failed: list[str], ratio: float, room: float) -> tuple[str, dict[str, str]]:
    """Return what is asked, and what is right to say."""
    named = [f"{terms.clause}({letter})" for letter in failed]
    if level < 3:
        asked = (
            "Is the leverage covenant kept? Give leverage as defined, the headroom (how much more Net Debt the "
            "covenant would have allowed at that EBITDA; negative where it is breached), and the clause that sets the "
            "covenant."
        )
        clauses = f"{terms.clause}(a)"
        what = "clause number, as 12.3(b)"
    else:
        asked = (
            "Are all financial covenants kept? Name the clauses that are breached, or `none`; and give leverage as "
            "defined and its headroom (how much more Net Debt the leverage covenant would have allowed at that EBITDA; "
            "negative where it is breached)."
        )
        clauses, what = ", ".join(named) or "none", "clauses as 12.3(b), with commas between, or none"
    form = shape(
        status="breached or compliant", ratio="leverage, two decimals", headroom="thousands, rounded", clauses=what
    )
    status = "breached" if failed else "compliant"
    gold = {"status": status, "ratio": f"{ratio:.2f}", "headroom": f"{room:.0f}", "clauses": clauses}
    return f"{asked}\n{form}", gold


def draw_figures(rng: random.Random) -> Figures:
    """Draw six quarters of a company, in thousands."""
    size = rng.randint(2_000, 20_000)

    def flow(low: float, high: float) -> tuple[int, ...]:
        return tuple(round(size * rng.uniform(low, high)) for _ in range(6))

    return Figures(
        operating=flow(0.5, 1.1),
        depreciation=flow(0.15, 0.3),
        one_off=tuple(rng.choice((0, round(size * rng.uniform(0.1, 0.8)))) for _ in range(6)),
        interest=flow(0.12, 0.28),
        capex=flow(0.1, 0.4),
        term=round(size * rng.uniform(9, 15)),
        drawn=round(size * rng.uniform(0.5, 3)),
        undrawn=round(size * rng.uniform(0.2, 2)),
        leases=round(size * rng.uniform(0.5, 2)),
        cash=round(size * rng.uniform(0.8, 3.5)),
    )


def draw_terms(rng: random.Random, figures: Figures, level: int) -> Terms:
    """Draw an agreement that the figures keep about as often as they do not."""
    loose = Terms(clause="", steps=(9, 9, 9), cover=0, liquidity=0, capex=0, add_back_cap=25, cash_cap=0)
    near = net_debt(loose, figures) / ebitda(loose, figures)
    last = round((near + rng.uniform(-0.5, 0.7)) * 4) / 4
    profit = ebitda(loose, figures)
    slack = (0.85, 1.1) if level == 3 else (0.5, 0.8)
    return Terms(
        clause=f"{rng.randint(17, 26)}.{rng.randint(2, 4)}",
        steps=(last + 0.75, last + 0.25 + 0.25 * rng.randint(0, 1), last),
        cover=round(4 * profit / sum(figures.interest[-4:]) * rng.uniform(*slack)) / 4,
        liquidity=round((figures.cash + figures.undrawn) * rng.uniform(*slack) / 100) * 100,
        capex=round(sum(figures.capex[-4:]) / rng.uniform(*slack) / 100) * 100,
        add_back_cap=rng.choice((10, 15, 20)) if level >= 2 else 0,
        cash_cap=round(figures.cash * rng.uniform(0.5, 1.2) / 500) * 500 + 500 if level >= 2 else 0,
    )


def agreement(terms: Terms, borrower: str, bank: str, agreed: int, level: int) -> str:
    """Return what of the agreement matters, and some that does not."""
    first, second, later = (f"{step:.2f}:1" for step in terms.steps)
    leverage = (
        f"{first} for Test Dates in {agreed}, {second} in {agreed + 1} and {later} from {agreed + 2} on"
        if level
        else later
    )
    add_back = (
        f", plus Exceptional Items, but not more than {terms.add_back_cap}% of EBITDA before they are added"
        if terms.add_back_cap
        else "; Exceptional Items are not added back"
    )
    cash = f", of which not more than {terms.cash_cap:,} thousand counts" if terms.cash_cap else ""
    head, tail = terms.clause.split(".")
    return (
        f"FACILITY AGREEMENT between {borrower} (the Borrower) and {bank} (the Lender), {agreed}, extracts\n1.1 "
        f"Definitions. EBITDA: operating profit of the Relevant Period plus depreciation and amortisation{add_back}. "
        f"Net Debt: all amounts drawn under the Term Loan and the Revolving Facility, less Cash{cash}; lease "
        "liabilities are not debt. Relevant Period: the twelve months that end on a Test Date. Test Date: 30 June and "
        f"31 December. Liquidity: Cash plus the undrawn part of the Revolving Facility.\n{head}.{int(tail) - 1} "
        "Information. The Borrower delivers accounts within 120 days of its year end and a compliance certificate "
        f"with each set of accounts.\n{terms.clause} Financial covenants. On each Test Date: (a) Net Debt to EBITDA is "
        f"not more than {leverage}; (b) EBITDA is at least {terms.cover:.2f} times interest paid in the Relevant "
        f"Period; (c) Liquidity is at least {terms.liquidity:,} thousand; (d) capital expenditure in the Relevant "
        f"Period is not more than {terms.capex:,} thousand.\n{head}.{int(tail) + 1} Negative pledge. The Borrower "
        "creates no security over its assets."
    )


def accounts(figures: Figures, borrower: str, year: int) -> str:
    """Return what the company reports, six quarters of it."""
    ends = [f"{QUARTERS[(place + 2) % 4]} {year - (place < 2)}" for place in range(6)]
    rows = [
        [name, *(f"{amount:,}" for amount in amounts)]
        for name, amounts in (
            ("Operating profit", figures.operating),
            ("Depreciation and amortisation", figures.depreciation),
            ("Exceptional items (charged in operating profit)", figures.one_off),
            ("Interest paid", figures.interest),
            ("Capital expenditure", figures.capex),
        )
    ]
    balances = (
        f"At 31 December {year}: Term Loan {figures.term:,}; Revolving Facility drawn {figures.drawn:,}, undrawn "
        f"{figures.undrawn:,}; lease liabilities {figures.leases:,}; cash {figures.cash:,}."
    )
    return f"{borrower}, quarters ended (thousands)\n{table(['', *ends], rows)}\n{balances}"
