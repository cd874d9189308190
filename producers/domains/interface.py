"""What a task family is: a function from a random source and a level to one problem, and what is known of it.

A domain decides nothing but the problem itself: who samples it, how often and with which limits is for the issuer to
say. It must draw from the generator that it is given and from nothing else, so that the same seed is the same problem
in any process. The split is not its business: a problem belongs to evaluation by a hash of what it asks, so that none
is ever in both.
"""

import random
from collections.abc import Callable
from typing import Literal

import msgspec

from schemas.content import record_digest
from schemas.errors import ConfigError
from schemas.tasks import ExecutionSpec, VerifierSpec

Tier = Literal["demo", "downstream", "puzzle", "file"]
ITEMS_PER_HELD_OUT = 5
"""One item in this many is held out."""
MOST_DRAWS = 2000
"""After which a split has no items: a domain with too few different ones."""


class SplitError(ConfigError):
    """A domain has too few different items to have some for training and others for evaluation."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a domain.

    Example: `Item(prompt="What is 3 + 4?", gold=("7",), verifier=VerifierSpec(kind="exact_match", expected="7"))`.
    """

    prompt: str
    """What the policy reads first."""
    gold: tuple[str, ...]
    """What a right rollout says, turn by turn."""
    verifier: VerifierSpec
    execution: ExecutionSpec | None = None
    """None: a turn is an answer and nothing runs."""
    max_turns: int = 1
    partials: tuple[tuple[str, ...], ...] = ()
    """Rollouts that are worth something, and less than everything; empty where nothing is."""
    wrongs: tuple[tuple[str, ...], ...] = ()
    """Rollouts that are worth next to nothing, though they look right: what a policy might hack."""
    difficulty: float = 0.0
    """How much has to be got right: facts to combine, steps to take. Its mean rises with the level."""


Draw = Callable[[random.Random, int], Item]


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """A family of problems under its name."""

    name: str
    family: str
    """Domains of a family share its weight."""
    tier: Tier
    draw: Draw
    """`(rng, level) -> Item`; `level` counts difficulty from 0."""
    levels: int = 1
    """How many there are; higher ones are the highest."""
    max_tokens: int = 0
    """That a turn needs, about; 0 leaves it to the settings."""
    source: str = ""
    """Whose problems these are: `rollog`, or the library and its version."""
    summary: str = ""
    is_reproducible: bool = True
    """Whether another process draws the same item from the same seed. A task holds the whole item either way."""
    draw_split: Callable[[random.Random, int, bool], Item] | None = None
    """`(rng, level, held_out) -> Item`, of a domain that knows by itself what is held out."""

    def item(self, rng: random.Random, level: int, held_out: bool) -> Item:
        """Return a problem of that split. Raises SplitError where too few different ones are drawn to find one."""
        level = min(max(level, 0), self.levels - 1)
        if self.draw_split is not None:
            return self.draw_split(rng, level, held_out)
        for _ in range(MOST_DRAWS):
            item = self.draw(rng, level)
            if is_held_out(item) == held_out:
                return item
        raise SplitError(
            f"domain {self.name!r}: {MOST_DRAWS} draws at level {level} gave no "
            f"{'held-out' if held_out else 'training'} item; it has too few different ones to be split"
        )


def question_digest(item: Item) -> str:
    """Return the digest of what an item asks: of two with one digest the second is no new problem."""
    execution = item.execution
    asked = () if execution is None else (execution.files, execution.setup)
    return record_digest((item.prompt, *asked))


def is_held_out(item: Item) -> bool:
    """Return whether an item belongs to evaluation."""
    return int(question_digest(item)[-8:], 16) % ITEMS_PER_HELD_OUT == 0
