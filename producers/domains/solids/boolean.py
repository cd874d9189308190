"""One solid that is put together from, and cut out of, others."""

import random

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.solids.workshop import box, cylinder, scene_item, sphere

PARTS = ("bracket", "block", "housing", "manifold", "clamp", "carrier", "yoke", "pedestal")


@domain(family="3d", levels=4, max_tokens=256)
def solid_boolean(rng: random.Random, level: int) -> Item:
    """Join a base with bosses, and cut bores and pockets out of it."""
    name = rng.choice(PARTS)
    long, wide, high = 2 * rng.randint(20, 50), 2 * rng.randint(15, 40), 2 * rng.randint(6, 20)
    x, y = rng.randint(-40, 40), rng.randint(-40, 40)
    base = box("base", [long, wide, high], [x, y, high / 2])
    ops, joined, cut = [base], ["base"], []
    told = [f"a block {long} by {wide} by {high} (x, y, z) that stands on z = 0, centred above ({x}, {y})"]
    for number in range(1 + (level + 1) // 2):
        radius, tall = rng.randint(5, wide // 5), rng.randint(6, 25)
        shift = (number * 2 - (level + 1) // 2) * long // 6
        ops.append(cylinder(f"boss{number}", radius, tall + high / 2, [x + shift, y, (high / 2 + tall + high) / 2]))
        told.append(f"a round boss of radius {radius} above ({x + shift}, {y}) that rises {tall} above the block's top")
        joined.append(f"boss{number}")
    for number in range(level):
        bore = rng.randint(2, 4)
        side = (-1) ** number * (wide // 2 - 5 - 3 * number)
        ops.append(cylinder(f"bore{number}", bore, long + 10, [x, y + side, high / 2], "x"))
        told.append(f"a through bore of radius {bore} along x at y = {y + side}, half way up the block")
        cut.append(f"bore{number}")
    for _ in range(level != 1):
        radius = rng.randint(wide // 8, wide // 5)
        ops.append(sphere("dish", radius, [x - long / 2, y + wide / 4, high]))
        told.append(f"a dish, cut by a ball of radius {radius} around ({x - long / 2:g}, {y + wide / 4:g}, {high})")
        cut.append("dish")
    ops.append({"op": "union", "id": "joined", "of": joined})
    ops.append({"op": "subtract", "id": name, "of": ["joined", *cut]})
    question = f"Build a {name} and name the finished solid `{name}`. It is " + "; ".join(told) + "."
    return scene_item(
        question,
        ops,
        [name],
        difficulty=6 + 4 * len(told),
        blank=[base],
        partials=[[*ops[:-1], {"op": "subtract", "id": name, "of": ops[-1]["of"][:-1]}]],
        wrongs=[
            [base],
            [base, {"op": "move", "id": name, "of": "base", "by": [0, 0, 0]}],
            [*ops[:-1], {"op": "move", "id": name, "of": "joined", "by": [2 * long, 0, 0]}],
        ],
    )
