import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.domains.finance.bridges import bridge, draw_good
from producers.domains.finance.cash import finance_cashflow_tieout
from producers.domains.finance.covenants import finance_covenant
from producers.domains.finance.filings import finance_filings, read, search
from producers.domains.finance.growth import by_segment
from producers.domains.finance.loans import balance, payment, present, rate_of
from producers.domains.finance.restatements import finance_restatement
from producers.domains.finance.statements import LABELS, draw_company
from producers.domains.interface import Item
from schemas.tools import find_call, parse_call

SEEDS = st.integers(0, 1 << 32)
NO_LINES = {"Gross profit", "Operating income", "Operating profit", "Income from operations", "Income before tax",
            "Profit before taxation", "Net income", "Profit for the year"}  # fmt: skip


def tag(item: Item, name: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", item.gold[-1], re.DOTALL)
    assert found is not None
    return found[1].strip()


def amount(text: str) -> int:
    number = int(text.strip("()").replace(",", ""))
    return -number if text.startswith("(") else number


def rows_of(text: str) -> dict[str, list[int]]:
    """Read a statement as it is printed."""
    rows = {}
    for line in text.splitlines():
        found = re.fullmatch(r"(\S.*?)\s{2,}((?:\(?[\d,]+\)?\s*)+)", line)
        if found:
            rows[found[1]] = [amount(one) for one in found[2].split()]
    return rows


@given(SEEDS)
@settings(max_examples=60)
def test_statements_balance_and_the_cash_flow_explains_the_cash(seed: int) -> None:
    of = draw_company(random.Random(seed), num_years=4)
    years = sorted(of.years)
    for year in years:
        now = of.years[year]
        assert now["assets"] == now["liabilities"] + now["equity"]
        assert now["assets"] == sum(now[line] for line in ("cash", "receivables", "inventory", "ppe", "goodwill"))
        assert now["net"] == now["revenue"] - sum(now[cost] for cost in ("cogs", "sga", "rnd", "da", "interest", "tax"))
        assert now["d_cash"] == now["cfo"] + now["cfi"] + now["cff"]
        assert now["cash"] > 0
        if year > years[0]:
            assert now["cash"] - of.years[year - 1]["cash"] == now["d_cash"]


@given(SEEDS, st.integers(1, 6))
@settings(max_examples=60)
def test_the_effects_of_a_bridge_add_up_to_the_change_in_profit(seed: int, num: int) -> None:
    rng = random.Random(seed)
    goods = [draw_good(rng, str(place), (1.1, 1.3) if place % 2 else (1.0, 1.0)) for place in range(num)]
    effects = bridge(goods)
    profit = [
        sum(one.units[year] * (one.price[year] * one.rate[year] - one.cost[year]) for one in goods) for year in (0, 1)
    ]
    assert effects["total"] == pytest.approx(profit[1] - profit[0])
    assert sum(effects.values()) == pytest.approx(2 * effects["total"])
    if num == 1:
        assert effects["mix"] == pytest.approx(0, abs=1e-6)


def test_a_loan_is_paid_off_month_by_month() -> None:
    principal, rate, num = 250_000.0, 0.0475 / 12, 240
    owed, paid = principal, payment(250_000.0, 0.0475 / 12, 240)
    for month in range(1, num + 1):
        owed = owed * (1 + rate) - paid
        assert balance(principal, rate, paid, month) == pytest.approx(owed, abs=1e-4)
    assert owed == pytest.approx(0, abs=1e-4)


def test_flows_are_worth_nothing_at_their_own_rate() -> None:
    flows = [-1000.0, 300.0, 420.0, 250.0, 380.0]
    assert present(flows, rate_of(flows)) == pytest.approx(0, abs=1e-6)
    assert rate_of([-100.0, 110.0]) == pytest.approx(0.1)


@pytest.mark.parametrize("level", range(4))
def test_what_a_cash_flow_leaves_unexplained_is_what_its_printed_lines_leave(level: int) -> None:
    for seed in range(20):
        item = finance_cashflow_tieout(random.Random(seed), level)
        sheet, draft = item.prompt.split("Draft consolidated statement of cash flows")
        cash = rows_of(sheet)["Cash and cash equivalents"]
        lines = rows_of(draft)
        parts = [values[0] for name, values in lines.items() if not name.startswith("Net c") or "borrowings" in name]
        assert amount_signed(tag(item, "unexplained")) == cash[0] - cash[1] - sum(parts)
        assert all(name in lines for name in tag(item, "lines").splitlines())


def amount_signed(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("level", range(4))
def test_lines_called_corrected_or_moved_are_those_that_differ_between_the_reports(level: int) -> None:
    for seed in range(20):
        item = finance_restatement(random.Random(seed), level)
        old, new = (rows_of(text) for text in item.prompt.split("with comparatives restated"))
        differing = {name for name in old if old[name][0] != new[name][1]}
        aside = {*NO_LINES, *LABELS["tax"], *LABELS["payables"]}
        plain = {name for name in differing if not name.startswith("Total ") and name not in aside}
        moved = set(tag(item, "moved").splitlines()) if level else set()
        assert set(tag(item, "corrected").splitlines()) | moved == plain
        net = next(name for name in ("Net income", "Profit for the year") if name in old)
        assert amount_signed(tag(item, "profit")) == new[net][1] - old[net][0]
        assert sum(new[name][1] - old[name][0] for name in moved) == 0


@pytest.mark.parametrize("level", range(4))
def test_leverage_is_what_the_agreement_says_of_the_printed_figures(level: int) -> None:
    for seed in range(20):
        item = finance_covenant(random.Random(seed), level)
        text = item.prompt
        rows = {name.split("  ")[0]: values for name, values in rows_of(text).items()}
        base = sum(rows["Operating profit"][-4:]) + sum(rows["Depreciation and amortisation"][-4:])
        cap = re.search(r"not more than (\d+)% of EBITDA", text)
        one_off = sum(rows["Exceptional items (charged in operating profit)"][-4:])
        profit = base + (min(one_off, base * int(cap[1]) / 100) if cap else 0)
        term, drawn, cash = (
            amount(found[1])
            for found in (re.search(rf"{name} ([\d,]+)", text) for name in ("Loan", "Facility drawn", "cash"))
            if found
        )
        counted = re.search(r"not more than ([\d,]+) thousand counts", text)
        debt = term + drawn - (min(cash, amount(counted[1])) if counted else cash)
        assert float(tag(item, "ratio")) == pytest.approx(debt / profit, abs=0.0051)
        steps = re.findall(r"([\d.]+):1", text)
        year, agreed = (
            int(found)
            for found in (re.findall(r"December (\d{4})\.", text)[-1], re.findall(r"Lender\), (\d{4})", text)[0])
        )
        limit = float(steps[min(year - agreed, 2)] if level else steps[0])
        if level < 3:
            assert tag(item, "status") == ("breached" if debt > limit * profit else "compliant")
        assert float(tag(item, "headroom")) == pytest.approx(limit * profit - debt, abs=0.51)


@pytest.mark.parametrize("level", range(4))
def test_search_for_a_company_and_an_annual_report_finds_what_has_to_be_read(level: int) -> None:
    for seed in range(10):
        item = finance_filings(random.Random(seed), level)
        assert item.execution is not None
        world = json.loads(item.execution.files["world.json"])
        needed = [parse_call(found).arguments["document"] for found in map(find_call, item.gold[1:-1]) if found]
        for name in needed:
            kind = "amended annual report" if "10-ka" in name else "annual report"
            query = f"{world['documents'][name]['title'].split(':')[0]} {kind} FY{name[-4:]}"
            assert name in [one["document"] for one in search(world, query)[:2]]
            assert world["documents"][name]["text"] == read(world, name)
        with pytest.raises(ValueError, match="use search"):
            read(world, "nothing")


def test_amounts_of_two_companies_are_compared_in_one_unit_as_their_filings_print_them() -> None:
    lines = {"revenue": "revenue", "gross profit": "gross", "operating income": "ebit", "net income": "net",
             "research and development expense": "rnd",
             "selling, general and administrative expense": "sga"}  # fmt: skip
    for seed in range(20):
        item = finance_filings(random.Random(seed), 2)
        assert item.execution is not None
        documents = json.loads(item.execution.files["world.json"])["documents"]
        asked = re.search(r"Compare (.+?) of .+ in FY", item.prompt)
        assert asked is not None
        found = {}
        for call in item.gold[1:-1]:
            name = parse_call(find_call(call) or "").arguments["document"]
            text = documents[name]["text"]
            cells = [re.split(r" *\| *", line.strip("| ")) for line in text.splitlines() if line.startswith("|")]
            first = next(amount(row[1]) for row in cells if row[0] in LABELS[lines[asked[1]]])
            found[documents[name]["title"].split(":")[0]] = abs(first) / (1000 if "USD thousands" in text else 1)
        assert float(tag(item, "number")) == pytest.approx(max(found.values()) - min(found.values()), abs=0.0051)
        assert tag(item, "conclusion") == max(found, key=found.__getitem__)


def test_like_for_like_growth_leaves_out_what_left_and_moves_customers_back() -> None:
    for seed in range(40):
        shown, _, rate, _, _ = by_segment(random.Random(seed))
        rows = {}
        for line in shown.splitlines()[2:]:
            found = re.fullmatch(r"(\S.*?)\s{2,}([\d,]+)\s+([\d,]+)\s+([\d.]+)\s+([\d.]+)", line)
            if found:
                rows[found[1]] = (amount(found[2]), amount(found[3]), float(found[4]))
        moved = re.search(r"had brought (.+?) ([\d,]+) million .* reported by (.+?)\. The table", shown)
        gone = re.search(r"before the move\. (.+?) was classified", shown)
        assert moved is not None
        assert gone is not None
        before = {name: old * first for name, (old, _, first) in rows.items()}
        value = amount(moved[2]) * rows[moved[1]][2]
        before[moved[1]] -= value
        before[moved[3]] += value
        after = {name: new * first for name, (_, new, first) in rows.items()}
        del before[gone[1]], after[gone[1]]
        assert rate == pytest.approx(100 * (sum(after.values()) / sum(before.values()) - 1))
