"""A bridge from one year's profit to the next: volume, mix, price, cost and exchange rates."""

import random

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


@domain(family="finance", levels=4, max_tokens=1200)
def finance_margin_bridge(rng: random.Random, level: int) -> Item:
    """Explain a change of gross profit by volume, mix, price, cost and exchange rate."""
    num, year, has_fx = (1, 2, 3, 4)[level], rng.randint(2021, 2025), level == 3
    first = round(rng.uniform(0.7, 1.4), 2)
    rate = (first, round(first * rng.uniform(0.88, 1.12), 2)) if has_fx else (1.0, 1.0)
    goods = [good(rng, name, is_export=has_fx and place % 2 == 1) for place, name in enumerate(rng.sample(GOODS, num))]
    effects = bridge(goods, rate)
    if not level:
        del effects["mix"]
    if not has_fx:
        del effects["fx"]
    if min(abs(value) for value in effects.values()) < 5:
        return finance_margin_bridge(rng, level)
    header = ["Product", *(f"{what} FY{y}" for what in ("Units", "Unit price", "Unit cost") for y in (year - 1, year))]
    rows = [[one["name"], *(shown(one[key]) for key in KEYS)] for one in goods]
    exports = ", ".join(one["name"] for one in goods if one["is_export"])
    note = (
        f"\nPrices of {exports} are in local currency; one unit of it was worth {rate[0]:.2f} in FY{year - 1} and "
        f"{rate[1]:.2f} in FY{year} in group currency. All else is in group currency."
        if has_fx
        else ""
    )
    named = [(name, how) for name, how in METHOD if name in effects]
    rules = "\n".join(f"- {name}: {how}" for name, how in named)
    prompt = (
        f"{company(rng)}, product margins\n{table(header, rows)}{note}\n\nBridge gross profit from FY{year - 1} to "
        f"FY{year}. Use these effects, positive where they raise profit:\n{rules}\n- total: the whole change in gross "
        f"profit, which the effects add up to.\nYou may reason first; end with one JSON object with the numbers "
        f"{', '.join(effects)}, rounded to one decimal."
    )
    gold = {name: round(value, 1) for name, value in effects.items()}
    part = json_values(gold, closed({name: {"type": "number"} for name in gold}), absolute=0.6)
    half = gold | {"price": round(-gold["price"], 1), "cost": round(-gold["cost"], 1)}
    return Item(
        prompt=prompt,
        gold=(f"The effects are:\n{as_json(gold)}",),
        verifier=verdict(part),
        partials=((as_json(half),),),
        wrongs=((as_json(dict.fromkeys(gold, 0.0)),), (as_json({"total": gold["total"]}),)),
        difficulty=3 * num + len(gold),
    )


KEYS = ("units0", "units1", "price0", "price1", "cost0", "cost1")


def good(rng: random.Random, name: str, *, is_export: bool) -> dict[str, float | str | bool]:
    """Draw what was sold of a product, and at which price and cost, in both years."""
    price, units = round(rng.uniform(8, 90), 2), rng.randint(300, 6000)
    cost = round(price * rng.uniform(0.4, 0.7), 2)
    later = {"units1": round(units * rng.uniform(0.8, 1.3)), "price1": round(price * rng.uniform(0.94, 1.12), 2)}
    base = {"name": name, "is_export": is_export, "units0": units, "price0": price, "cost0": cost}
    return base | later | {"cost1": round(cost * rng.uniform(0.92, 1.15), 2)}


def bridge(goods: list[dict[str, float | str | bool]], rate: tuple[float, float]) -> dict[str, float]:
    """Return the effects by name, `total` last."""
    units0, units1 = (sum(float(one[key]) for one in goods) for key in ("units0", "units1"))
    rates = [rate if one["is_export"] else (1.0, 1.0) for one in goods]
    unit0 = [float(one["price0"]) * r[0] - float(one["cost0"]) for one, r in zip(goods, rates, strict=True)]
    profit0 = sum(float(one["units0"]) * margin for one, margin in zip(goods, unit0, strict=True))
    profit1 = sum(
        float(one["units1"]) * (float(one["price1"]) * r[1] - float(one["cost1"]))
        for one, r in zip(goods, rates, strict=True)
    )
    at_old = sum(float(one["units1"]) * margin for one, margin in zip(goods, unit0, strict=True))
    pairs = list(zip(goods, rates, strict=True))
    return {
        "volume": (units1 - units0) * profit0 / units0,
        "mix": at_old - units1 * profit0 / units0,
        "price": sum(float(g["units1"]) * (float(g["price1"]) - float(g["price0"])) * r[0] for g, r in pairs),
        "cost": -sum(float(g["units1"]) * (float(g["cost1"]) - float(g["cost0"])) for g in goods),
        "fx": sum(float(g["units1"]) * float(g["price1"]) * (r[1] - r[0]) for g, r in pairs),
        "total": profit1 - profit0,
    }


def shown(value: float | str | bool) -> str:
    """Return a number as the table shows it."""
    return f"{value:,}" if isinstance(value, int) else f"{float(value):.2f}"


def as_json(values: dict[str, float]) -> str:
    """Return numbers as JSON."""
    import json

    return json.dumps(values)
