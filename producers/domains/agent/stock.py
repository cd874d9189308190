"""Warehouses to be brought up to their targets, by transfers first and then by orders."""

import random
from typing import Any

from producers.domains.agent.goals import World, asked, call, fits, forbidden, frugal, goal, judged_by, only
from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.tools import world_tools

SKUS = ("bolt-m6", "bolt-m8", "valve-12", "seal-40", "pump-s", "hose-10", "filter-x", "relay-24", "fuse-5a", "belt-90")
HOUSES = ("antwerp", "basel", "cork", "dresden")


def stock(world: "World", warehouse: str) -> "Any":
    """Show what a warehouse has of each article, with its minimum and its target.

    warehouse: its name
    """
    if warehouse not in world["stock"]:
        raise ValueError(f"warehouses are {', '.join(world['stock'])}")
    rules = world["rules"][warehouse]
    return [{"sku": sku, "has": num, **rules[sku]} for sku, num in sorted(world["stock"][warehouse].items())]


def supplier(world: "World", sku: str) -> "Any":
    """Show the pack size of an article, in which alone it can be ordered, and whether its supplier delivers.

    sku: the article
    """
    if sku not in world["packs"]:
        raise ValueError(f"there is no article {sku}")
    return world["packs"][sku]


def transfer(world: "World", sku: str, source: str, target: str, quantity: int) -> "Any":
    """Move pieces of an article from one warehouse to another.

    sku: the article
    source: warehouse that gives
    target: warehouse that gets
    quantity: pieces
    """
    if quantity <= 0 or world["stock"].get(source, {}).get(sku, 0) < quantity or target not in world["stock"]:
        raise ValueError("there is no such warehouse, or it has not so many")
    world["stock"][source][sku] -= quantity
    world["stock"][target][sku] += quantity
    return {source: world["stock"][source][sku], target: world["stock"][target][sku]}


def order(world: "World", sku: str, warehouse: str, packs: int) -> "Any":
    """Order packs of an article for a warehouse; an order cannot be taken back.

    sku: the article
    warehouse: which gets them
    packs: how many
    """
    if sku not in world["packs"] or warehouse not in world["stock"] or packs <= 0:
        raise ValueError("there is no such article or warehouse")
    if not world["packs"][sku]["delivers"]:
        raise ValueError("the supplier does not deliver at present")
    orders = world["orders"].setdefault(warehouse, {})
    orders[sku] = orders.get(sku, 0) + packs
    return {"ordered_pieces": packs * world["packs"][sku]["pack"]}


@domain(family="agent", levels=4, max_tokens=256)
def agent_inventory(rng: random.Random, level: int) -> Item:
    """Bring a warehouse up to its targets, by transfers of what others can spare, and then by orders."""
    num, house = 4 + level, rng.choice(HOUSES[: 2 + min(level, 2)])
    houses = HOUSES[: 2 + min(level, 2)]
    skus = sorted(rng.sample(SKUS, num))
    low = sorted(rng.sample(skus, 2 + level))
    world = draw_world(rng, houses, skus, house, low)
    moves, orders = plan(world, house, low)
    execution = world_tools(stock, supplier, transfer, order, world=world)
    question = (
        f"Replenish the warehouse {house}. Every article of which it has less than its minimum is to come up to its "
        "target: first by transfers, where other warehouses have more than their own target, as much of that as is "
        "needed, warehouses in alphabetical order; and what then still lacks is ordered from the supplier, in whole "
        "packs, as few as are enough. Leave all other articles alone; where a supplier does not deliver, order "
        "nothing. Say what you did."
    )
    looks = [call("stock", warehouse=one) for one in houses] + [call("supplier", sku=sku) for sku in low]
    sends = [call("transfer", sku=sku, source=one, target=house, quantity=many) for sku, one, many in moves]
    buys = [call("order", sku=sku, warehouse=house, packs=packs) for sku, packs in orders.items()]
    after = {sku: world["stock"][house][sku] + sum(many for one, _, many in moves if one == sku) for sku in low}
    goals = [part for sku in low for part in goals_of(house, sku, world, moves, orders, after)]
    others = {"properties": {sku: {"const": world["stock"][house][sku]} for sku in skus if sku not in low}}
    kept = fits("other articles are left alone", ("stock", house), others, role="gate")
    names = [sku for sku in skus if sku not in orders]
    wrong = forbidden("needless order", ("orders", house), {"anyOf": [{"required": [sku]} for sku in names]})
    return Item(
        prompt=asked(rng, question, execution),
        gold=(*looks, *sends, *buys, "It is replenished."),
        verifier=judged_by(
            kept, only("orders elsewhere", ("orders",), [house]), wrong, *goals, frugal(len(looks) + 3 * num)
        ),
        execution=execution,
        max_turns=len(looks) + 4 * num + 6,
        partials=((*sends, "The transfers are made."),) if sends and buys else (),
        wrongs=(
            (*looks, "It is replenished."),
            (call("order", sku=names[0], warehouse=house, packs=1), "Done.")
            if world["packs"][names[0]]["delivers"]
            else (*looks, "Done."),
        ),
        difficulty=len(moves) + len(orders) + num,
    )


def draw_world(rng: random.Random, houses: tuple[str, ...], skus: list[str], house: str, low: list[str]) -> World:
    """Return warehouses of which one has too little of some articles; something can be done about each of these."""
    rules: World = {one: {} for one in houses}
    stock_of: World = {one: {} for one in houses}
    for sku in skus:
        for one in houses:
            least = rng.randrange(10, 60, 5)
            target = least + rng.randrange(10, 60, 5)
            rules[one][sku] = {"minimum": least, "target": target}
            stock_of[one][sku] = rng.randint(least, target + (0 if one == house else 30))
        if sku in low:
            stock_of[house][sku] = rng.randint(0, rules[house][sku]["minimum"] - 1)
    packs = {sku: {"pack": rng.choice((6, 10, 12, 25)), "delivers": rng.random() < 0.8} for sku in skus}
    for sku in low[:1]:
        packs[sku]["delivers"] = True
        for one in houses:
            if one != house:
                stock_of[one][sku] = min(stock_of[one][sku], rules[one][sku]["target"])
    return {"stock": stock_of, "rules": rules, "packs": packs, "orders": {}}


def plan(world: World, house: str, low: list[str]) -> tuple[list[tuple[str, str, int]], dict[str, int]]:
    """Return the transfers, as article, warehouse and pieces, and the orders, as packs by article."""
    moves, orders = [], {}
    for sku in low:
        lacks = world["rules"][house][sku]["target"] - world["stock"][house][sku]
        for one in sorted(world["stock"]):
            spare = world["stock"][one][sku] - world["rules"][one][sku]["target"]
            many = min(lacks, spare)
            if one != house and many > 0:
                moves.append((sku, one, many))
                lacks -= many
        if lacks > 0 and world["packs"][sku]["delivers"]:
            orders[sku] = -(-lacks // world["packs"][sku]["pack"])
    return moves, orders


def goals_of(  # noqa: PLR0917  all that is known of an article
    house: str, sku: str, world: World, moves: list[tuple[str, str, int]], orders: dict[str, int], after: dict[str, int]
) -> list[Any]:
    """Return what has to hold of an article: what was moved, from where, and what was ordered."""
    parts = []
    if after[sku] != world["stock"][house][sku]:
        parts.append(goal(f"{sku} is moved", ("stock", house, sku), after[sku]))
        for one, source, many in moves:
            if one == sku:
                left = world["stock"][source][sku] - many
                parts.append(goal(f"{sku} from {source}", ("stock", source, sku), left))
    if sku in orders:
        parts.append(goal(f"{sku} is ordered", ("orders", house, sku), orders[sku], weight=2.0))
    return parts
