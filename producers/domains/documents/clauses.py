"""Which clause of an agreement decides a case, and what it says."""

import random

import msgspec

from producers.domains.catalogue import domain
from producers.domains.documents.contracts import Clause, draw_clauses, head, numbered, with_boilerplate, written
from producers.domains.interface import Item
from producers.domains.verdicts import in_tags, not_longer, shape, tagged_number, tagged_set, verdict

SHAPES = ((7, 2, 1), (11, 4, 1), (14, 5, 2), (18, 7, 3))
"""By level: clauses that set terms, clauses that set none, cases to be decided."""
ASKED = (
    "Which clauses decide {these}, and what is the term that applies to {last} ({unit})?",
    "Find the clauses that govern {these}. Which figure applies to {last} ({unit})?",
    "Counsel is asked about {these}. Name the clauses that answer this, and the figure that applies to {last} "
    "({unit}).",
)


@domain(family="documents", levels=4, max_tokens=400)
def documents_clause_lookup(rng: random.Random, level: int) -> Item:
    """Find the clauses of an agreement that decide a case, and the figure that applies."""
    num_terms, num_others, num_cases = SHAPES[level]
    clauses = draw_clauses(rng, num_terms)
    texts = with_boilerplate(rng, [clause.text for clause in clauses], num_others)
    agreement = numbered(texts)
    asked = rng.sample(clauses, num_cases)
    value, schedule, places = asked[-1].value, "", [number_of(agreement, clause) for clause in asked]
    if level >= 2:
        schedule, value, number = overruled(
            rng, asked[-1], places[-1], [c for c in clauses if c not in asked], agreement
        )
        places.append(number)
    cases = [rng.choice(clause.topic.cases) for clause in asked]
    listed = cases[0] if len(cases) == 1 else "; ".join(f"({'abc'[place]}) {case}" for place, case in enumerate(cases))
    last = "it" if len(cases) == 1 else f"case ({'abc'[len(cases) - 1]})"
    question = rng.choice(ASKED).format(these=f"this: {listed}", last=last, unit=asked[-1].topic.unit)
    gold = in_tags(clauses=", ".join(places), figure=f"{value:,}")
    other = next(number for number in agreement if number not in places)
    too_long = not_longer("clauses", 8 * len(places) + 8, 8 * len(places) + 32)
    return Item(
        prompt=f"{written(head(rng), agreement)}{schedule}\n\n{question}"
        + (" Where a special condition changes a clause, name both." if schedule else "")
        + f"\n{shape(clauses='clause numbers, with commas between', figure='a number')}",
        gold=(f"The clauses are these.\n{gold}",),
        verifier=verdict(tagged_set("clauses", places, 0.6), tagged_number("figure", value, 0.4), too_long),
        partials=((in_tags(clauses=f"{places[0]}", figure=value + 1),),),
        wrongs=((in_tags(clauses=other, figure=value + 1),), (in_tags(clauses=", ".join(agreement), figure=0),)),
        difficulty=len(texts) + 6 * len(places),
    )


def number_of(agreement: dict[str, str], clause: Clause) -> str:
    """Return a clause's number in an agreement."""
    return next(number for number, text in agreement.items() if text == clause.text)


def overruled(
    rng: random.Random, clause: Clause, number: str, others: list[Clause], agreement: dict[str, str]
) -> tuple[str, int, str]:
    """Return special conditions one of which changes a clause, the term that then applies, and its number."""
    changed = [clause, *rng.sample(others, 2)]
    rng.shuffle(changed)
    lines, found, value = [], "", clause.value
    for place, one in enumerate(changed, 1):
        new = rng.choice([value for value in one.topic.values if value != one.value])
        place_of = number if one is clause else number_of(agreement, one)
        lines.append(f"S{place} Clause {place_of} applies with {new:,} in place of {one.value:,}.")
        if one is clause:
            found, value = f"S{place}", new
    return "\n\nSPECIAL CONDITIONS\n" + "\n".join(lines), value, found


def reworded(clause: Clause) -> Clause:
    """Return a clause that says the same in other words."""
    return msgspec.structs.replace(clause, wording=1 - clause.wording, in_words=not clause.in_words)
