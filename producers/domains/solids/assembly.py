"""Parts that fit each other, each a solid of its own."""

import random
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.solids.workshop import box, cylinder, scene_item
from schemas.parts import Part


@domain(family="3d", levels=4, max_tokens=256)
def solid_assembly(rng: random.Random, level: int) -> Item:
    """Build a shaft with what sits on it: every part fits, none runs into another."""
    radius, length = rng.randint(4, 10), 2 * rng.randint(30, 60)
    ops: list[dict[str, Any]] = [cylinder("shaft", radius, length, [0, 0, length / 2])]
    told = [f"`shaft`: an upright cylinder of diameter {2 * radius}, {length} long, standing on the origin"]
    names, at, gap = ["shaft"], float(rng.randint(2, 8)), 0
    for number in range(2 + level):
        what = rng.choice(("bushing", "collar", "wheel", "gear", "spacer"))
        name, thick = f"{what}_{number + 1}", rng.randint(4, 9)
        slack = rng.choice((0, 0.5, 1)) if level >= 2 else 0
        outer = radius + rng.randint(3, 20)
        disc, hole = f"disc{number}", f"hole{number}"
        ops += [
            cylinder(disc, outer, thick, [0, 0, at + thick / 2]),
            cylinder(hole, radius + slack, thick + 2, [0, 0, at + thick / 2]),
            {"op": "subtract", "id": name, "of": [disc, hole]},
        ]
        fit = "a bore that fits the shaft exactly" if not slack else f"a bore with {slack:g} of play around the shaft"
        where = f"its lower face at z = {at:g}" if number == 0 else f"{gap_words(gap)} {names[-1]}"
        told.append(f"`{name}`: a disc of diameter {2 * outer}, {thick} thick, with {fit}, around it, {where}")
        names.append(name)
        gap = rng.choice((0, 0, 2, 5))
        at += thick + gap
    if level == 3:
        side = 2 * rng.randint(20, 40)
        ops.append(box("base", [side, side, 10], [0, 0, -5]))
        told.append(f"`base`: a square plate of edge {side}, 10 thick, under the shaft, centred on it, top at z = 0")
        names.append("base")
    look = Part(
        kind="milestones",
        name="looked",
        expected=[{"call": "render", "matches": {"view": "front"}}],
        weight=0.1,
        after=0.05,
    )
    return scene_item(
        "Build this assembly, each part a solid under its name:\n- "
        + "\n- ".join(told)
        + "\nThen render the last part that you have built from the front.",
        ops,
        names,
        apart=True,
        parts=[look],
        looks=["front"],
        difficulty=4 * len(names) + 2 * level,
        partials=[ops[:4]],
        wrongs=[[cylinder("shaft", radius * 3, length, [200, 0, length / 2])]],
    )


def gap_words(gap: int) -> str:
    """Return how far a part lies above the one before."""
    return "lying directly on" if gap == 0 else f"{gap} above"
