"""A plate or a flange with a pattern of holes."""

import math
import random
from collections.abc import Sequence
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.solids.workshop import box, cylinder, scene_item

Pattern = tuple[dict[str, Any], str, Sequence[tuple[float, float]]]
"""The blank, what is told of it, and where its holes are."""


@domain(family="3d", levels=4, max_tokens=256)
def solid_hole_pattern(rng: random.Random, level: int) -> Item:
    """Drill a row, a grid or a circle of holes."""
    name = rng.choice(("plate", "flange", "cover", "faceplate", "adapter"))
    thick, radius = rng.randint(3, 12), rng.randint(2, 5)
    kind = ("row", "grid", "circle", "circle")[level]
    if kind == "circle":
        blank, told, centres = bolt_circle(rng, thick, radius, level)
    else:
        blank, told, centres = grid(rng, thick, radius, 1 if kind == "row" else rng.randint(2, 3))
    holes = [cylinder(f"hole{i}", radius, thick + 4, [x, y, thick / 2]) for i, (x, y) in enumerate(centres)]
    if level == 3:
        bore = rng.randint(6, 12)
        holes.append(cylinder("bore", bore, thick + 4, [*blank["at"][:2], thick / 2]))
        told += f" In its middle is a bore of diameter {2 * bore}."
    cut = {"op": "subtract", "id": name, "of": ["blank", *(hole["id"] for hole in holes)]}
    plain = {"op": "move", "id": name, "of": "blank", "by": [0, 0, 0]}
    return scene_item(
        f"Make a {name} with through holes and name the finished solid `{name}`. {told}",
        [blank, *holes, cut],
        [name],
        difficulty=6 + len(holes) + 8 * level,
        blank=[blank],
        partials=[[blank, *holes, {**cut, "of": cut["of"][:-1]}]],
        wrongs=[[blank, *holes], [blank, plain]],
    )


def grid(rng: random.Random, thick: int, radius: int, rows: int) -> Pattern:
    """Return a plate, what is told of it, and where its holes are."""
    columns, step = rng.randint(2, 5), rng.randint(3 * radius, 6 * radius)
    edge = rng.randint(2 * radius, 4 * radius)
    x, y = rng.randint(-30, 30), rng.randint(-30, 30)
    long, wide = (columns - 1) * step + 2 * edge, (rows - 1) * step + 2 * edge
    blank = box("blank", [long, wide, thick], [x + long / 2, y + wide / 2, thick / 2])
    centres = [(x + edge + step * i, y + edge + step * j) for j in range(rows) for i in range(columns)]
    told = (
        f"The plate lies on z = 0, {thick} thick, with one corner at ({x}, {y}), and goes {long} in +x and {wide} in "
        f"+y from there. It has {rows} row{'s' * (rows > 1)} of {columns} holes of diameter {2 * radius}; the first is "
        f"{edge} from both edges at that corner, and the distance from one to the next is {step} in both directions."
    )
    return blank, told, centres


def bolt_circle(rng: random.Random, thick: int, radius: int, level: int) -> Pattern:
    """Return a disc, what is told of it, and where its holes are."""
    num, circle = rng.randint(3, 6 + 2 * (level == 3)), rng.randint(24, 40)
    outer = circle + radius + rng.randint(3, 9)
    x, y = rng.randint(-30, 30), rng.randint(-30, 30)
    start = 0 if level == 2 else rng.choice((15, 30, 45))
    angles = [math.radians(start + 360 * i / num) for i in range(num)]
    centres = [(round(x + circle * math.cos(a), 4), round(y + circle * math.sin(a), 4)) for a in angles]
    first = "the +x direction" if start == 0 else f"{start} degrees from +x towards +y"
    told = (
        f"The disc lies on z = 0, {thick} thick, of diameter {2 * outer}, centred on ({x}, {y}). Its {num} holes of "
        f"diameter {2 * radius} are evenly spaced on a circle of diameter {2 * circle}, the first of them in {first}."
    )
    return cylinder("blank", outer, thick, [x, y, thick / 2]), told, centres
