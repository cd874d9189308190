"""Solids whose places are told relative to each other."""

import random

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.solids.workshop import box, scene_item

GOODS = ("crate", "toolbox", "pallet", "carton", "cabinet", "battery", "switchbox", "drawer", "plinth", "server")
SIDES = {"right": (0, 1), "left": (0, -1), "behind": (1, 1), "in front": (1, -1), "on top": (2, 1)}
WORDS = {
    "right": "stands to the right (+x) of the {ref}, {gap} away from it",
    "left": "stands to the left (-x) of the {ref}, {gap} away from it",
    "behind": "stands behind (+y) the {ref}, {gap} away from it",
    "in front": "stands in front (-y) of the {ref}, {gap} away from it",
    "on top": "lies on top of the {ref}, touching it",
}


@domain(family="3d", levels=4, max_tokens=256)
def solid_placement(rng: random.Random, level: int) -> Item:
    """Place boxes beside, behind and on top of each other."""
    num = 2 + level
    names = rng.sample(GOODS, num)
    sizes = {name: [2 * rng.randint(5, 30) for _ in range(3)] for name in names}
    first = names[0]
    x, y = rng.randint(-50, 50), rng.randint(-50, 50)
    centres = {first: [float(x), float(y), sizes[first][2] / 2]}
    told = [f"the {first}, {dims(sizes[first])}, stands on the floor (z = 0), its centre above ({x}, {y})"]
    order = rng.sample([side for side in SIDES if side != "on top"], 4)
    topped: set[str] = set()
    for place, name in enumerate(names[1:]):
        base = first if place < 2 or level < 2 else names[place]
        side = "on top" if place % 2 == 1 and base not in topped else order[place % 4]
        topped |= {base} if side == "on top" else set()
        axis, sign = SIDES[side]
        gap = 0 if side == "on top" else rng.randint(2, 30)
        centre = [centres[base][0], centres[base][1], sizes[name][2] / 2]
        centre[axis] = centres[base][axis] + sign * ((sizes[base][axis] + sizes[name][axis]) / 2 + gap)
        if axis != 2:
            centre[2] = centres[base][2] - sizes[base][2] / 2 + sizes[name][2] / 2
        where = WORDS[side].format(ref=base, gap=gap)
        level_with = (
            "centred on it" if axis == 2 else f"centred on it in {'yx'[axis]}, its bottom as high as that one's"
        )
        told.append(f"the {name}, {dims(sizes[name])}, {where}, {level_with}")
        centres[name] = centre
    ops = [box(name, sizes[name], centres[name]) for name in names]
    overlaps = collides(names, sizes, centres)
    if overlaps:
        return solid_placement(rng, level)
    question = f"Set up this scene; each solid has the name that is used here: {'; '.join(told)}."
    return scene_item(
        question,
        ops,
        names,
        apart=True,
        difficulty=4 * num,
        partials=[ops[:1]],
        wrongs=[[box(name, sizes[name], [400.0, 400.0, 400.0 + 100 * i]) for i, name in enumerate(names)]],
    )


def dims(size: list[int]) -> str:
    """Return a size in words."""
    return f"{size[0]} x {size[1]} x {size[2]}"


def collides(names: list[str], sizes: dict[str, list[int]], centres: dict[str, list[float]]) -> bool:
    """Return whether two of the boxes run into each other."""
    return any(
        all(abs(centres[a][axis] - centres[b][axis]) < (sizes[a][axis] + sizes[b][axis]) / 2 for axis in range(3))
        for index, a in enumerate(names)
        for b in names[index + 1 :]
    )
