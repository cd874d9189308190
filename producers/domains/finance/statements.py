"""Made-up companies whose statements agree: the balance sheet balances and the cash flow explains the cash.

All amounts are whole units of the scale that the statements name. Costs are held as positive amounts.
"""

import random
from types import MappingProxyType

import msgspec

from producers.domains.entities import company, table

Amounts = dict[str, int]
LABELS = MappingProxyType({
    "revenue": ("Revenue", "Net sales", "Sales", "Turnover"),
    "cogs": ("Cost of sales", "Cost of goods sold", "Cost of revenue"),
    "gross": ("Gross profit",),
    "sga": ("Selling, general and administrative expenses", "SG&A expenses", "Administrative and selling expenses"),
    "rnd": ("Research and development", "Product development"),
    "da": ("Depreciation and amortisation", "Depreciation and amortization expense"),
    "ebit": ("Operating income", "Operating profit", "Income from operations"),
    "interest": ("Interest expense", "Finance costs"),
    "pretax": ("Income before tax", "Profit before taxation"),
    "tax": ("Income tax expense", "Taxation"),
    "net": ("Net income", "Profit for the year"),
    "cash": ("Cash and cash equivalents",),
    "receivables": ("Trade receivables", "Accounts receivable, net"),
    "inventory": ("Inventories",),
    "current_assets": ("Total current assets",),
    "ppe": ("Property, plant and equipment, net",),
    "goodwill": ("Goodwill",),
    "assets": ("Total assets",),
    "payables": ("Trade and other payables", "Accounts payable and accrued liabilities"),
    "short_debt": ("Short-term borrowings", "Current portion of long-term debt"),
    "current_liabilities": ("Total current liabilities",),
    "long_debt": ("Long-term debt", "Non-current borrowings"),
    "liabilities": ("Total liabilities",),
    "equity": ("Total shareholders' equity", "Total equity"),
    "sbc": ("Share-based compensation",),
    "d_receivables": ("Change in receivables", "(Increase)/decrease in receivables"),
    "d_inventory": ("Change in inventories", "(Increase)/decrease in inventories"),
    "d_payables": ("Change in payables", "Increase/(decrease) in payables"),
    "cfo": ("Net cash from operating activities",),
    "capex": ("Purchases of property, plant and equipment", "Capital expenditure"),
    "cfi": ("Net cash used in investing activities",),
    "d_debt": ("Net change in borrowings", "Proceeds from/(repayment of) borrowings"),
    "dividends": ("Dividends paid",),
    "cff": ("Net cash from financing activities",),
    "d_cash": ("Net change in cash",),
})  # fmt: skip
INCOME = ("revenue", "cogs", "gross", "sga", "rnd", "da", "ebit", "interest", "pretax", "tax", "net")
BALANCE = (
    "cash", "receivables", "inventory", "current_assets", "ppe", "goodwill", "assets", "payables", "short_debt",
    "current_liabilities", "long_debt", "liabilities", "equity",
)  # fmt: skip
CASH_FLOW = (
    "net", "da", "sbc", "d_receivables", "d_inventory", "d_payables", "cfo", "capex", "cfi", "d_debt", "dividends",
    "cff", "d_cash",
)  # fmt: skip
TAKEN = frozenset({"cogs", "sga", "rnd", "da", "interest", "tax"})
"""Amounts that an income statement takes away."""
PAID = frozenset({"capex", "dividends"})
STATEMENTS = MappingProxyType({
    "Consolidated income statement": INCOME,
    "Consolidated balance sheet": BALANCE,
    "Consolidated statement of cash flows": CASH_FLOW,
})  # fmt: skip


class Company(msgspec.Struct, frozen=True, kw_only=True):
    """A company's statements of some years."""

    name: str
    scale: str
    """`thousands` or `millions`."""
    currency: str
    labels: dict[str, str]
    """What this company calls a line."""
    years: dict[int, Amounts]
    """Oldest first."""
    shares: int
    """Outstanding, in the scale."""


def draw_company(rng: random.Random, *, num_years: int, last_year: int = 0) -> Company:
    """Draw a company with so many years of statements."""
    last_year = last_year or rng.randint(2021, 2025)
    years: dict[int, Amounts] = {}
    before = opening(rng)
    for year in range(last_year - num_years + 1, last_year + 1):
        before = years[year] = next_year(rng, before)
    return Company(
        name=company(rng),
        scale=rng.choice(("thousands", "millions")),
        currency=rng.choice(("USD", "EUR", "GBP")),
        labels={line: rng.choice(names) for line, names in LABELS.items()},
        years=years,
        shares=rng.randint(400, 9000),
    )


def opening(rng: random.Random) -> Amounts:
    """Return the balance sheet that a company begins with."""
    revenue = rng.randint(8_000, 90_000)
    cash, receivables, inventory = (rng.randint(revenue // 20, revenue // 6) for _ in range(3))
    ppe, goodwill = rng.randint(revenue // 3, revenue), rng.randint(revenue // 20, revenue // 4)
    payables, short_debt = rng.randint(revenue // 20, revenue // 8), rng.randint(revenue // 50, revenue // 20)
    long_debt = rng.randint(revenue // 6, revenue // 3)
    held = {"cash": cash, "receivables": receivables, "inventory": inventory, "ppe": ppe, "goodwill": goodwill}
    owed = {"payables": payables, "short_debt": short_debt, "long_debt": long_debt}
    return {"revenue": revenue, **held, **owed, "equity": sum(held.values()) - sum(owed.values())}


def next_year(rng: random.Random, before: Amounts) -> Amounts:
    """Return the statements of the year after."""
    now = earned(rng, before)
    revenue = now["revenue"]
    for line, low, high in (("receivables", 0.08, 0.18), ("inventory", 0.06, 0.2), ("payables", 0.05, 0.15)):
        now[line] = max(1, round(0.5 * before[line] + 0.5 * revenue * rng.uniform(low, high)))
    now["sbc"] = rng.randint(revenue // 200 + 1, revenue // 60)
    now["capex"] = rng.randint(revenue // 30, revenue // 12)
    now["dividends"] = max(1, round(max(now["net"], 0) * rng.uniform(0.1, 0.4)))
    now["short_debt"] = max(1, round(before["short_debt"] * rng.uniform(0.6, 1.5)))
    now["long_debt"] = max(1, round(before["long_debt"] * rng.uniform(0.85, 1.15)))
    now["ppe"] = before["ppe"] + now["capex"] - now["da"]
    now["goodwill"] = before["goodwill"]
    now["equity"] = before["equity"] + now["net"] + now["sbc"] - now["dividends"]
    now["d_receivables"] = before["receivables"] - now["receivables"]
    now["d_inventory"] = before["inventory"] - now["inventory"]
    now["d_payables"] = now["payables"] - before["payables"]
    now["d_debt"] = now["short_debt"] + now["long_debt"] - before["short_debt"] - before["long_debt"]
    now["cfo"] = sum(now[line] for line in ("net", "da", "sbc", "d_receivables", "d_inventory", "d_payables"))
    now["cfi"] = -now["capex"]
    now["cff"] = now["d_debt"] - now["dividends"]
    now["d_cash"] = now["cfo"] + now["cfi"] + now["cff"]
    now["cash"] = before["cash"] + now["d_cash"]
    if now["cash"] < revenue // 50:  # a company that runs dry borrows
        borrowed = revenue // 10 - now["cash"]
        for line in ("long_debt", "d_debt", "cff", "d_cash", "cash"):
            now[line] += borrowed
    return with_totals(now)


def earned(rng: random.Random, before: Amounts) -> Amounts:
    """Return a year's income statement."""
    revenue = round(before["revenue"] * rng.uniform(0.92, 1.24))
    now = {"revenue": revenue, "cogs": round(revenue * rng.uniform(0.48, 0.63))}
    now["gross"] = revenue - now["cogs"]
    now["sga"] = round(revenue * rng.uniform(0.12, 0.19))
    now["rnd"] = round(revenue * rng.uniform(0.02, 0.06))
    now["da"] = max(1, round(before["ppe"] * rng.uniform(0.05, 0.09)))
    now["ebit"] = now["gross"] - now["sga"] - now["rnd"] - now["da"]
    now["interest"] = max(1, round((before["short_debt"] + before["long_debt"]) * rng.uniform(0.03, 0.07)))
    now["pretax"] = now["ebit"] - now["interest"]
    now["tax"] = max(1, round(max(now["pretax"], 0) * rng.uniform(0.19, 0.28)))
    now["net"] = now["pretax"] - now["tax"]
    return now


def with_totals(now: Amounts) -> Amounts:
    """Return a year's amounts with the totals of its balance sheet."""
    now["current_assets"] = now["cash"] + now["receivables"] + now["inventory"]
    now["assets"] = now["current_assets"] + now["ppe"] + now["goodwill"]
    now["current_liabilities"] = now["payables"] + now["short_debt"]
    now["liabilities"] = now["current_liabilities"] + now["long_debt"]
    return now


def shown(amount: int, *, is_taken: bool = False) -> str:
    """Return an amount as statements show it: what is taken away in parentheses."""
    amount = -amount if is_taken else amount
    return f"({-amount:,})" if amount < 0 else f"{amount:,}"


def statement(of: Company, title: str, years: list[int], *, style: str = "text") -> str:
    """Return one of its statements, a column a year in the order given."""
    is_income, is_cash = title.endswith("income statement"), title.endswith("cash flows")
    rows = [
        [
            of.labels[line],
            *(
                shown(of.years[year][line], is_taken=(is_income and line in TAKEN) or (is_cash and line in PAID))
                for year in years
            ),
        ]
        for line in STATEMENTS[title]
    ]
    header = [f"{of.currency} {of.scale}", *(f"FY{year}" for year in years)]
    return f"{of.name}: {title}\n{table(header, rows, style=style)}"


def report(of: Company, years: list[int], titles: tuple[str, ...] = tuple(STATEMENTS)) -> str:
    """Return several of its statements."""
    return "\n\n".join(statement(of, title, years) for title in titles)
