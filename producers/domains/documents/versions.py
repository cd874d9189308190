"""What changed from one version of an agreement to the next, and what only looks changed."""

import json
import random

import msgspec

from producers.domains.catalogue import domain
from producers.domains.documents.clauses import reworded
from producers.domains.documents.contracts import Clause, draw_clauses, head, numbered, with_boilerplate, written
from producers.domains.interface import Item
from producers.domains.verdicts import tagged_set, verdict
from schemas.parts import Part

SHAPES = ((7, 1, 0, 0), (10, 2, 2, 0), (13, 3, 3, 1), (16, 4, 5, 2))
"""By level: clauses, terms that change, clauses in other words, clauses added and as many removed."""


@domain(family="documents", levels=4, max_tokens=800)
def documents_diff(rng: random.Random, level: int) -> Item:
    """List the terms that differ between two versions of an agreement."""
    num, num_changed, num_reworded, num_moved = SHAPES[level]
    clauses = draw_clauses(rng, num + num_moved)
    kept, added = clauses[:num], clauses[num:]
    removed, rest = kept[:num_moved], kept[num_moved:]
    changed = [(old, with_other_value(rng, old, level)) for old in rest[:num_changed]]
    same = rest[num_changed:]
    after = [new for _, new in changed] + [reworded(one) for one in same[:num_reworded]] + same[num_reworded:]
    order = rng.sample(kept, len(kept))
    by_topic = {one.topic.heading: one for one in after}
    new_order = [by_topic[one.topic.heading] for one in order if one.topic.heading in by_topic]
    for one in added:
        new_order.insert(rng.randint(0, len(new_order)), one)
    title, seed = head(rng), rng.randrange(1 << 30)
    old_text, new_text = (laid_out(random.Random(seed), title, one, level) for one in (order, new_order))
    names = [f"changed {new.topic.heading}" for _, new in changed]
    names += [f"added {one.topic.heading}" for one in added] + [f"removed {one.topic.heading}" for one in removed]
    values = {new.topic.heading: new.value for _, new in changed}
    decoys = [f"changed {one.topic.heading}" for one in same[: max(num_reworded, 2)]]
    return Item(
        prompt=f"VERSION 1\n{old_text}\n\nVERSION 2\n{new_text}\n\n{rng.choice(OPENERS)} {RULES}",
        gold=(said(names, values),),
        verifier=verdict(
            tagged_set("changes", names, 0.6, written="lines"),
            Part(kind="schema", name="terms", extract="json", expected=values, weight=0.4),
        ),
        partials=((said(names, dict.fromkeys(values, -1)),), (said([*names, *decoys], values),)),
        wrongs=((said(decoys, dict.fromkeys(values, 0)),), (said(["none"], {}),)),
        difficulty=num + 5 * len(names) + 2 * num_reworded,
    )


OPENERS = (
    "Compare the two versions.",
    "The other side sent back version 2. What has it changed?",
    "Prepare a list of differences for the negotiating team.",
)
RULES = (
    "Rewording and renumbering do not count; what counts is which terms apply. First write,\n"
    "<changes>\none line for each difference: `changed`, `added` or `removed`, and the clause's heading\n</changes>\n"
    "then a JSON object with, by heading, the new figure of each changed term, as a plain number."
)


def said(names: list[str], values: dict[str, int]) -> str:
    """Return an answer."""
    lines = "\n".join(names)
    return f"<changes>\n{lines}\n</changes>\n{json.dumps(values)}"


def with_other_value(rng: random.Random, clause: Clause, level: int) -> Clause:
    """Return a clause with another term; on higher levels in other words, too."""
    value = rng.choice([value for value in clause.topic.values if value != clause.value])
    new = msgspec.structs.replace(clause, value=value)
    return reworded(new) if level >= 2 and rng.random() < 0.5 else new


def laid_out(rng: random.Random, title: str, clauses: list[Clause], level: int) -> str:
    """Return the agreement as a text; the same generator puts the same others among its clauses."""
    return written(title, numbered(with_boilerplate(rng, [clause.text for clause in clauses], 2 + level)))
