"""Dossiers of many pages whose facts lead from one to the next: projects, people, companies and towns."""

import random
from types import MappingProxyType

import msgspec

from producers.domains.entities import CITIES, companies, people, words

PROJECTS = words("Aurora Borealis Caravel Dovetail Equinox Fathom Gauntlet Halcyon Isthmus Jubilee Keystone Longitude")
RIVERS = words(
    "Arve Brenta Coln Drava Erne Fulda Gauja Havel Isar Jagst Kupa Leven Mulde Nied Oder Piave Rega Sava Tisza "
    "Ubaye Vilaine Warta Yonne Zala Adour Bober Clyde Dendre Eure Ganga Herault Ijssel Kamp Liffey Mureck Narew"
)
TYPE_OF = MappingProxyType({
    "leader": "person", "mentor": "person", "employer": "company", "parent": "company", "seat": "town",
    "partner": "company", "home": "town", "river": "", "mayor": "",
})  # fmt: skip
"""What a relation leads to; nothing where that has no page."""
RELATIONS = MappingProxyType({
    "project": ("leader", "partner"), "person": ("employer", "mentor", "home"), "company": ("seat", "parent"),
    "town": ("river", "mayor"),
})  # fmt: skip
UPWARD = frozenset({"mentor", "parent"})
"""Relations among things of one kind, which never lead back; the last of a kind has none."""
SAYS = MappingProxyType({
    "leader": ("{b} leads {a}.", "Responsibility for {a} lies with {b}."),
    "partner": ("{a} is financed in part by {b}.", "Among the backers of {a} is {b}."),
    "employer": ("{a} works for {b}.", "{b} employs {a}."),
    "mentor": ("{a} learnt the trade from {b}.", "{b} was the mentor of {a}."),
    "home": ("{a} lives in {b}.", "The family home of {a} is in {b}."),
    "seat": ("{a} has its head office in {b}.", "The headquarters of {a} are in {b}."),
    "parent": ("{a} belongs to {b}.", "All shares of {a} are held by {b}."),
    "river": ("{a} lies on the river {b}.", "The river {b} runs through {a}."),
    "mayor": ("The mayor of {a} is {b}.", "{a} is governed by mayor {b}."),
})  # fmt: skip
FORMER = MappingProxyType({
    "leader": "Until {y} {a} was led by {b}.", "employer": "Until {y} {a} worked for {b}.",
    "seat": "Up to {y} the headquarters of {a} were in {b}.", "parent": "{a} belonged to {b} until {y}.",
    "mentor": "As a student, {a} admired {b}, though they never worked together.",
})  # fmt: skip
"""What is no longer so, or never was quite."""
ASKS = MappingProxyType({
    "leader": "the person who leads {a}", "employer": "the company that employs {a}",
    "mentor": "the mentor of {a}", "seat": "the town where {a} has its head office",
    "parent": "the company that owns {a}", "river": "the river on which {a} lies", "mayor": "the mayor of {a}",
})  # fmt: skip
FILLER = (
    "The archive holds {n} boxes of papers on {a}.",
    "A profile of {a} appeared in the {y} yearbook.",
    "{a} was mentioned {n} times in the press in {y}.",
    "The entry on {a} was last checked in {y}.",
    "A photograph kept with this entry dates from {y}.",
    "{n} readers have asked for this entry so far.",
    "An older version of this page was withdrawn in {y}.",
    "Letters that mention {a} were sold at auction in {y}.",
    "The {y} almanac gives {a} no more than {n} words.",
    "Of {n} questions sent in about {a}, most were answered.",
    "A talk about {a} drew {n} listeners in {y}.",
    "The index lists {a} under {n} headings.",
    "Two pages on {a} were lost in the move of {y}.",
    "A radio feature on {a} was first aired in {y}.",
)
CHAINS = (
    ("leader", "employer"),
    ("leader", "employer", "seat"),
    ("leader", "mentor", "employer", "seat"),
    ("leader", "mentor", "employer", "parent", "seat", "river"),
)
"""By level, what is followed from a project on."""


class Dossier(msgspec.Struct, frozen=True, kw_only=True):
    """Entries on things, and what relates them."""

    kinds: dict[str, str]
    """Of each entry that has a page."""
    facts: dict[tuple[str, str], str]
    """By entry and relation, what it leads to."""
    former: dict[tuple[str, str], str]
    """The same of what no longer holds."""
    pages: dict[str, int]


def draw_dossier(rng: random.Random, level: int) -> Dossier:
    """Draw a dossier, longer and with more that has changed on higher levels."""
    num = level + 3
    by_kind = {
        "project": rng.sample(PROJECTS, 2 + level // 2),
        "person": people(rng, 16)[:num],
        "company": companies(rng, num),
        "town": rng.sample(CITIES, 2 + level),
    }
    kinds = {name: kind for kind, names in by_kind.items() for name in names}
    rivers, mayors = rng.sample(RIVERS, len(by_kind["town"])), people(rng, len(by_kind["town"]))
    facts: dict[tuple[str, str], str] = {}
    former: dict[tuple[str, str], str] = {}
    for name, kind in kinds.items():
        for relation in RELATIONS[kind]:
            if not TYPE_OF[relation]:
                given = rivers if relation == "river" else mayors
                facts[name, relation] = given[by_kind["town"].index(name)]
                continue
            others = [one for one in by_kind[TYPE_OF[relation]] if one != name]
            if relation in UPWARD:
                others = others[by_kind[kind].index(name) :]
            if not others:
                continue
            picked = rng.sample(others, 2) if len(others) > 1 else others * 2
            facts[name, relation] = picked[0]
            if level >= 1 and relation in FORMER and picked[1] != picked[0] and rng.random() < 0.2 * level:
                former[name, relation] = picked[1]
    order = rng.sample(list(kinds), len(kinds))
    pages = {name: place for place, name in enumerate(order, 1)}
    return Dossier(kinds=kinds, facts=facts, former=former, pages=pages)


def written(rng: random.Random, dossier: Dossier, num_filler: int) -> str:
    """Return a dossier as a text, page by page, with so many sentences on each that say nothing of use."""
    return "\n\n".join(
        f"[Page {page}]\n{entry(rng, dossier, name, num_filler)}" for name, page in dossier.pages.items()
    )


def entry(rng: random.Random, dossier: Dossier, name: str, num_filler: int) -> str:
    """Return an entry as a text."""
    kind, facts, former = dossier.kinds[name], dossier.facts, dossier.former
    a = f"Project {name}" if kind == "project" else name
    sentences = [
        rng.choice(SAYS[relation]).format(a=a, b=facts[name, relation])
        for relation in RELATIONS[kind]
        if (name, relation) in facts
    ]
    sentences += [
        FORMER[relation].format(a=a, b=former[name, relation], y=rng.randint(2009, 2023))
        for relation in RELATIONS[kind]
        if (name, relation) in former
    ]
    sentences += [
        text.format(a=a, n=rng.randint(3, 400), y=rng.randint(1990, 2025)) for text in rng.sample(FILLER, num_filler)
    ]
    rng.shuffle(sentences)
    return f"{a}. {' '.join(sentences)}"


def followed(dossier: Dossier, start: str, chain: tuple[str, ...]) -> list[str]:
    """Return what a chain leads to, step by step, as far as it leads."""
    found = [start]
    for relation in chain:
        if (found[-1], relation) not in dossier.facts:
            break
        found.append(dossier.facts[found[-1], relation])
    return found


def asked(start: str, chain: tuple[str, ...]) -> str:
    """Return a question for the end of a chain."""
    text = f"Project {start}"
    for relation in chain:
        text = ASKS[relation].format(a=text)
    return text
