"""Summaries that are short and have what matters."""

import random

from producers.domains.catalogue import domain
from producers.domains.documents.reports import draw_report
from producers.domains.interface import Item
from producers.domains.verdicts import in_tags, verdict
from schemas.parts import Part

SHAPES = ((3, 3), (4, 6), (5, 9), (6, 13))
"""By level: what matters, sentences that do not."""
ASKED = (
    "Summarise this for somebody who has no time to read it, in at most {most} words, in short plain sentences. It "
    "has to say: {topics}.",
    "Write an abstract of at most {most} words. Cover {topics}; leave out all else.",
    "In at most {most} words, what does one have to know of this? Say {topics}, with the figures and names.",
)
CRITERIA = (
    "It says nothing that the text does not say.",
    "It leaves out what does not matter.",
    "It reads well: whole sentences, in a sensible order.",
)


@domain(family="documents", levels=4, max_tokens=300)
def documents_summary(rng: random.Random, level: int) -> Item:
    """Summarise a report in few words."""
    report = draw_report(rng, *SHAPES[level])
    gold = report.summaries[0]
    most = 10 * (max(len(one.split()) for one in report.summaries) // 8 + 1)
    question = rng.choice(ASKED).format(most=most, topics=", ".join(report.topics))
    parts = (
        Part(kind="length", name="too long", role="penalty", extract="tag:summary",
             options={"unit": "words", "free": most, "full": 2 * most}),
        Part(kind="rouge_l", name="likeness", extract="tag:summary", expected=list(report.summaries), weight=0.4,
             options={"floor": 0.3}),
        # Likeness first: figures and names without a sentence around them are no summary.
        Part(kind="contains", name="facts", extract="tag:summary", expected=report.keys, weight=0.45, after=0.2,
             options={"ignore_case": True}),
        Part(kind="judge", extract="tag:summary", expected=gold, weight=0.15, after=0.3,
             options={"question": f"{question}\n\n{report.text}", "criteria": list(CRITERIA)}),
    )  # fmt: skip
    halves = gold.split(". ")
    half = ". ".join(halves[: (len(halves) + 1) // 2]).rstrip(".") + "."
    return Item(
        prompt=f"{report.text}\n\n{question} Write it between <summary> and </summary>.",
        gold=(in_tags(summary=gold),),
        verifier=verdict(*parts),
        partials=((in_tags(summary=half),),),
        wrongs=(
            (in_tags(summary=report.text),),
            (in_tags(summary="This report describes several points that matter to the company and its staff."),),
            (in_tags(summary="; ".join(reversed(report.keys))),),
        ),
        difficulty=4 * len(report.topics) + len(report.text) / 300,
    )
