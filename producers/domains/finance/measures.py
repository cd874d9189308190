"""Ratios of a company's statements: how each is defined, in words and as a function, and what it is a number of."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Literal

import msgspec

from producers.domains.finance.statements import Amounts

Years = dict[int, Amounts]


class Measure(msgspec.Struct, frozen=True):
    """A ratio of a year."""

    name: str
    words: str
    """Its definition."""
    of: Callable[[Years, int], float]
    unit: Literal["%", "x", "days"]
    num_amounts: int
    """That have to be found."""


def debt(now: Amounts) -> int:
    """Return what is borrowed."""
    return now["short_debt"] + now["long_debt"]


def ebitda(now: Amounts) -> int:
    """Return operating income before depreciation and amortisation."""
    return now["ebit"] + now["da"]


def capital(now: Amounts) -> int:
    """Return equity and net debt."""
    return now["equity"] + debt(now) - now["cash"]


def mean(years: Years, year: int, line: str) -> float:
    """Return a balance as the mean of a year's beginning and end."""
    return (years[year][line] + years[year - 1][line]) / 2


def share(above: str, below: str) -> Callable[[Years, int], float]:
    """Return one line in per cent of another."""
    return lambda years, year: 100 * years[year][above] / years[year][below]


def roic(years: Years, year: int) -> float:
    """Return what the capital earned after tax."""
    now = years[year]
    kept = 1 - now["tax"] / now["pretax"]
    return 100 * now["ebit"] * kept / ((capital(now) + capital(years[year - 1])) / 2)


def cycle(years: Years, year: int) -> float:
    """Return the cash conversion cycle on mean balances."""
    now = years[year]
    tied = mean(years, year, "receivables") / now["revenue"]
    return 365 * (tied + (mean(years, year, "inventory") - mean(years, year, "payables")) / now["cogs"])


EASY = (
    Measure("gross margin", "gross profit as a percentage of revenue", share("gross", "revenue"), "%", 2),
    Measure("operating margin", "operating income as a percentage of revenue", share("ebit", "revenue"), "%", 2),
    Measure("net profit margin", "net income as a percentage of revenue", share("net", "revenue"), "%", 2),
    Measure("effective tax rate", "income tax as a percentage of pre-tax income", share("tax", "pretax"), "%", 2),
    Measure("R&D intensity", "research and development as a percentage of revenue", share("rnd", "revenue"), "%", 2),
    Measure("current ratio", "current assets over current liabilities",
            lambda y, t: y[t]["current_assets"] / y[t]["current_liabilities"], "x", 2),
    Measure("quick ratio", "cash plus receivables over current liabilities",
            lambda y, t: (y[t]["cash"] + y[t]["receivables"]) / y[t]["current_liabilities"], "x", 3),
    Measure("equity ratio", "equity as a percentage of total assets", share("equity", "assets"), "%", 2),
)  # fmt: skip
ACROSS = (
    Measure("days sales outstanding", "year-end receivables over revenue, times 365",
            lambda y, t: 365 * y[t]["receivables"] / y[t]["revenue"], "days", 2),
    Measure("days inventory outstanding", "year-end inventory over cost of sales, times 365",
            lambda y, t: 365 * y[t]["inventory"] / y[t]["cogs"], "days", 2),
    Measure("return on equity", "net income as a percentage of year-end equity", share("net", "equity"), "%", 2),
    Measure("net debt to EBITDA", "all borrowings less cash, over operating income plus depreciation and amortisation",
            lambda y, t: (debt(y[t]) - y[t]["cash"]) / ebitda(y[t]), "x", 5),
    Measure("free cash flow margin", "operating cash flow less capital expenditure, as a percentage of revenue",
            lambda y, t: 100 * (y[t]["cfo"] - y[t]["capex"]) / y[t]["revenue"], "%", 3),
    Measure("EBITDA interest cover", "operating income plus depreciation and amortisation, over interest expense",
            lambda y, t: ebitda(y[t]) / y[t]["interest"], "x", 3),
    Measure("cash conversion", "operating cash flow as a percentage of EBITDA",
            lambda y, t: 100 * y[t]["cfo"] / ebitda(y[t]), "%", 3),
    Measure("capital intensity", "capital expenditure as a percentage of revenue", share("capex", "revenue"), "%", 2),
)  # fmt: skip
AVERAGED = (
    Measure("return on average equity", "net income as a percentage of the mean of opening and closing equity",
            lambda y, t: 100 * y[t]["net"] / mean(y, t, "equity"), "%", 3),
    Measure("asset turnover", "revenue over the mean of opening and closing total assets",
            lambda y, t: y[t]["revenue"] / mean(y, t, "assets"), "x", 3),
    Measure("return on invested capital", "operating income after tax at the effective rate, as a percentage of the "
            "mean of opening and closing invested capital, which is equity plus all borrowings less cash",
            roic, "%", 11),
    Measure("cash conversion cycle", "days of receivables (on revenue) plus days of inventory less days of payables "
            "(both on cost of sales), all on the mean of opening and closing balances and a year of 365 days",
            cycle, "days", 8),
    Measure("average cost of debt", "interest expense as a percentage of the mean of opening and closing borrowings, "
            "short-term and long-term",
            lambda y, t: 200 * y[t]["interest"] / (debt(y[t]) + debt(y[t - 1])), "%", 5),
)  # fmt: skip
TOUCHED = (AVERAGED[0], AVERAGED[2], ACROSS[3], ACROSS[5])
"""Those that a charge against earnings changes."""
HOW = MappingProxyType({
    "%": "as a percentage with two decimals",
    "x": "as a plain number with two decimals",
    "days": "in days with one decimal",
})  # fmt: skip
