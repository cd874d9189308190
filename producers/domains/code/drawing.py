"""Which problem a level asks for, with examples to show and examples to test by."""

import random

from producers.domains.code import plans_books, plans_graphs, plans_text
from producers.domains.code.pipelines import draw_pipeline
from producers.domains.code.problem import Example, Plan, Problem, draw_examples, draw_problem

PLANS: tuple[Plan, ...] = (*plans_text.PLANS, *plans_books.PLANS, *plans_graphs.PLANS)
STEPS = (3, 4, 6, 8)
"""Of a pipeline, by level."""
NUM_LEVELS = len(STEPS)
SHARE_OF_PIPELINES = 0.3


def draw_any(rng: random.Random, level: int) -> Problem:
    """Return a problem of that level."""
    if rng.random() < SHARE_OF_PIPELINES:
        return draw_pipeline(rng, STEPS[level])
    return draw_planned(rng, level)


def draw_planned(rng: random.Random, level: int) -> Problem:
    """Return a problem of that level, of those that are asked for often in other words and numbers."""
    return draw_problem(rng.choice([plan for plan in PLANS if plan.level == level]), rng)


def draw_tested(
    rng: random.Random, level: int, *, num_shown: int, num_hidden: int
) -> tuple[Problem, list[Example], list[Example]]:
    """Return a problem, the examples that are shown, and others by which it is tested; no two have one result."""
    while True:
        problem = draw_any(rng, level)
        examples = draw_examples(problem, rng, num_shown + num_hidden)
        if len(examples) == num_shown + num_hidden:
            return problem, examples[:num_shown], examples[num_shown:]
