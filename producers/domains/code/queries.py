"""Questions to a database of two tables, each with the query that answers it."""

import random
from string import Template
from typing import Any

import msgspec

from producers.domains.code.databases import Theme


class Question(msgspec.Struct, frozen=True):
    """One question and its query, with `$` for names and what is chosen."""

    level: int
    text: str
    query: str


QUESTIONS = (
    Question(
        0,
        "List id and $amount of all $child of $state '$one' with $amount of at least $bound.",
        "SELECT id, $amount FROM $child WHERE $state = '$one' AND $amount >= $bound",
    ),
    Question(
        0,
        "For each $state, how many $child are there from $first on (that day included)? Columns: $state, number.",
        "SELECT $state, COUNT(*) FROM $child WHERE day >= '$first' GROUP BY $state",
    ),
    Question(
        0,
        "What is the total $amount of $child that are not of $state '$one', and how many such $child have an $amount? "
        "One row, two columns.",
        "SELECT SUM($amount), COUNT($amount) FROM $child WHERE $state <> '$one'",
    ),
    Question(
        0,
        "List the ids of $child before $first whose $amount is unknown or below $bound.",
        "SELECT id FROM $child WHERE day < '$first' AND ($amount IS NULL OR $amount < $bound)",
    ),
    Question(
        1,
        "For each $group: how many $parent have at least one of $child of $state '$one'? Columns: $group, number; only "
        "where there are any.",
        "SELECT p.$group, COUNT(DISTINCT p.id) FROM $parent p JOIN $child c ON c.$link = p.id "
        "WHERE c.$state = '$one' GROUP BY p.$group",
    ),
    Question(
        1,
        "Which $parent have a total $amount of more than $large over all their $child? Columns: $label, total.",
        "SELECT p.$label, SUM(c.$amount) FROM $parent p JOIN $child c ON c.$link = p.id "
        "GROUP BY p.id HAVING SUM(c.$amount) > $large",
    ),
    Question(
        1,
        "Per month (as YYYY-MM): number of $child and their highest $amount, without $state '$one'. Columns: month, "
        "number, highest.",
        "SELECT substr(day, 1, 7), COUNT(*), MAX($amount) FROM $child WHERE $state <> '$one' GROUP BY substr(day, 1, "
        "7)",
    ),
    Question(
        1,
        "The $k $child with the highest $amount among those of $parent in $group '$place', of equal ones the lower id "
        "first. Columns: id, $label, $amount.",
        "SELECT c.id, p.$label, c.$amount FROM $child c JOIN $parent p ON p.id = c.$link WHERE p.$group = '$place' "
        "ORDER BY c.$amount DESC, c.id LIMIT $k",
    ),
    Question(
        2,
        "For every one of $parent, also those without any: $label, number of $child from $first on (that day "
        "included), and their total $amount (0 where there is none).",
        "SELECT p.$label, COUNT(c.id), COALESCE(SUM(c.$amount), 0) FROM $parent p LEFT JOIN $child c "
        "ON c.$link = p.id AND c.day >= '$first' GROUP BY p.id",
    ),
    Question(
        2,
        "Which $parent have no $child of $state '$one' at all? Columns: id, $label.",
        "SELECT id, $label FROM $parent WHERE id NOT IN (SELECT $link FROM $child WHERE $state = '$one')",
    ),
    Question(
        2,
        "$child whose $amount is above the average $amount of all $child of the same $state. Columns: id, $state, "
        "$amount.",
        "SELECT c.id, c.$state, c.$amount FROM $child c WHERE c.$amount > "
        "(SELECT AVG(o.$amount) FROM $child o WHERE o.$state = c.$state)",
    ),
    Question(
        2,
        "Per $group, the share of $child that are of $state '$one', in percent, rounded to one decimal. Columns: "
        "$group, share; only groups with $child.",
        "SELECT p.$group, ROUND(100.0 * SUM(c.$state = '$one') / COUNT(*), 1) FROM $parent p JOIN $child c "
        "ON c.$link = p.id GROUP BY p.$group",
    ),
    Question(
        3,
        "For each $group the one of $child with the highest $amount (of equal ones the lowest id). Columns: $group, "
        "id, $amount. Leave out groups without $child.",
        "SELECT g, id, a FROM (SELECT p.$group AS g, c.id AS id, c.$amount AS a, ROW_NUMBER() OVER (PARTITION BY "
        "p.$group ORDER BY c.$amount DESC, c.id) AS place FROM $parent p JOIN $child c ON c.$link = p.id) WHERE "
        "place = 1",
    ),
    Question(
        3,
        "For each of $parent with $child, in order of day (then id), the running total of $amount, an unknown one "
        "counting as 0. Columns: $label, id of $child, running total. Only $child of $state '$one' or '$two'.",
        "SELECT p.$label, c.id, SUM(COALESCE(c.$amount, 0)) OVER (PARTITION BY p.id ORDER BY c.day, c.id) "
        "FROM $parent p JOIN $child c ON c.$link = p.id WHERE c.$state IN ('$one', '$two')",
    ),
    Question(
        3,
        "Which $parent have $child of every $state that occurs among $child? Columns: $label, number of their $child.",
        "SELECT p.$label, COUNT(*) FROM $parent p JOIN $child c ON c.$link = p.id GROUP BY p.id "
        "HAVING COUNT(DISTINCT c.$state) = (SELECT COUNT(DISTINCT $state) FROM $child)",
    ),
    Question(
        3,
        "For each one of $parent with at least two $child: the largest number of days between two that follow each "
        "other by day. Columns: $label, days.",
        "SELECT label, MAX(gap) FROM (SELECT p.id AS id, p.$label AS label, julianday(c.day) - julianday(LAG(c.day) "
        "OVER (PARTITION BY p.id ORDER BY c.day)) AS gap FROM $parent p JOIN $child c ON c.$link = p.id) "
        "WHERE gap IS NOT NULL GROUP BY id",
    ),
    Question(
        3,
        "Which $parent had a higher total $amount from $first on (that day included) than before it? Unknown amounts "
        "and missing $child count as 0. Columns: $label, difference.",
        "SELECT label, late - early FROM (SELECT p.$label AS label, "
        "SUM(CASE WHEN c.day >= '$first' THEN COALESCE(c.$amount, 0) ELSE 0 END) AS late, "
        "SUM(CASE WHEN c.day < '$first' THEN COALESCE(c.$amount, 0) ELSE 0 END) AS early "
        "FROM $parent p JOIN $child c ON c.$link = p.id GROUP BY p.id) WHERE late > early",
    ),
    Question(
        0,
        "The $k latest $child of $state '$one', by day, of equal days those with the higher id. Columns: id, day.",
        "SELECT id, day FROM $child WHERE $state = '$one' ORDER BY day DESC, id DESC LIMIT $k",
    ),
    Question(
        1,
        "How many $parent are there in each $group, where there are at least two? Columns: $group, number.",
        "SELECT $group, COUNT(*) FROM $parent GROUP BY $group HAVING COUNT(*) >= 2",
    ),
    Question(
        1,
        "For each of $parent with $child before $first: the mean of their known $amount, rounded to one decimal. "
        "Columns: $label, mean; leave out those of which no $amount is known.",
        "SELECT p.$label, ROUND(AVG(c.$amount), 1) FROM $parent p JOIN $child c ON c.$link = p.id "
        "WHERE c.day < '$first' GROUP BY p.id HAVING COUNT(c.$amount) > 0",
    ),
    Question(
        2,
        "Which $parent have $child, and only such of $state '$one' or '$two'? Columns: id, $label.",
        "SELECT p.id, p.$label FROM $parent p JOIN $child c ON c.$link = p.id GROUP BY p.id "
        "HAVING SUM(c.$state NOT IN ('$one', '$two')) = 0",
    ),
    Question(
        2,
        "All pairs of $parent of one $group, each pair once. Columns: the two $label, the one that is first in the "
        "alphabet first.",
        "SELECT a.$label, b.$label FROM $parent a JOIN $parent b ON a.$group = b.$group AND a.$label < b.$label",
    ),
    Question(
        3,
        "For each $state the second highest $amount, equal ones counting once. Columns: $state, $amount; leave out a "
        "$state with fewer than two different ones.",
        "SELECT c.$state, MAX(c.$amount) FROM $child c WHERE c.$amount < "
        "(SELECT MAX(o.$amount) FROM $child o WHERE o.$state = c.$state) GROUP BY c.$state",
    ),
    Question(
        3,
        "Which part of the total $amount of all $child falls to each $group, in percent, rounded to one decimal? "
        "Columns: $group, percent; only groups with a known $amount.",
        "SELECT p.$group, ROUND(100.0 * SUM(c.$amount) / (SELECT SUM($amount) FROM $child), 1) FROM $parent p "
        "JOIN $child c ON c.$link = p.id GROUP BY p.$group HAVING COUNT(c.$amount) > 0",
    ),
)
FAULTS = (
    ("LEFT JOIN", "JOIN"),
    ("COUNT(DISTINCT ", "COUNT("),
    (">= '", "> '"),
    (">=", ">"),
    (" < ", " > "),
    (" > ", " < "),
    (" DESC", ""),
    ("SUM(", "AVG("),
    ("HAVING", "WHERE"),
    ("MAX(", "MIN("),
    ("AVG(", "MAX("),
    (" AND ", " OR "),
    (" OR ", " AND "),
    ("NOT IN", "IN"),
    (" <> ", " = "),
    ("IS NULL", "= NULL"),
    ("IS NOT NULL", "<> NULL"),
    ("100.0 * ", ""),
    ("COALESCE(", "NULLIF("),
    ("COUNT(c.id)", "COUNT(*)"),
    (".$link = p.id", ".id = p.id"),
    ("p.id = c.$link", "p.id = c.id"),
    ("GROUP BY p.id", "GROUP BY p.$group"),
    ("GROUP BY p.$group", "GROUP BY p.id"),
    ("PARTITION BY p.$group ", ""),
    ("PARTITION BY p.id ", ""),
    ("place = 1", "place = 2"),
    ("FROM $child", "FROM $child, $parent"),
    ("$amount", "ammount"),
    ("LIMIT", "OFFSET"),
    ("substr(day, 1, 7)", "substr(day, 6, 2)"),
    (" WHERE $state = '$one'", ""),
)
"""What goes wrong in queries: from what it should be to what people write."""


def draw_values(theme: Theme, rng: random.Random) -> dict[str, Any]:
    """Return what is filled into a question of a theme."""
    one, two = rng.sample(theme.states, 2)
    return {
        **{name: getattr(theme, name) for name in ("parent", "label", "group", "child", "link", "amount", "state")},
        "one": one,
        "two": two,
        "place": rng.choice(theme.groups),
        "bound": theme.highest * rng.randint(3, 12) // 20,
        "large": theme.highest * rng.randint(4, 16) // 10,
        "first": f"2026-{rng.randint(2, 5):02d}-{rng.choice((1, 10, 15, 20)):02d}",
        "k": rng.randint(2, 4),
    }


def filled(text: str, values: dict[str, Any]) -> str:
    """Return a text with names and values in it."""
    return Template(text).substitute(values)


def broken_query(question: Question, values: dict[str, Any], rng: random.Random, num_faults: int) -> str:
    """Return the question's query with faults."""
    query = question.query
    for _ in range(num_faults):
        known = [(old, new) for old, new in FAULTS if old in query]
        old, new = rng.choice(known)
        query = query.replace(old, new, 1)
    return filled(query, values)


def num_clauses(query: str) -> int:
    """Return how much a query is made of."""
    words = ("JOIN", "WHERE", "GROUP", "HAVING", "SELECT", "OVER", "CASE", "DISTINCT", "ORDER", "AND", "COALESCE")
    return sum(query.count(word) for word in words)
