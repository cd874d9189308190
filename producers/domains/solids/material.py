"""Parts whose materials follow from what is asked of them."""

import random
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.solids.workshop import box, scene_item, sphere
from schemas.parts import Part

MATERIALS = ("steel", "aluminium", "brass", "titanium", "nylon", "acetal", "peek", "oak", "glass", "copper", "zinc")
SITES = ("heat_shield", "handle", "foot", "window", "frame", "counterweight", "guide_rail", "terminal")
Table = dict[str, dict[str, float]]


@domain(family="3d", levels=4, max_tokens=320)
def solid_material(rng: random.Random, level: int) -> Item:
    """Choose for each part the cheapest material that a table allows, build it, and say the total price."""
    table = draw_table(rng, 4 + 2 * level)
    ops: list[dict[str, Any]] = []
    told, names, price = [], rng.sample(SITES, 1 + level), 0.0
    for place, name in enumerate(names):
        size = [10 * rng.randint(5, 14) for _ in range(3)]
        right = table[rng.choice(list(table))]
        heat, light = right["limit"] - rng.randint(0, 15), right["density"] + rng.randint(0, 5) / 10
        fits = [m for m, row in table.items() if row["limit"] >= heat and (level == 0 or row["density"] <= light)]
        best = min(fits, key=lambda m: table[m]["price"])
        price += table[best]["price"] * table[best]["density"] * size[0] * size[1] * size[2] / 1e6
        ops += [box(name, size, [150 * place, 0, size[2] / 2]), {"op": "material", "of": name, "name": best}]
        told.append(
            f"`{name}`: a box {size[0]} x {size[1]} x {size[2]}, standing on z = 0 above ({150 * place}, 0); its "
            f"material stands {heat:g} C" + (f" and is no denser than {light:g} g/cm3" if level else "")
        )
    question = (
        f"Materials:\n{listed(table)}\nBuild each part and set its material: of those that do, the one with the lowest "
        "price per kg.\n- "
        + "\n- ".join(told)
        + "\nEnd with one line, the price of all parts' material together, rounded to two decimals."
    )
    options = {"absolute": 0.011}
    cost = Part(kind="numeric", extract="last_line", expected=round(price, 2), options=options, weight=0.5)
    return scene_item(
        question,
        ops,
        names,
        apart=True,
        parts=[cost],
        answer=f"All parts are built.\n{price:.2f}",
        difficulty=5 * len(names) + len(table),
        partials=[[op for op in ops if op["op"] == "box"]],
        wrongs=[],
        wrong_answers=[([sphere(names[0], 5, [0, 900, 0])], "0.00")],
    )


def draw_table(rng: random.Random, num: int) -> Table:
    """Return materials, no two of which have one price."""
    prices = rng.sample(range(5, 400), num)
    return {
        name: {"density": rng.randint(8, 90) / 10, "limit": 20.0 * rng.randint(4, 60), "price": price / 10}
        for name, price in zip(rng.sample(MATERIALS, num), prices, strict=True)
    }


def listed(table: Table) -> str:
    """Return the table as text."""
    return "\n".join(
        f"- {name}: {row['density']} g/cm3, up to {row['limit']:g} C, {row['price']:.2f} per kg"
        for name, row in table.items()
    )
