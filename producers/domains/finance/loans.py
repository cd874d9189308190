"""Loans and projects: payments, balances, present values and rates."""

import math
import random
from collections.abc import Callable
from itertools import pairwise

from producers.domains.catalogue import domain
from producers.domains.entities import company
from producers.domains.interface import Item
from producers.domains.verdicts import Unit, last_number, verdict

Question = tuple[str, float, Unit, list[float], int]
"""What is asked, the number and its unit, numbers that are wrong, steps."""
USES = ("a warehouse", "a delivery fleet", "a packaging line", "a solar roof", "a data hall", "a cold store")


def payment(principal: float, rate: float, num: int) -> float:
    """Return what pays a loan off in `num` equal payments at `rate` a period."""
    return principal * rate / (1 - math.pow(1 + rate, -num))


def balance(principal: float, rate: float, paid: float, num: int) -> float:
    """Return what is owed after `num` payments."""
    return principal * (1 + rate) ** num - paid * ((1 + rate) ** num - 1) / rate


def present(flows: list[float], rate: float) -> float:
    """Return the present value of flows at the ends of periods from 0 on."""
    return sum(flow / math.pow(1 + rate, time) for time, flow in enumerate(flows))


def rate_of(flows: list[float]) -> float:
    """Return the rate at which flows with one change of sign are worth nothing, by bisection."""
    low, high = -0.9, 10.0
    sign = 1 if present(flows, low) > 0 else -1
    for _ in range(200):
        middle = (low + high) / 2
        if sign * present(flows, middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def monthly(rng: random.Random) -> Question:
    """Ask for the payment of a loan, or all interest."""
    principal, percent, years = rng.randint(80, 2400) * 500, rng.randint(200, 950) / 100, rng.randint(3, 25)
    paid, num = payment(principal, percent / 1200, 12 * years), 12 * years
    terms = (
        f"{company(rng)} borrows {principal:,} for {rng.choice(USES)} at a nominal {percent:.2f}% a year, compounded "
        f"monthly, repaid in {num} equal monthly payments at the end of each month."
    )
    if rng.random() < 0.5:
        yearly = payment(principal, percent / 100, years) / 12
        return f"{terms} What is the monthly payment?", paid, "", [principal / num, yearly], 2
    flat = principal * percent / 100 * years
    return f"{terms} How much interest is paid over the whole life of the loan?", paid * num - principal, "", [flat], 3


def project(rng: random.Random) -> Question:
    """Ask for a project's present value or rate of return."""
    cost, percent, num = rng.randint(200, 4000) * 100, rng.randint(500, 1400) / 100, rng.randint(4, 7)
    flows = [round(cost * rng.uniform(0.12, 0.5) / 100) * 100 for _ in range(num)]
    scrap = round(cost * rng.uniform(0.05, 0.2) / 100) * 100
    text = (
        f"{company(rng)} can build {rng.choice(USES)} for {cost:,} today. It would bring in, at the ends of years 1 to "
        f"{num}: {', '.join(f'{flow:,}' for flow in flows)}. At the end of year {num} it can also be sold for "
        f"{scrap:,}. "
    )
    all_flows = [-float(cost), *map(float, flows[:-1]), float(flows[-1] + scrap)]
    if rng.random() < 0.6:
        value = present(all_flows, percent / 100)
        others = [sum(all_flows), value + cost, value - scrap / (1 + percent / 100) ** num]
        return (
            f"{text}What is the net present value at a cost of capital of {percent:.2f}% a year?",
            value,
            "",
            others,
            8,
        )
    rate = 100 * rate_of(all_flows)
    others = [100 * sum(all_flows) / cost, 100 * rate_of([*all_flows[:-1], all_flows[-1] - scrap])]
    return f"{text}What is its internal rate of return a year?", rate, "%", others, 9


def prepaid(rng: random.Random) -> Question:
    """Ask for what is owed after payments and a prepayment."""
    principal, percent, years = rng.randint(80, 2400) * 500, rng.randint(200, 950) / 100, rng.randint(8, 25)
    rate, num = percent / 1200, 12 * years
    at, later = rng.randint(12, 40), rng.randint(6, 40)
    extra = round(principal * rng.uniform(0.05, 0.2) / 100) * 100
    paid = payment(principal, rate, num)
    owed = balance(principal, rate, paid, at) - extra
    text = (
        f"A loan of {principal:,} runs at a nominal {percent:.2f}% a year, compounded monthly, with {num} equal "
        f"monthly payments. Right after payment {at} the borrower, {company(rng)}, also repays {extra:,}. "
    )
    if rng.random() < 0.5:
        text += "The monthly payment stays as it was, so that the loan ends sooner. "
        left = balance(owed, rate, paid, later)
    else:
        text += "The monthly payment is then set anew so that the loan still ends at the date first agreed. "
        left = balance(owed, rate, payment(owed, rate, num - at), later)
    if left < principal / 50:
        return prepaid(rng)
    others = [balance(principal, rate, paid, at + later), balance(principal, rate, paid, at + later) - extra, owed]
    return f"{text}What is still owed right after payment {at + later}?", left, "", others, 12


def after_tax(rng: random.Random) -> Question:
    """Ask for a project's value with tax, depreciation, working capital and flows in mid-year."""
    cost, percent, num = rng.randint(300, 4000) * 1000, rng.randint(600, 1300) / 100, rng.randint(4, 7)
    tax, sales = rng.randint(18, 30), [round(cost * rng.uniform(0.5, 1.1) / 1000) * 1000 for _ in range(num)]
    margin, capital = rng.randint(30, 55), rng.randint(5, 15)
    scrap = round(cost * rng.uniform(0.05, 0.15) / 1000) * 1000
    needed = [amount * capital / 100 for amount in sales]
    flows = [(amount * margin / 100) * (1 - tax / 100) + cost / num * tax / 100 for amount in sales]
    begun = [needed[0], *(b - a for a, b in pairwise(needed)), -needed[-1]]
    rate = percent / 100
    value = -cost - sum(amount / (1 + rate) ** time for time, amount in enumerate(begun))
    value += sum(flow / (1 + rate) ** (time + 0.5) for time, flow in enumerate(flows))
    value += scrap * (1 - tax / 100) / (1 + rate) ** num
    plain = present([-float(cost), *flows], rate)
    text = (
        f"{company(rng)} considers {rng.choice(USES)} for {cost:,}, paid now and written off in equal parts over {num} "
        f"years to nothing. Sales in years 1 to {num}: {', '.join(f'{amount:,}' for amount in sales)}. Cash operating "
        f"margin before tax is {margin}% of sales; operating cash flows and their tax arise in the middle of each "
        f"year. Tax is {tax}%, and the write-off is deductible. Working capital of {capital}% of a year's sales has to "
        f"be in place at the start of that year, and is released in full at the end of year {num}. The plant is then "
        f"sold for {scrap:,}, which is taxed. The cost of capital is {percent:.2f}% a year. What is the net present "
        "value?"
    )
    return text, value, "", [plain, value - scrap * (1 - tax / 100) / (1 + rate) ** num], 20


CLOSERS = (
    "Reason as you like; the last line of your answer is the result alone,",
    "Show the calculation and close with a line that has the result alone,",
    "The last line has to be the number and nothing else,",
)
LEVELS: tuple[Callable[[random.Random], Question], ...] = (monthly, project, prepaid, after_tax)


@domain(family="finance", levels=4, max_tokens=1200)
def finance_npv_loan(rng: random.Random, level: int) -> Item:
    """Work out a payment, a balance, a present value or a rate of return."""
    asked, number, unit, others, steps = LEVELS[level](rng)
    near = 0.011 if unit else max(0.5, abs(number) * 1e-5)
    how = "as a percentage with two decimals" if unit else "with two decimals"
    return Item(
        prompt=f"{asked} {rng.choice(CLOSERS)} {how}.",
        gold=(f"It comes to\n{number:,.2f}{unit}",),
        verifier=verdict(last_number(number, unit=unit, absolute=near)),
        wrongs=tuple((f"{other:,.2f}{unit}",) for other in others if abs(other - number) > 3 * near),
        difficulty=steps,
    )
