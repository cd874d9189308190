"""Problems on ledgers and calendars: windows, orders, stocks, prices, ranks, caches, limits."""

import random
from typing import Any

from producers.domains.code.problem import Plan

PEOPLE = ("ada", "bo", "cem", "dina", "eli", "fay")


def draw_windows(rng: random.Random) -> list[Any]:
    """Draw windows of time in minutes."""
    starts = [rng.randrange(0, 300, 5) for _ in range(rng.randint(3, 7))]
    return [[[start, start + rng.randrange(5, 60, 5)] for start in starts]]


def draw_orders(rng: random.Random) -> list[Any]:
    """Draw orders: customer, amount, state."""
    states = ("paid", "open", "void", "paid")
    return [[[rng.choice(PEOPLE), rng.randint(5, 400), rng.choice(states)] for _ in range(rng.randint(4, 9))]]


def draw_movements(rng: random.Random) -> list[Any]:
    """Draw movements of accounts."""
    kinds = ("in", "out", "out")
    return [[[rng.choice(PEOPLE[:3]), rng.choice(kinds), rng.randint(1, 90)] for _ in range(rng.randint(5, 12))]]


def draw_lots(rng: random.Random) -> list[Any]:
    """Draw purchases, quantity and price, and a quantity that was sold."""
    lots = [[rng.randint(1, 20), rng.randint(2, 30)] for _ in range(rng.randint(2, 5))]
    return [lots, rng.randint(1, sum(quantity for quantity, _ in lots) + 4)]


def draw_scores(rng: random.Random) -> list[Any]:
    """Draw scores of which some are equal."""
    return [[rng.choice((10, 20, 30, 40, 50, 60)) for _ in range(rng.randint(4, 9))]]


def draw_amount(rng: random.Random) -> list[Any]:
    """Draw a quantity to be charged."""
    return [rng.randint(1, 1200)]


def draw_requests(rng: random.Random) -> list[Any]:
    """Draw names of pages and the size of a cache."""
    return [rng.choices(("home", "cart", "help", "news", "shop"), k=rng.randint(6, 16)), rng.randint(1, 3)]


def draw_times(rng: random.Random) -> list[Any]:
    """Draw times of calls in seconds, in order."""
    time, times = 0, []
    for _ in range(rng.randint(6, 14)):
        time += rng.choice((0, 1, 1, 2, 3, 7))
        times.append(time)
    return [times]


PLANS = (
    Plan(
        name="merge_windows",
        params=(("windows", "rows"),),
        returns="rows",
        statement="""Maintenance windows are given as [start, end] in minutes, in any order. Merge windows that overlap
or between which there are $words $gap minutes, and return $what.""",
        source="""
def merge_windows(windows):
    merged = []
    for start, end in sorted(windows):
        if merged and start - merged[-1][1] $op $gap:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return $result
""",
        draw=draw_windows,
        choices=(
            tuple({"gap": gap} for gap in (5, 10, 15)),
            ({"words": "at most", "op": "<="}, {"words": "fewer than", "op": "<"}),
            (
                {"what": "the merged windows in order of their start", "result": "merged"},
                {
                    "what": "the merged windows that last at least 30 minutes, in order of their start",
                    "result": "[[a, b] for a, b in merged if b - a >= 30]",
                },
                {
                    "what": "the gaps between merged windows as [start, end], in order",
                    "result": "[[a[1], b[0]] for a, b in zip(merged, merged[1:])]",
                },
            ),
        ),
        level=1,
    ),
    Plan(
        name="busiest_moment",
        params=(("windows", "rows"),),
        returns="ints",
        statement="""Meetings are given as [start, end] in minutes; a meeting is on from its start, and $words. Return
[most, when]: the largest number of meetings that are on at once, and the $which minute at which it begins to be so.""",
        source="""
def busiest_moment(windows):
    best, when = 0, -1
    for moment in sorted({start for start, _ in windows}):
        num = sum(start <= moment and moment $op end for start, end in windows)
        if num $better best:
            best, when = num, moment
    return [best, when]
""",
        draw=draw_windows,
        choices=(
            (
                {"words": "no longer at the minute of its end", "op": "<"},
                {"words": "still at the minute of its end", "op": "<="},
            ),
            ({"which": "first", "better": ">"}, {"which": "last", "better": ">="}),
        ),
        level=2,
    ),
    Plan(
        name="best_customers",
        params=(("orders", "records"),),
        returns="records",
        statement="""Orders are [customer, amount, state]. Count the orders $which, and return [customer, $what] for
every customer with at least $least such order(s), sorted by that number from $way, then by name.""",
        source="""
def best_customers(orders):
    amounts = {}
    for customer, amount, state in orders:
        if $taken:
            amounts.setdefault(customer, []).append(amount)
    rows = [[customer, $code] for customer, found in amounts.items() if len(found) >= $least]
    return sorted(rows, key=lambda row: ($sign row[1], row[0]))
""",
        draw=draw_orders,
        choices=(
            (
                {"which": "that are paid", "taken": 'state == "paid"'},
                {"which": "that are not void", "taken": 'state != "void"'},
                {"which": "of at least 50 that are not open", "taken": 'amount >= 50 and state != "open"'},
            ),
            (
                {"what": "the sum of amounts", "code": "sum(found)"},
                {"what": "the largest amount", "code": "max(found)"},
                {"what": "the sum of amounts without the smallest one", "code": "sum(found) - min(found)"},
            ),
            ({"way": "high to low", "sign": "-"}, {"way": "low to high", "sign": ""}),
            ({"least": 1}, {"least": 2}),
        ),
        level=1,
    ),
    Plan(
        name="settle_accounts",
        params=(("movements", "records"),),
        returns="records",
        statement="""Movements are [name, kind, amount] in order of time, kind being `in` or `out`. An account begins
at $start. A withdrawal that would bring it below $floor is refused and costs a fee of $fee, which is always taken.
Return [name, balance, refused] for every name that occurs, by name; refused is how many withdrawals were refused.""",
        source="""
def settle_accounts(movements):
    balances, refused = {}, {}
    for name, kind, amount in movements:
        balances.setdefault(name, $start)
        refused.setdefault(name, 0)
        if kind == "in":
            balances[name] += amount
        elif balances[name] - amount < $floor:
            refused[name] += 1
            balances[name] -= $fee
        else:
            balances[name] -= amount
    return [[name, balances[name], refused[name]] for name in sorted(balances)]
""",
        draw=draw_movements,
        choices=(
            tuple({"start": start} for start in (0, 50, 100)),
            tuple({"floor": floor} for floor in (0, -20, 10)),
            tuple({"fee": fee} for fee in (1, 2, 5)),
        ),
        level=2,
    ),
    Plan(
        name="cost_of_sales",
        params=(("lots", "rows"), ("sold", "int")),
        returns="int",
        statement="""Purchases are [quantity, price] in order of time. `sold` pieces were sold, and are taken from the
$which purchases first. Return what they had cost; pieces beyond all that was bought cost $extra each.""",
        source="""
def cost_of_sales(lots, sold):
    cost = 0
    for quantity, price in $order:
        taken = min(quantity, sold)
        cost += taken * price
        sold -= taken
    return cost + sold * $extra
""",
        draw=draw_lots,
        choices=(
            (
                {"which": "oldest", "order": "lots"},
                {"which": "newest", "order": "reversed(lots)"},
                {
                    "which": "cheapest (of equal ones the older)",
                    "order": "sorted(lots, key=lambda lot: lot[1])",
                },
            ),
            tuple({"extra": extra} for extra in (25, 40, 0)),
        ),
        level=1,
    ),
    Plan(
        name="places",
        params=(("scores", "ints"),),
        returns="ints",
        statement="""Return the place of each score, in the order given. The $best score is on place 1; equal scores
share a place, and $rule.""",
        source="""
def places(scores):
    return [1 + $code for score in scores]
""",
        draw=draw_scores,
        choices=(
            (
                {
                    "best": "highest",
                    "rule": "the next place is one more",
                    "code": "len({other for other in scores if other > score})",
                },
                {
                    "best": "highest",
                    "rule": "as many places after it are left out as others share it",
                    "code": "sum(other > score for other in scores)",
                },
                {
                    "best": "lowest",
                    "rule": "the next place is one more",
                    "code": "len({other for other in scores if other < score})",
                },
                {
                    "best": "lowest",
                    "rule": "it is the last one of those that they take up, so that two best scores are both on 2",
                    "code": "sum(other <= score for other in scores) - 1",
                },
            ),
        ),
        level=0,
    ),
    Plan(
        name="charge",
        params=(("units", "int"),),
        returns="int",
        statement="""A supplier charges $low cents for each of the first $first units, $middle cents for each unit
beyond that up to $second, and $high cents for each one above. A bill of $words $free cents is not sent, and then is 0.
Return the bill in cents.""",
        source="""
def charge(units):
    bill = 0
    for size, price in (($first, $low), ($second - $first, $middle)):
        taken = min(units, size)
        bill += taken * price
        units -= taken
    bill += units * $high
    return 0 if bill $op $free else bill
""",
        draw=draw_amount,
        choices=(
            tuple({"low": low} for low in (9, 12, 30)),
            tuple({"middle": middle} for middle in (7, 15, 21)),
            tuple({"high": high} for high in (5, 18, 24)),
            tuple({"first": first} for first in (50, 100, 120)),
            tuple({"second": second} for second in (300, 400, 650)),
            ({"words": "less than", "op": "<"}, {"words": "at most", "op": "<="}),
            tuple({"free": free} for free in (250, 500)),
        ),
        level=0,
    ),
    Plan(
        name="cache_report",
        params=(("pages", "words"), ("size", "int")),
        returns="records",
        statement="""A cache holds `size` pages. A request for a page that is in it is a hit; one for another page puts
it in, and where the cache is full the page that $rule leaves first. Return [["hits", number of hits], ["left", number
of pages that left]] followed by [page, hits of it] for each page with a hit, by name.""",
        source="""
def cache_report(pages, size):
    held, hits, num_left = [], {}, 0
    for page in pages:
        if page in held:
            hits[page] = hits.get(page, 0) + 1
            $on_hit
            continue
        if len(held) == size:
            held.pop($out)
            num_left += 1
        held.append(page)
    return [["hits", sum(hits.values())], ["left", num_left]] + [[page, hits[page]] for page in sorted(hits)]
""",
        draw=draw_requests,
        choices=(
            (
                {
                    "rule": "was asked for longest ago",
                    "on_hit": "held.append(held.pop(held.index(page)))",
                    "out": 0,
                },
                {"rule": "was put in longest ago", "on_hit": "pass", "out": 0},
                {
                    "rule": "was asked for last",
                    "on_hit": "held.append(held.pop(held.index(page)))",
                    "out": -1,
                },
            ),
        ),
        level=3,
    ),
    Plan(
        name="admitted_calls",
        params=(("times", "ints"),),
        returns="ints",
        statement="""A service is called at the given times, in seconds and in order. It admits a call where it admitted
fewer than $most calls in the $window seconds before (a call exactly $window seconds ago $words); refused calls
$refused. Return the $what.""",
        source="""
def admitted_calls(times):
    recent, admitted, refused = [], [], []
    for place, time in enumerate(times):
        recent = [one for one in recent if time - one $op $window]
        if len(recent) < $most:
            admitted.append(time)
            recent.append(time)
        else:
            refused.append(place)
            $on_refusal
    return $result
""",
        draw=draw_times,
        choices=(
            tuple({"most": most} for most in (1, 2, 3)),
            tuple({"window": window} for window in (2, 3, 5)),
            ({"words": "no longer counts", "op": "<"}, {"words": "still counts", "op": "<="}),
            (
                {"refused": "do not count", "on_refusal": "pass"},
                {"refused": "count as if admitted, later on", "on_refusal": "recent.append(time)"},
            ),
            (
                {"what": "times of the admitted calls", "result": "admitted"},
                {"what": "places of the refused calls in the list, from 0", "result": "refused"},
            ),
        ),
        level=3,
    ),
)
