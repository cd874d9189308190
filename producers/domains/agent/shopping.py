"""Goods to be found, and bought, in a shop."""

import random
from typing import Any

from producers.domains.agent.goals import World, asked, call, forbidden, frugal, goal, judged_by, only
from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.tools import world_tools

KINDS = ("backpack", "tent", "headlamp", "stove", "kettle", "sleeping bag", "rain jacket", "compass")
FEATURES = ("waterproof", "ultralight", "rechargeable", "foldable", "fair trade", "recycled")
BRANDS = ("Norr", "Alta", "Kestrel", "Juno", "Tarn", "Vello", "Skog", "Orme")


def search(world: "World", text: str, page: int = 1) -> "Any":
    """Find products whose name has a word; four on a page, as sku, name and price in cents.

    text: a word of the name
    page: from 1
    """
    found = [one for one in world["products"] if text.lower() in one["name"].lower()]
    rows = [{"sku": one["sku"], "name": one["name"], "cents": one["cents"]} for one in found]
    return {"page": page, "pages": (len(rows) + 3) // 4, "products": rows[4 * page - 4 : 4 * page]}


def product(world: "World", sku: str) -> "Any":
    """Show all of a product: price in cents, rating, features, stock.

    sku: number of the product
    """
    found = [one for one in world["products"] if one["sku"] == sku]
    if not found:
        raise ValueError(f"there is no product {sku}")
    return found[0]


def put_in_cart(world: "World", sku: str, quantity: int) -> "Any":
    """Set how many of a product are in the cart; 0 takes it out.

    sku: number of the product
    quantity: how many
    """
    found = [one for one in world["products"] if one["sku"] == sku]
    if not found or quantity < 0 or quantity > found[0]["stock"]:
        raise ValueError("there is no such product, or not so many are in stock")
    world["cart"][sku] = quantity
    world["cart"] = {name: num for name, num in world["cart"].items() if num}
    return world["cart"]


def coupons(world: "World") -> "Any":
    """List the coupons of the customer: code, what it takes off in percent, and the least sum in cents for it."""
    return world["coupons"]


def checkout(world: "World", coupon: str = "") -> "Any":
    """Order what is in the cart, which empties it.

    coupon: code of one coupon, empty for none
    """
    prices = {one["sku"]: one["cents"] for one in world["products"]}
    total = sum(prices[sku] * quantity for sku, quantity in world["cart"].items())
    chosen = [one for one in world["coupons"] if one["code"] == coupon]
    if not world["cart"] or (coupon and not chosen):
        raise ValueError("the cart is empty, or there is no such coupon")
    if chosen and (chosen[0]["expired"] or total < chosen[0]["least_cents"]):
        raise ValueError("the coupon has expired, or the sum is too small for it")
    total -= total * chosen[0]["percent"] // 100 if chosen else 0
    name = f"order-{len(world['orders']) + 1}"
    world["orders"][name] = {"lines": world["cart"], "coupon": coupon, "cents": total}
    world["cart"] = {}
    return {"order": name, "cents": total}


@domain(family="agent", levels=4, max_tokens=256)
def agent_shop(rng: random.Random, level: int) -> Item:
    """Buy what was asked for, as cheaply as that is possible."""
    needs = [(kind, rng.choice(FEATURES), rng.randint(1, 3)) for kind in rng.sample(KINDS, 1 + level)]
    least = rng.choice((40, 42, 44))
    products, chosen = draw_products(rng, needs, least, 5 + level)
    total = sum(one["cents"] * quantity for one, (_, _, quantity) in zip(chosen, needs, strict=True))
    offers, coupon = draw_coupons(rng, total, level)
    world = {"products": products, "coupons": offers, "cart": {}, "orders": {}}
    execution = world_tools(search, product, put_in_cart, coupons, checkout, world=world)
    wanted = "; ".join(f"{quantity} x {kind} that is {feature}" for kind, feature, quantity in needs)
    budget = total // 100 + rng.randint(5, 60)
    question = (
        f"Order for me, in one order: {wanted}. Only products rated {least / 10} or better of which there are enough; "
        f"of those the cheapest. Use the coupon that saves most, if one can be used. It must stay below {budget} "
        "euros. Tell me the sum at the end."
    )
    lines = {one["sku"]: quantity for one, (_, _, quantity) in zip(chosen, needs, strict=True)}
    looks = [call("search", text=kind) for kind, _, _ in needs] + [call("coupons")]
    puts = [call("put_in_cart", sku=sku, quantity=quantity) for sku, quantity in lines.items()]
    buys = call("checkout", coupon=coupon)
    order = ("orders", "order-1")
    goals = [goal(f"line {sku}", (*order, "lines", sku), quantity, weight=2.0) for sku, quantity in lines.items()]
    rest = [one["sku"] for one in products if one["sku"] not in lines]
    return Item(
        prompt=asked(rng, question, execution),
        gold=(*looks, *puts, buys, "It is ordered."),
        verifier=judged_by(
            only("one order", ("orders",), ["order-1"]),
            forbidden(
                "over budget", order, {"properties": {"cents": {"minimum": budget * 100}}, "required": ["cents"]}
            ),
            *goals,
            goal("coupon", (*order, "coupon"), coupon, after=0.5),
            frugal(len(looks) + 5 * len(needs) + 4),
        ),
        execution=execution,
        max_turns=8 + 8 * len(needs),
        partials=((*puts[:-1], call("put_in_cart", sku=next(iter(lines)), quantity=1), call("checkout"), "Done."),)
        if level > 1
        else (),
        wrongs=(
            (*looks, "It is ordered."),
            (*puts, "It is ordered."),
            (call("put_in_cart", sku=rest[0], quantity=1), call("checkout"), "It is ordered."),
        ),
        difficulty=2 * len(needs) + level,
    )


def draw_products(
    rng: random.Random, needs: list[tuple[str, str, int]], least: int, num: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the shop's products, and of each need the one to be bought."""
    products: list[dict[str, Any]] = []
    skus = iter(rng.sample(range(1000, 9999), 200))
    prices = rng.sample(range(900, 9000), 200)
    for kind in KINDS:
        products += [
            {
                "sku": f"S{next(skus)}",
                "name": f"{rng.choice(BRANDS)} {kind} {rng.randint(2, 9)}0",
                "cents": prices.pop(),
                "rating": rng.randint(34, 50) / 10,
                "features": rng.sample(FEATURES, 2),
                "stock": rng.choice((0, 1, 2, 5, 9, 30)),
            }
            for _ in range(num)
        ]
    chosen = []
    for kind, feature, quantity in needs:
        of_kind = [one for one in products if kind in one["name"]]
        one = rng.choice(of_kind)
        one |= {"rating": min(50, least + 2) / 10, "stock": quantity + 2}
        one["features"] = [feature, next(other for other in FEATURES if other != feature)]
        chosen.append(
            min(
                (
                    one
                    for one in of_kind
                    if feature in one["features"] and one["rating"] * 10 >= least and one["stock"] >= quantity
                ),
                key=lambda one: int(one["cents"]),
            )
        )
    rng.shuffle(products)
    return products, chosen


def draw_coupons(rng: random.Random, total: int, level: int) -> tuple[list[dict[str, Any]], str]:
    """Return the customer's coupons, and the code of the best one that can be used."""
    percents = rng.sample(range(3, 30), 2 + level)
    codes = rng.sample(("SPRING", "HELLO", "TREK", "CLUB", "AUTUMN", "FRIEND", "VIP"), 2 + level)
    offers: list[dict[str, Any]] = [
        {
            "code": f"{code}{percent}",
            "percent": percent,
            "least_cents": rng.choice((0, total // 2, total + 100)),
            "expired": rng.random() < 0.4,
        }
        for code, percent in zip(codes, percents, strict=True)
    ]
    usable = [one for one in offers if not one["expired"] and one["least_cents"] <= total]
    return offers, max(usable, key=lambda one: one["percent"])["code"] if usable else ""
