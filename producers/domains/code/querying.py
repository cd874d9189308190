"""Queries to be written and to be repaired; they are judged on databases that nobody was shown."""

import random
import sqlite3
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.code.databases import THEMES, Database, answer, draw_database, pool_of
from producers.domains.code.queries import QUESTIONS, Question, broken_query, draw_values, filled, num_clauses
from producers.domains.interface import Item
from schemas.parts import Part
from schemas.tasks import VerifierSpec

NUM_HIDDEN = 2
NUM_TRIED = 4
ASKS = ("Write one SQLite query.", "A report needs one SQL query (SQLite).", "Answer with a single SQLite statement.")
FIX_ASKS = (
    "This SQLite query does not give what was asked for. Repair it.",
    "The query below came back from review; it is wrong. Mend it.",
    "Someone's report is off. Find out what is wrong with its query, and repair it.",
)
ANSWER = "The order of rows does not matter. Write the query in one block between lines of ```."


@domain(family="code", levels=4, max_tokens=768)
def code_sql(rng: random.Random, level: int) -> Item:
    """Write a query that answers a question."""
    question, values, example, hidden = draw_question(rng, level)
    query = filled(question.query, values)
    return Item(
        prompt=f"{rng.choice(ASKS)}\n\n{told(example)}\n\n{filled(question.text, values)}\n\n{ANSWER}\n",
        gold=(block(query),),
        verifier=judged_by(query, hidden),
        wrongs=tuple((block(text),) for text in (constant(example, query), filled("SELECT * FROM $child", values))),
        difficulty=level * 3 + num_clauses(query),
    )


@domain(family="code", levels=4, max_tokens=768)
def code_sql_fix(rng: random.Random, level: int) -> Item:
    """Repair a query that does not answer its question."""
    num_faults = 1 + level // 2
    broken = None
    while broken is None:
        question, values, example, hidden = draw_question(rng, level)
        query = filled(question.query, values)
        broken = draw_broken(rng, question, values, hidden, num_faults)
    seen = result_of(example, broken)
    happens = (
        seen if isinstance(seen, str) else f"It runs, and on the rows above it gives {len(seen)} row(s): {seen[:3]}"
    )
    return Item(
        prompt=f"{rng.choice(FIX_ASKS)}\n\n{told(example)}\n\nWhat was asked: {filled(question.text, values)}\n\n"
        f"{block(broken)}\n\n{happens}\n\n{ANSWER}\n",
        gold=(block(query),),
        verifier=judged_by(query, hidden),
        wrongs=tuple((block(text),) for text in (constant(example, query), broken)),
        difficulty=num_faults * 20 + level * 3 + num_clauses(query),
    )


def draw_question(rng: random.Random, level: int) -> tuple[Question, dict[str, Any], Database, list[Database]]:
    """Return a question, what is filled in, a database to show, and others in which the query finds something else."""
    place = rng.randrange(len(THEMES))
    theme = THEMES[place]
    question = rng.choice([one for one in QUESTIONS if one.level == level])
    while True:
        values = draw_values(theme, rng)
        query = filled(question.query, values)
        example = draw_database(theme, rng, num_parents=4, num_children=6)
        hidden = rng.sample(pool_of(place), NUM_HIDDEN)
        results = [answer(database, query) for database in (example, *hidden)]
        if all(result and result[0][0] is not None for result in results[1:]) and all(
            results[0] != result for result in results[1:]
        ):
            return question, values, example, hidden


def draw_broken(
    rng: random.Random, question: Question, values: dict[str, Any], hidden: list[Database], num_faults: int
) -> str | None:
    """Return a query that is wrong in every database, None where none was found soon."""
    wanted = [answer(database, filled(question.query, values)) for database in hidden]
    for _ in range(NUM_TRIED):
        broken = broken_query(question, values, rng, num_faults)
        if all(is_other(result_of(one, broken), rows) for one, rows in zip(hidden, wanted, strict=True)):
            return broken
    return None


def told(database: Database) -> str:
    """Return the tables, and some rows of each."""
    theme = database.theme
    shown = [f"{theme.parent}: {row}" for row in database.parents] + [
        f"{theme.child}: {row}" for row in database.children
    ]
    rows = "\n".join(shown).replace("None", "NULL")
    return f"{theme.tables}\n\nSome rows, of many more:\n{rows}"


def judged_by(query: str, hidden: list[Database]) -> VerifierSpec:
    """Return the verifier that runs a query in databases of its own; each counts as a whole."""
    parts = (
        Part(
            kind="sql",
            name=f"database {number}",
            extract="fenced",
            expected=answer(database, query),
            options={"setup": database.setup, "partial": False},
        )
        for number, database in enumerate(hidden)
    )
    return VerifierSpec(kind="parts", parts=tuple(parts))


def result_of(database: Database, query: str) -> list[Any] | str:
    """Return the rows of a query, or how it fails."""
    try:
        return answer(database, query)
    except sqlite3.Error as error:
        return f"It fails: {error}"


def is_other(got: list[Any] | str, wanted: list[Any]) -> bool:
    """Return whether rows differ, whatever their order."""
    return isinstance(got, str) or sorted(map(repr, got)) != sorted(map(repr, wanted))


def constant(database: Database, query: str) -> str:
    """Return a query that gives the rows of the database shown, whatever there is."""
    rows = answer(database, query)
    if not rows:
        return "SELECT 1"
    values = ["NULL" if value is None else repr(value) for value in rows[0]]
    return f"SELECT {', '.join(values)}"


def block(query: str) -> str:
    """Return a query as an answer writes it."""
    return f"```sql\n{query}\n```"
