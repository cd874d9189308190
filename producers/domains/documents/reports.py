"""Reports to be summarised: what matters of each is known by topic, long as the report has it and short in two ways."""

import random
from types import MappingProxyType

import msgspec

from producers.domains.entities import CITIES, GOODS, MONTHS, company, person, words


class Fact(msgspec.Struct, frozen=True):
    """Something that a report says."""

    topic: str
    """As a request names it."""
    long: str
    short: tuple[str, str]
    keys: str
    """Names of the values that a summary has to have, with blanks between."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A report, and what a summary of it says."""

    text: str
    topics: list[str]
    summaries: tuple[str, ...]
    """The same in several mixtures of words."""
    keys: list[str]


SCENES: MappingProxyType[str, tuple[str, tuple[Fact, ...]]] = MappingProxyType(
    {
        "incident": (
            "Incident report, prepared by %(clerk)s",
            (
                Fact(
                    "what failed and when",
                    "On %(day)s, shortly after the night shift had taken over, the %(system)s at %(firm)s stopped "
                    "answering; first alarms had been taken for a test.",
                    (
                        "On %(day)s the %(system)s of %(firm)s failed.",
                        "The %(system)s at %(firm)s went down on %(day)s.",
                    ),
                    "day system",
                ),
                Fact(
                    "how long it lasted",
                    "All attempts to restart it were in vain until a spare part came; service was back after %(num)s "
                    "minutes, counted from the first alarm.",
                    ("It was out for %(num)s minutes.", "Service was back after %(num)s minutes."),
                    "num",
                ),
                Fact(
                    "the cause",
                    "The inquiry ruled out an attack and sabotage; it found that %(cause)s, which nobody had noticed "
                    "since the check had been put off twice.",
                    ("The cause was that %(cause)s.", "It happened because %(cause)s."),
                    "culprit",
                ),
                Fact(
                    "who was affected",
                    "Counting those who wrote in and those who only tried, %(many)s customers could not use the "
                    "service, most of them in %(town)s.",
                    (
                        "%(many)s customers were affected, mostly in %(town)s.",
                        "It hit %(many)s customers, most of them in %(town)s.",
                    ),
                    "many town",
                ),
                Fact(
                    "what it cost",
                    "Refunds, overtime and the spare part add up to EUR %(cost)s, of which insurance is expected to "
                    "bear nothing.",
                    ("The cost is EUR %(cost)s.", "In all it cost EUR %(cost)s."),
                    "cost",
                ),
                Fact(
                    "what is done about it",
                    "The board has decided that %(remedy)s; %(owner)s answers for it and reports by %(later)s.",
                    (
                        "%(owner)s is to see to it by %(later)s that %(remedy)s.",
                        "By %(later)s, under %(owner)s, %(remedy)s.",
                    ),
                    "owner later",
                ),
            ),
        ),
        "results": (
            "Quarterly update of %(firm)s",
            (
                Fact(
                    "revenue",
                    "Revenue came to EUR %(cost)s thousand in the quarter that ended in %(month)s, which management "
                    "calls solid given the weather.",
                    (
                        "Revenue of %(firm)s was EUR %(cost)s thousand.",
                        "%(firm)s had revenue of EUR %(cost)s thousand.",
                    ),
                    "cost",
                ),
                Fact(
                    "growth",
                    "Against the same quarter of last year this is a rise of %(pct)s per cent, against the plan it is "
                    "roughly nothing.",
                    ("That is %(pct)s per cent more than a year ago.", "It grew by %(pct)s per cent year on year."),
                    "pct",
                ),
                Fact(
                    "the margin",
                    "The operating margin, after years of small steps, reached %(margin)s per cent, helped by lower "
                    "freight rates.",
                    (
                        "The operating margin was %(margin)s per cent.",
                        "Its operating margin reached %(margin)s per cent.",
                    ),
                    "margin",
                ),
                Fact(
                    "the workforce",
                    "At the end of the quarter %(many)s people worked for the group, trainees and temporary staff "
                    "included.",
                    ("It employs %(many)s people.", "%(many)s people work there."),
                    "many",
                ),
                Fact(
                    "investment",
                    "The largest single project remains the plant in %(town)s, for which %(num)s million have been set "
                    "aside and of which the roof is finished.",
                    ("%(num)s million go into the plant in %(town)s.", "The plant in %(town)s takes %(num)s million."),
                    "num town",
                ),
                Fact(
                    "the change at the top",
                    "As announced at the meeting, %(owner)s takes over as chief financial officer on %(later)s from "
                    "%(clerk)s, who retires.",
                    (
                        "%(owner)s becomes chief financial officer on %(later)s.",
                        "From %(later)s on %(owner)s is chief financial officer.",
                    ),
                    "owner later",
                ),
            ),
        ),
        "recall": (
            "Notice to retailers by %(firm)s",
            (
                Fact(
                    "which product",
                    "This concerns the article %(goods)s with lot %(lot)s, sold under several names, and no other "
                    "article of the range.",
                    (
                        "%(firm)s recalls the %(goods)s, lot %(lot)s.",
                        "The %(goods)s of lot %(lot)s by %(firm)s is recalled.",
                    ),
                    "goods lot",
                ),
                Fact(
                    "why",
                    "In a routine test the laboratory found that %(cause)s; further tests are under way and may take "
                    "some weeks.",
                    ("The reason is that %(cause)s.", "Tests found that %(cause)s."),
                    "culprit",
                ),
                Fact(
                    "how many were sold",
                    "Between spring and summer %(many)s pieces went to shops, of which about half are thought to have "
                    "been sold on.",
                    ("%(many)s pieces were delivered.", "In all %(many)s pieces went out."),
                    "many",
                ),
                Fact(
                    "harm done",
                    "So far %(hurt)s people have reported slight injuries; nobody had to stay in hospital.",
                    ("%(hurt)s people were slightly hurt.", "There were %(hurt)s slight injuries."),
                    "hurt",
                ),
                Fact(
                    "what retailers have to do",
                    "Whoever has stock takes it off the shelves at once and sends it to the warehouse in %(town)s, "
                    "carriage forward, by %(later)s.",
                    ("Stock goes back to %(town)s by %(later)s.", "Retailers return stock to %(town)s by %(later)s."),
                    "town later",
                ),
                Fact(
                    "whom to ask",
                    "Questions are answered by %(owner)s on weekdays, by telephone or letter, and on no account by the "
                    "shops' own staff.",
                    ("%(owner)s answers questions.", "Questions go to %(owner)s."),
                    "owner",
                ),
            ),
        ),
        "minutes": (
            "Minutes of the works meeting at %(firm)s",
            (
                Fact(
                    "the decision on the site",
                    "After a long debate, and against two votes, it was decided to move the %(system)s to %(town)s on "
                    "%(later)s.",
                    (
                        "The %(system)s moves to %(town)s on %(later)s.",
                        "On %(later)s the %(system)s is moved to %(town)s.",
                    ),
                    "system town later",
                ),
                Fact(
                    "the budget",
                    "For this EUR %(cost)s are granted, a third less than had been asked for in the first paper.",
                    ("EUR %(cost)s are granted for it.", "The budget is EUR %(cost)s."),
                    "cost",
                ),
                Fact(
                    "who is in charge",
                    "%(owner)s was elected to lead the move, since nobody else stood.",
                    ("%(owner)s leads the move.", "In charge is %(owner)s."),
                    "owner",
                ),
                Fact(
                    "the staff concerned",
                    "Of all those on the payroll, %(num)s will have to change their place of work; their travel is "
                    "paid for a year.",
                    ("%(num)s employees change their place of work.", "It concerns %(num)s employees."),
                    "num",
                ),
                Fact(
                    "what was put off",
                    "The question of the canteen, raised again by the shop floor, was put off until %(month)s for want "
                    "of time.",
                    ("The canteen was put off until %(month)s.", "The canteen waits until %(month)s."),
                    "month",
                ),
                Fact(
                    "the complaint",
                    "A complaint was heard that %(cause)s; the chair promised to look into it.",
                    ("There was a complaint that %(cause)s.", "Somebody complained that %(cause)s."),
                    "culprit",
                ),
            ),
        ),
    }
)
NOISE = (
    "The meeting room was changed at short notice.",
    "Coffee was served in the hall beforehand.",
    "An earlier draft had given %(x)s in place of the figure above, which was a slip of the pen.",
    "Last year the comparable figure had been %(x)s, under other rules.",
    "%(other)s, who was absent, sent greetings.",
    "A copy goes to the branch in %(place)s for the files.",
    "The previous paper on this, number %(x)s, is withdrawn.",
    "It rained throughout the day.",
    "Several of those present recalled similar cases from the nineties.",
    "The plan for next year is not a subject here.",
    "%(other)s had estimated %(x)s in spring, before anything was known.",
    "For comparison, the branch in %(place)s was named, where things stand differently.",
    "Thanks went to all who had helped, and to the neighbours for their patience.",
    "The layout of this paper follows the new template.",
)
SYSTEMS = (
    "booking system",
    "cold store",
    "payment gateway",
    "paint line",
    "telephone exchange",
    "baggage belt",
    "print shop",
    "data centre",
    "customer portal",
    "sorting machine",
)
CAUSES: MappingProxyType[str, dict[str, str]] = MappingProxyType(
    {
        "incident": {
            "pump": "a cooling pump had run dry",
            "certificate": "a certificate had expired",
            "cable": "a cable had been cut during roadworks",
            "battery": "the backup battery was empty",
            "filter": "a filter was clogged with dust",
            "valve": "a valve had been mounted the wrong way round",
        },
        "recall": {
            "seal": "a seal was brittle",
            "screws": "the screws were too short",
            "glue": "the glue gave way in the heat",
            "coating": "the coating had too much lead in it",
            "edge": "a sharp edge had been left on the rim",
            "label": "the label named the wrong load",
        },
        "minutes": {
            "night": "the night shift was two people short",
            "heating": "the heating failed at weekends",
            "parking": "parking spaces were given to visitors",
            "noise": "the noise in hall two was above the limit",
            "lockers": "lockers were opened without a warning",
            "overtime": "overtime was paid two months late",
        },
        "results": {"-": "-"},
    }
)
"""What went wrong, by kind of report and by the word that a summary needs of it."""
REMEDIES = (
    "a second supply line is laid",
    "checks are made every month",
    "old parts are replaced at all sites",
    "a standby crew is hired",
    "alarms go to two people at once",
)
LOTS = words("KX RT BD MV QL ZP")


def draw_report(rng: random.Random, num_facts: int, num_noise: int) -> Report:
    """Draw a report of so many facts among sentences that do not matter."""
    scene = rng.choice(list(SCENES))
    title, facts = SCENES[scene]
    values = filling(rng, scene)
    told = [facts[place] for place in sorted(rng.sample(range(len(facts)), num_facts))]
    sentences = [fact.long % values for fact in told]
    for noise in rng.sample(NOISE, num_noise):
        between = {"x": f"{rng.randint(20, 9_000):,}", "other": person(rng), "place": rng.choice(CITIES)}
        sentences.insert(rng.randint(1, len(sentences)), noise % between)
    keys = [values[name] for fact in told for name in fact.keys.split()]
    paragraphs = [" ".join(sentences[start : start + 4]) for start in range(0, len(sentences), 4)]
    return Report(
        text="\n\n".join([title % values, *paragraphs]),
        topics=[fact.topic for fact in told],
        summaries=tuple(
            " ".join(fact.short[(place * step + start) % 2] % values for place, fact in enumerate(told))
            for step in (0, 1)
            for start in (0, 1)
        ),
        keys=list(dict.fromkeys(keys)),
    )


def filling(rng: random.Random, scene: str) -> dict[str, str]:
    """Return what stands in the places of sentences."""
    months, culprit = rng.sample(MONTHS, 3), rng.choice(list(CAUSES[scene]))
    return {
        "firm": company(rng),
        "clerk": person(rng),
        "owner": person(rng),
        "day": f"{rng.randint(1, 28)} {months[0]}",
        "later": f"{rng.randint(1, 28)} {months[1]}",
        "month": months[2],
        "system": rng.choice(SYSTEMS),
        "cause": CAUSES[scene][culprit],
        "culprit": culprit,
        "remedy": rng.choice(REMEDIES),
        "town": rng.choice(CITIES),
        "goods": rng.choice(GOODS),
        "lot": f"{rng.choice(LOTS)}-{rng.randint(1000, 9999)}",
        "num": str(rng.randint(12, 480)),
        "many": f"{rng.randint(600, 90_000):,}",
        "cost": f"{rng.randint(10, 990)},{rng.randint(100, 999)}",
        "pct": f"{rng.randint(2, 19)}.{rng.randint(1, 9)}",
        "margin": f"{rng.randint(3, 17)}.{rng.randint(1, 9)}",
        "hurt": str(rng.randint(21, 58)),
    }
