"""Specs that cannot be judged by are refused, with the part and the field."""

from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.parts import Part
from schemas.tasks import VerifierSpec
from streams.verifiers.parts.checking import check_spec

EXACT = {"kind": "exact", "expected": "7"}
SQL = {"kind": "sql", "expected": [[1]], "options": {"setup": "CREATE TABLE t (a)"}}


def checked(*parts: dict[str, Any]) -> None:
    check_spec(VerifierSpec(kind="parts", parts=tuple(Part(**fields) for fields in parts)))


def test_other_verifiers_have_nothing_to_check_and_a_plain_part_passes() -> None:
    check_spec(VerifierSpec(kind="stdout_match", expected=""))
    checked(EXACT, EXACT | {"name": "again", "after": 0.5, "of": "file:out/a.txt", "extract": "tag:answer"})


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"kind": "guess"}, r"part 0 \(guess\), kind: kind of part 'guess' is not known; known are: absent, cases"),
        (EXACT | {"name": "a.b"}, r"part 0 \(a.b\), name: got 'a.b'"),
        (EXACT | {"name": "kinds"}, "not 'kinds'"),
        (EXACT | {"options": {"ignore_cas": True}}, "`ignore_cas`"),
        (EXACT | {"options": {"white_space": "some"}}, r"\$.white_space"),
        (EXACT | {"expected": 7}, r"part 0 \(exact\): Expected `str \| array`"),
        (EXACT | {"expected": " "}, "expected: got an empty text"),
        (EXACT | {"of": "file:/etc/passwd"}, "of: got 'file:/etc/passwd'"),
        (EXACT | {"of": "file:a/../b"}, "below the working directory"),
        (EXACT | {"of": "prompt"}, "one of answer, text, stdout"),
        (EXACT | {"extract": "first_line"}, "extract: got 'first_line'"),
        (EXACT | {"extract": "tag:"}, "extract"),
        (EXACT | {"weight": float("nan")}, "weight: got nan"),
        (EXACT | {"weight": -1}, "weight: got -1"),
        (EXACT | {"weight": 0}, "a weight of 0 for every part"),
        (EXACT | {"at_least": 0, "role": "gate"}, "at_least: got 0"),
        (EXACT | {"after": 0.5}, "after: got 0.5; wanted 0: there is no credit before it"),
        (EXACT | {"role": "veto"}, "neither a credit nor a gate"),
        (EXACT | {"role": "penalty", "weight": 2}, "at most 1, for a penalty"),
        ({"kind": "absent", "expected": "a"}, "role: got 'credit'; wanted one of gate"),
        ({"kind": "length", "options": {"full": 3}}, "role"),
        ({"kind": "length", "role": "penalty", "options": {"full": 0}}, "0 <= free < full"),
        ({"kind": "numeric", "expected": float("inf")}, "expected: got inf"),
        ({"kind": "numeric", "expected": 1, "options": {"relative": -1}}, "relative: got -1"),
        ({"kind": "numeric", "expected": 1, "options": {"unit": "kg"}}, "unit"),
        ({"kind": "regex", "expected": "("}, "which is no pattern"),
        ({"kind": "regex", "expected": "a*"}, "which an empty text fits"),
        ({"kind": "contains", "expected": ["a", " "]}, "in every text"),
        ({"kind": "contains", "expected": []}, "length >= 1"),
        ({"kind": "rouge_l", "expected": "..."}, "0 words"),
        ({"kind": "schema", "options": {"schema": {"type": "thing"}}}, "schema: at"),
        ({"kind": "schema", "expected": {"a": 1}, "options": {"schema": {"required": ["b"]}}}, "does not fit"),
        ({"kind": "schema", "options": {"schema": {"$ref": "other.json"}}}, "elsewhere"),
        ({"kind": "schema"}, "neither a value nor"),
        (SQL | {"options": {"setup": "CREATE TABEL t (a)"}}, "setup: near"),
        (SQL | {"expected": [[1], [1, 2]]}, "several lengths"),
        (SQL | {"options": {"setup": "", "also": [{"setup": "DROP", "expected": [[1]]}]}}, "setup: incomplete"),
        ({"kind": "stdout", "expected": "7", "of": "stderr"}, "of: got 'stderr'; wanted stdout"),
        ({"kind": "stdout", "expected": "7", "extract": "json"}, "looks at no text"),
        ({"kind": "stdout", "expected": "\n"}, "expected: got an empty text"),
        ({"kind": "cases", "expected": {"a": None}}, "no case that counts"),
        ({"kind": "cases", "expected": {"a": {"ends": "any"}}}, r"expected\.a: got a case that a program passes"),
        ({"kind": "cases", "expected": {"a": {"ends": "ok"}, "b": "7"}}, r"expected\.a"),
        ({"kind": "cases", "expected": {"a": {"ends": "ok"}}, "options": {"needs": ["a"]}}, r"expected\.a"),
        ({"kind": "cases", "expected": {"a": "\n", "b": "7"}}, r"expected\.a"),
        ({"kind": "cases", "expected": {"a": "7", "b": {"ends": "fails"}}}, r"expected\.b: got ends = fails"),
        ({"kind": "cases", "expected": {"a": "7"}, "options": {"needs": ["b"]}}, "needs: got 'b'"),
        ({"kind": "milestones", "expected": [{"call": "a"}, {}]}, r"expected\[1\]: got call '', answers ''"),
        ({"kind": "milestones", "expected": [{"call": "a", "prints": "("}]}, "no pattern"),
        ({"kind": "table", "expected": [{"a": 1}, {"b": 1}]}, r"expected\[1\]"),
        ({"kind": "table", "expected": [{"a": 1}], "options": {"partial": "cells"}}, "without ordered"),
        (
            {"kind": "geometry", "expected": {"ops": [{"op": "move", "id": "b", "of": "a", "by": [0, 0, 0]}]}},
            r"ops\[0\]",
        ),
        ({"kind": "geometry", "expected": {"ops": [{"op": "cone", "id": "b"}]}}, "cone"),
        ({"kind": "math", "expected": "9^{9^9}"}, "too large"),
        ({"kind": "math", "expected": "what?"}, "words"),
        ({"kind": "judge", "options": {"question": "q"}}, "criteria: got none"),
        ({"kind": "judge", "options": {"question": "q", "mode": "pairwise"}}, "expected: got none"),
        ({"kind": "judge", "options": {"question": "q", "criteria": ["a"], "scale": 0}}, "scale"),
    ],
)
def test_a_part_that_cannot_be_judged_by_is_refused_by_name_and_field(part: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        checked(part)


def test_a_spec_without_parts_with_too_many_or_with_one_name_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="got 0 parts"):
        checked()
    with pytest.raises(ConfigError, match="got 33 parts"):
        checked(*[EXACT] * 33)
    with pytest.raises(ConfigError, match=r"part 1 \(exact\), name: got 'exact'; wanted a name that no other part has"):
        checked(EXACT, EXACT)
