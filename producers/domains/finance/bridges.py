"""A bridge from one year's profit to the next: volume, mix, price, cost and exchange rates."""

import json
import random

import msgspec

from producers.domains.catalogue import domain
from producers.domains.entities import GOODS, company, table
from producers.domains.interface import Item
from producers.domains.verdicts import closed, json_values, verdict

METHOD = (
    ("volume", "change in total units x last year's gross profit per unit (all products together)"),
    ("mix", "this year's units of each product x last year's unit profit of the product, summed, less this year's "
            "total units x last year's gross profit per unit"),
    ("price", "change in unit price x this year's units, summed over products, at last year's exchange rate"),
    ("cost", "minus change in unit cost x this year's units, summed over products"),
    ("fx", "change in the exchange rate x this year's local-currency sales of export products"),
)  # fmt: skip


ASKED = (
    "Bridge gross profit from FY{before} to FY{year}.",
    "The board asks why gross profit in FY{year} is not what it was in FY{before}. Take the change apart.",
    "Prepare the gross profit bridge FY{before} to FY{year} for the results presentation.",
)


@domain(family="finance", levels=4, max_tokens=1200)
def finance_margin_bridge(rng: random.Random, level: int) -> Item:
    """Explain a change of gross profit by volume, mix, price, cost and exchange rate."""
    num, year, has_fx = (1, 2, 3, 4)[level], rng.randint(2021, 2025), level == 3
    first = round(rng.uniform(0.7, 1.4), 2)
    rate = (first, round(first * rng.uniform(0.88, 1.12), 2)) if has_fx else (1.0, 1.0)
    names = enumerate(rng.sample(GOODS, num))
    goods = [draw_good(rng, name, rate if place % 2 else (1.0, 1.0)) for place, name in names]
    effects = bridge(goods)
    if not level:
        del effects["mix"]
    if not has_fx:
        del effects["fx"]
    if min(abs(value) for value in effects.values()) < 5:
        return finance_margin_bridge(rng, level)
    header = ["Product", *(f"{what} FY{y}" for what in ("Units", "Unit price", "Unit cost") for y in (year - 1, year))]
    exports = ", ".join(one.name for one in goods if one.is_export)
    note = (
        f"\nPrices of {exports} are in local currency; one unit of it was worth {rate[0]:.2f} in FY{year - 1} and "
        f"{rate[1]:.2f} in FY{year} in group currency. All else is in group currency."
        if has_fx
        else ""
    )
    named = [(name, how) for name, how in METHOD if name in effects]
    rules = "\n".join(f"- {name}: {how}" for name, how in named)
    prompt = (
        f"{company(rng)}, product margins\n{table(header, [row(one) for one in goods])}{note}\n\n"
        f"{rng.choice(ASKED).format(before=year - 1, year=year)} Use these effects, positive where they raise "
        f"profit:\n{rules}\n- total: the whole change in gross "
        f"profit, which the effects add up to.\nYou may reason first; end with one JSON object with the numbers "
        f"{', '.join(effects)}, rounded to one decimal."
    )
    gold = {name: round(value, 1) for name, value in effects.items()}
    part = json_values(gold, closed({name: {"type": "number"} for name in gold}), absolute=0.6)
    half = gold | {"price": round(-gold["price"], 1), "cost": round(-gold["cost"], 1)}
    return Item(
        prompt=prompt,
        gold=(f"The effects are:\n{json.dumps(gold)}",),
        verifier=verdict(part),
        partials=((json.dumps(half),),),
        wrongs=((json.dumps(dict.fromkeys(gold, 0.0)),), (json.dumps({"total": gold["total"]}),)),
        difficulty=3 * num + len(gold),
    )


class Good(msgspec.Struct, frozen=True, kw_only=True):
    """What was sold of a product, and at which price and cost, last year and this year."""

    name: str
    is_export: bool
    units: tuple[int, int]
    price: tuple[float, float]
    cost: tuple[float, float]
    rate: tuple[float, float]
    """What the currency of its price is worth."""

    def profit(self, units: int, price: int, rate: int, cost: int) -> float:
        """Return gross profit, each of its terms from the year given: 0 is last year."""
        return self.units[units] * (self.price[price] * self.rate[rate] - self.cost[cost])


def draw_good(rng: random.Random, name: str, rate: tuple[float, float]) -> Good:
    """Draw a product that is sold at home, or abroad where the rate is not 1."""
    price, units = round(rng.uniform(8, 90), 2), rng.randint(300, 6000)
    cost = round(price * rng.uniform(0.4, 0.7), 2)
    return Good(
        name=name,
        is_export=rate != (1.0, 1.0),
        units=(units, round(units * rng.uniform(0.8, 1.3))),
        price=(price, round(price * rng.uniform(0.94, 1.12), 2)),
        cost=(cost, round(cost * rng.uniform(0.92, 1.15), 2)),
        rate=rate,
    )


def bridge(goods: list[Good]) -> dict[str, float]:
    """Return the effects by name, `total` last."""
    units = [sum(one.units[year] for one in goods) for year in (0, 1)]
    before, after = (sum(one.profit(*[year] * 4) for one in goods) for year in (0, 1))
    steps = [sum(one.profit(1, *years) for one in goods) for years in ((0, 0, 0), (1, 0, 0), (1, 1, 0))]
    expected = units[1] * before / units[0]
    return {
        "volume": expected - before,
        "mix": steps[0] - expected,
        "price": steps[1] - steps[0],
        "cost": after - steps[2],
        "fx": steps[2] - steps[1],
        "total": after - before,
    }


def row(one: Good) -> list[str]:
    """Return a product as a row of the table."""
    prices = [f"{amount:.2f}" for amount in (*one.price, *one.cost)]
    return [one.name, *(f"{units:,}" for units in one.units), *prices]
