"""Every downstream domain as a package of a user would extend it: of two items in a hundred a judge has a say too.

Found by an entry point of the group `rollog.domains` (see `bench.slow_verifiers`). Names begin with `judged_`.
"""

import random

import msgspec

from producers.domains.catalogue import add, all_domains
from producers.domains.interface import Domain, Item
from schemas.parts import Part
from schemas.tasks import VerifierSpec

PREFIX = "judged_"
SHARE = 0.02
QUESTION = "Is it answered with care, as somebody who takes long to read would want it?"
"""By which whoever serves the judge knows these questions."""
CAREFUL = Part(
    kind="judge", name="careful", options={"question": QUESTION, "criteria": ["It is answered with care."]}, weight=0.01
)


def is_judged(spec: VerifierSpec) -> bool:
    """Return whether a task is one of those two in a hundred."""
    return any(part.name == CAREFUL.name for part in spec.parts)


def judged(found: Domain) -> Domain:
    """Return the domain with a judge for some of its items."""

    def draw(rng: random.Random, level: int) -> Item:
        item = found.draw(rng, level)
        if rng.random() >= SHARE:
            return item
        verifier = msgspec.structs.replace(item.verifier, parts=(*item.verifier.parts, CAREFUL))
        return msgspec.structs.replace(item, verifier=verifier)

    return msgspec.structs.replace(found, name=PREFIX + found.name, draw=draw, source="bench")


for one in [one for one in all_domains().values() if one.tier == "downstream" and not one.name.startswith(PREFIX)]:
    add(judged(one))
