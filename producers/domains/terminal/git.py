"""Repositories to be repaired."""

import random

import msgspec

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.terminal.git_stories import STORIES
from producers.domains.terminal.verdicts import asked, machine
from schemas.tasks import VerifierSpec


@domain(family="terminal", levels=4, max_tokens=512)
def terminal_git_repair(rng: random.Random, level: int) -> Item:
    """Repair a git repository after an accident, or find out what happened in it."""
    story = rng.choice(STORIES)(rng, level)
    files = story.repository.files(with_log=story.with_log)
    execution = msgspec.structs.replace(machine(files, setup=story.setup), cases=story.cases)
    question = f"The working directory is a git repository. {story.question} Then say that it is done."
    return Item(
        prompt=asked(rng, question if "JSON" not in story.question else question.rpartition(" Then")[0], execution),
        gold=story.gold,
        verifier=VerifierSpec(kind="parts", parts=story.parts),
        execution=execution,
        max_turns=8 + 2 * level,
        partials=story.partials,
        wrongs=story.wrongs,
        difficulty=story.weight,
    )
