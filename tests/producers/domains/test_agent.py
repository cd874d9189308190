"""Worlds of the agents' tasks: what the solvers say against what the tools let one find out."""

import copy
import random
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from producers.domains.agent import complaints, meetings, planning, shopping, stock, travelling
from producers.domains.agent.complaints import Rules

SEEDS = st.integers(0, 10_000)
LEVELS = st.integers(0, 3)


@given(SEEDS, LEVELS)
def test_the_first_time_is_the_first_at_which_the_tools_show_nobody_and_a_room_free(seed: int, level: int) -> None:
    rng = random.Random(seed)
    days, people = list(meetings.DAYS[: 1 + level]), sorted(rng.sample(meetings.PEOPLE, 2 + level))
    world = meetings.draw_world(rng, level, days)
    found = meetings.first_time(world, people, days, 60, seats_for=len(people))
    by_hand = None
    for day in days:
        for start in range(540, 961, 30):
            minutes = set(range(start, start + 60))
            agendas = [one for person in people for one in meetings.agenda(world, person, day)]
            busy = {m for one in agendas if not one["tentative"] for m in range(*meetings.span_of(one["time"]))}
            fitting = [
                (one["seats"], one["room"])
                for one in meetings.rooms(world, day)
                if one["seats"] >= len(people)
                and not minutes & {m for time in one["taken"] for m in range(*meetings.span_of(time))}
            ]
            if by_hand is None and fitting and not minutes & busy:
                by_hand = (day, start, min(fitting)[1])
    assert by_hand == (None if found is None else (found.day, found.start, found.room))


@given(SEEDS, LEVELS)
def test_what_is_to_be_bought_is_the_cheapest_that_the_shop_shows(seed: int, level: int) -> None:
    rng = random.Random(seed)
    needs = [(kind, rng.choice(shopping.FEATURES), 2) for kind in rng.sample(shopping.KINDS, 1 + level)]
    products, chosen = shopping.draw_products(rng, needs, 42, 6)
    world: dict[str, Any] = {"products": products}
    for (kind, feature, quantity), one in zip(needs, chosen, strict=True):
        num_pages = shopping.search(world, kind)["pages"]
        rows = [row for page in range(1, num_pages + 1) for row in shopping.search(world, kind, page)["products"]]
        fitting = [
            shown
            for shown in (shopping.product(world, row["sku"]) for row in rows)
            if feature in shown["features"] and shown["rating"] >= 4.2 and shown["stock"] >= quantity
        ]
        assert one["sku"] == min(fitting, key=lambda shown: shown["cents"])["sku"]


@given(SEEDS, LEVELS)
def test_after_the_plan_nothing_lacks_that_could_be_had_and_nobody_gave_below_a_target(seed: int, level: int) -> None:
    rng = random.Random(seed)
    houses, skus = stock.HOUSES[: 2 + level // 2], sorted(rng.sample(stock.SKUS, 5))
    low = skus[:3]
    world = stock.draw_world(rng, houses, skus, houses[0], low)
    before = copy.deepcopy(world["stock"])
    moves, orders = stock.plan(world, houses[0], low)
    for sku, source, many in moves:
        stock.transfer(world, sku, source, houses[0], many)
    for sku, packs in orders.items():
        stock.order(world, sku, houses[0], packs)
    for sku in skus:
        target, pack = world["rules"][houses[0]][sku]["target"], world["packs"][sku]["pack"]
        has = world["stock"][houses[0]][sku]
        coming = orders.get(sku, 0) * pack
        if sku not in low:
            assert (has, coming) == (before[houses[0]][sku], 0)
            continue
        spare = [world["stock"][one][sku] - world["rules"][one][sku]["target"] for one in houses[1:]]
        assert has <= target
        assert has == target or max(spare) <= 0
        assert has + coming >= target or not world["packs"][sku]["delivers"]
        assert coming == 0 or has + coming - pack < target
        for one in houses[1:]:
            assert world["stock"][one][sku] >= min(before[one][sku], world["rules"][one][sku]["target"])


@given(SEEDS, LEVELS)
def test_the_order_of_steps_is_one_that_the_tools_accept_and_each_choice_is_the_least_that_is_ready(
    seed: int, level: int
) -> None:
    rng = random.Random(seed)
    names = rng.sample(planning.STEPS, 5 + 2 * level)
    world = planning.draw_world(rng, names)
    needed = planning.all_needs(world["steps"], names[-1])
    order = planning.order_of(world["steps"], needed, by_time=False)
    for step in order:
        planning.run_step(world, step)
    assert (order[-1], set(order), len(order)) == (names[-1], needed, len(needed))
    for first, second in pairwise(order):
        assert first < second or first in world["steps"][second]["needs"]


@given(SEEDS)
def test_a_trip_is_booked_from_what_the_tools_show(seed: int) -> None:
    rng = random.Random(seed)
    legs, limits = [("Lisbon", "Vienna", 4), ("Vienna", "Lisbon", 7)], ("14:00", 1, 3, 1500)
    world = travelling.draw_world(rng, legs, ["Vienna"], 5)
    chosen = travelling.choose(rng, world, legs, ["Vienna"], limits)
    for leg, one in zip(legs, chosen, strict=False):
        shown = travelling.flights(world, *leg)
        cheaper = [other for other in shown if other["euros"] < one["euros"]]
        assert one["id"] in [other["id"] for other in shown]
        assert all(other["arrives"] > "14:00" or other["stops"] > 1 for other in cheaper)
    cheaper = [one for one in travelling.hotels(world, "Vienna") if one["euros"] < chosen[-1]["euros"]]
    assert all(one["stars"] < 3 or one["metres"] > 1500 for one in cheaper)


def test_a_policy_is_applied_rule_by_rule() -> None:
    rules = Rules(24, 4, 75, 45, 120)
    plain = {"fare": "flex", "euros": 101, "booked_hours_ago": 90, "leaves_in_hours": 50, "delay_minutes": 0,
             "cancelled_by_airline": False}  # fmt: skip
    cases: list[tuple[dict[str, Any], str, tuple[str, int, int]]] = [
        ({}, "refund", ("refund", 75, 8)),
        ({}, "rebook", ("rebook", 22, 8)),
        ({"fare": "basic"}, "refund", ("decline", 0, 6)),
        ({"fare": "basic"}, "rebook", ("rebook", 45, 7)),
        ({"fare": "business"}, "refund", ("refund", 101, 9)),
        ({"leaves_in_hours": 3}, "refund", ("decline", 0, 5)),
        ({"leaves_in_hours": 4}, "refund", ("refund", 75, 8)),
        ({"leaves_in_hours": 3, "booked_hours_ago": 24}, "refund", ("refund", 101, 4)),
        ({"leaves_in_hours": -1, "booked_hours_ago": 24}, "refund", ("decline", 0, 3)),
        ({"leaves_in_hours": -1, "delay_minutes": 120}, "rebook", ("rebook", 0, 2)),
        ({"leaves_in_hours": -1, "cancelled_by_airline": True}, "refund", ("refund", 101, 1)),
    ]
    for change, wish, wanted in cases:
        assert rules.settle(plain | change, wish) == wanted


def test_what_a_tool_refuses_changes_nothing() -> None:
    world: dict[str, Any] = {"tickets": {"T1": {}}, "settled": {"T1": {"by": "decline"}}}
    before = copy.deepcopy(world)
    for act in (complaints.refund, complaints.rebook, complaints.decline):
        try:
            act(world, "T1", 5)
        except ValueError:
            continue
        raise AssertionError(act.__name__)
    assert world == before
