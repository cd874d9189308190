"""What single kinds of parts take for right: numbers, sets, tables, queries, cases, milestones."""

import json
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.executions import Outcome
from schemas.tools import written
from streams.verifiers.parts.extraction import extracted, last_json, read_json
from streams.verifiers.parts.mathematics import elements
from streams.verifiers.parts.rows import MOST_PAIRS, f1, num_matched, ordered_share
from tests.streams.part_examples import Turn, failed, ran, rollout, worth
from tests.streams.stage_fakes import ok


@pytest.mark.parametrize(
    ("text", "expected", "options", "value"),
    [
        ("12.5", 12.5, {}, 1),
        ("It is 12.50.", 12.5, {}, 1),
        ("0.1", 0.1, {}, 1),
        ("0.30000000000000004", 0.3, {}, 0),
        ("1,234,567.5", 1234567.5, {}, 1),
        ("1,23", 123, {}, 0),
        ("12,34,567", 1234567, {}, 0),
        ("1_000", 1000, {}, 0),
        ("-5", -5, {}, 1),
        ("\u22125", -5, {}, 1),
        ("-$5", -5, {}, 1),
        ("$-5", -5, {}, 1),
        ("(5)", -5, {"accounting": True}, 1),
        ("(5)", 5, {}, 1),
        ("1e3", 1000, {}, 1),
        ("1e999", 1e308, {}, 0),
        ("12.5%", 0.125, {}, 1),
        ("12.5 %", 12.5, {"unit": "%"}, 1),
        ("12.5", 12.5, {"unit": "%"}, 1),
        ("0.125", 12.5, {"unit": "%"}, 0),
        ("125 bps", 1.25, {"unit": "%"}, 1),
        ("3.2m", 3_200_000, {}, 1),
        ("3.2 million", 3.2, {"unit": "m"}, 1),
        ("3,200,000", 3.2, {"unit": "m"}, 0),
        ("3200k", 3.2, {"unit": "m"}, 1),
        ("0.0032bn", 3.2, {"unit": "m"}, 1),
        ("3.2 m", 3.2, {}, 1),
        ("$3.2M", 3.2, {"unit": "m", "currency": "$"}, 1),
        ("\u20ac3.2M", 3.2, {"unit": "m", "currency": "$"}, 0),
        ("3.2kg", 3.2, {}, 0),
        ("x7", 7, {}, 0),
        ("7 or 8", 7, {}, 0),
        ("7, that is 7.0", 7, {}, 1),
        ("7 or 8", 8, {"pick": "last"}, 1),
        ("\u0667", 7, {}, 0),
        ("\uff17", 7, {}, 0),
        ("1\u0667", 1, {}, 0),
        ("\u0667", 7, {"unicode_digits": True}, 1),
        ("\u00b2", 2, {"unicode_digits": True}, 0),
        ("nan", 0, {"absolute": 1e300}, 0),
        ("inf", 0, {"absolute": 1e300}, 0),
        ("101", 100, {"relative": 0.01}, 1),
        ("101.01", 100, {"relative": 0.01}, 0),
        ("105.5", 100, {"relative": 0.01, "fades_at": 0.1}, 0.5),
        ("110", 100, {"relative": 0.01, "fades_at": 0.1}, 0),
        ("10.05%", 10, {"unit": "%", "absolute": 0.05}, 1),
        ("10.06%", 10, {"unit": "%", "absolute": 0.05}, 0),
        ("", 0, {}, 0),
    ],
)
def test_a_number_is_read_with_its_unit_and_compared_within_its_tolerance(
    text: str, expected: float, options: dict[str, Any], value: float
) -> None:
    assert worth(text, "numeric", expected, **options) == pytest.approx(value)


@given(number=st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4))
def test_a_number_is_right_however_it_is_grouped(number: Decimal) -> None:
    expected = float(number)
    for text in (f"{number:f}", f"{number:,f}", f"so {number:+,f}.", f"{number:.9e}"):
        assert worth(text, "numeric", expected, relative=1e-9, absolute=1e-9) == 1


@pytest.mark.parametrize(
    ("text", "how", "piece"),
    [
        ("a\n\n b \n\n", "last_line", "b"),
        ("\n", "last_line", None),
        ("x\n```py\n1\n```\n```\n2\n3\n```\nend", "fenced", "2\n3"),
        ("```\n1\n", "fenced", None),
        (r"\boxed{1} or \boxed{\frac{1}{2}}", "boxed", r"\frac{1}{2}"),
        (r"\boxed{a \boxed{b} c}", "boxed", r"a \boxed{b} c"),
        (r"\boxed{a \boxed{b}", "boxed", "b"),
        (r"\boxed{\{1, 2\}}", "boxed", r"\{1, 2\}"),
        (r"\boxed {7}", "boxed", "7"),
        (r"boxed{7}", "boxed", None),
        ('a {"b": {"c": [1]}} d [2', "json", '{"b": {"c": [1]}}'),
        ('{"a": 1} {"b": 2}', "json", '{"b": 2}'),
        ('{"a": "}"}', "json", '{"a": "}"}'),
        ("[1, NaN]", "json", None),
        ("<a>1</a><a> 2 </a>", "tag:a", "2"),
        ("<a>1", "tag:a", None),
        ("</a><a>", "tag:a", None),
    ],
)
def test_the_last_piece_of_its_kind_is_cut_out(text: str, how: str, piece: str | None) -> None:
    assert extracted(text, how) == piece


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(value=JSON.filter(lambda value: isinstance(value, list | dict)), before=st.text(alphabet="ab \n{", max_size=9))
def test_json_is_found_behind_any_words(value: Any, before: str) -> None:
    text = f"{before} {json.dumps(value)} ab"
    found = last_json(text)
    assert found is not None
    assert found[1] == value == read_json(found[0])
    assert extracted(text, "json") == found[0]


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "1e999", "", "1 2", "[" * 50_000, "9" * 5000, "{'a': 1}"])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 whatever is wrong with it
        read_json(text)


@pytest.mark.parametrize(
    ("text", "expected", "value"),
    [
        ("1e6", "1000000", 1),
        ("$1e6$", "1000000", 1),
        ("1.5e-3", "0.0015", 1),
        ("(1,2)", "(1,2)", 1),
        ("$(1, \\frac{4}{2})$", "(1,2)", 1),
        ("(2,1)", "(1,2)", 0),
        ("[1,2]", "(1,2)", 0),
        ("[1,2)", "[1,2)", 1),
        ("(1,2,3)", "(1,2)", 0),
        ("((1,2),3)", "((1,2),3)", 1),
        (r"\left(1,2\right)", "(1,2)", 1),
        (r"\{2,1\}", r"\{1,2\}", 1),
        ("(x+1)^2", "x^2+2x+1", 1),
        ("0.5", r"\frac12", 1),
        ("x=5", "5", 1),
        ("the answer is $5$", "5", 1),
        ("$5$ or $6$", "5", 0),
        ("5, 6", "5", 0),
        ("5 or 6", "6", 0),
        ("5$6", "5", 0),
        ("nan", "5", 0),
        (r"\infty", "5", 0),
        ("\u0665", "5", 0),
        ("1+1", "2", 1),
        ("10^{9999999999}", "5", 0),
        (r"\sum_{n=1}^{5} 1", "5", 0),
        (r"\binom{5}{1}", "5", 0),
        (r"\binom{y!}{12!}", "5", 0),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", 1),
    ],
)
def test_expressions_are_equal_where_they_are(text: str, expected: str, value: float) -> None:
    assert worth(text, "math", expected) == value


@pytest.mark.parametrize(("text", "value"), [("391", 1), ("17*23", 0), (r"17\times 23", 0), ("400-9", 0)])
def test_what_is_to_be_worked_out_must_be(text: str, value: float) -> None:
    assert worth(text, "math", "391", worked_out=True) == value


@given(st.text(alphabet="()[]{},1x ", max_size=20))
def test_a_tuple_is_cut_where_its_commas_are(text: str) -> None:
    found = elements(text)
    if found:
        assert text.replace(" ", "") == (found[0] + ",".join(found[1:-1]) + found[-1]).replace(" ", "")


def test_flooding_a_set_costs_and_what_is_named_twice_counts_once() -> None:
    names = ["anna", "ben"]
    assert worth("anna, ben, anna, ben", "set_f1", names) == 1
    assert worth("- anna\n- ben", "set_f1", names) == 1
    assert worth(", ".join([*names, *map(str, range(198))]), "set_f1", names) == pytest.approx(4 / 202)
    assert worth("anna", "set_f1", names, only_whole=True) == 0
    assert worth("[1.0, true]", "set_f1", [1, True]) == 1
    assert worth('[1, {"a": 2}]', "set_f1", [1]) == 0


def test_leaves_that_nobody_asked_for_count_against_json() -> None:
    expected = {"a": 1, "b": [1, {"c": "x"}]}
    assert worth(json.dumps(expected), "schema", expected) == 1
    assert worth('{"a": 1}', "schema", expected) == pytest.approx(1 / 3)
    assert worth(json.dumps(expected | dict.fromkeys("defghi", 0)), "schema", expected) == pytest.approx(3 / 9)
    assert worth('{"a": 1, "b": [{"c": "x"}, 1]}', "schema", expected) == pytest.approx(1 / 3)
    assert worth('{"a": 1, "b": [{"c": "x"}, 1]}', "schema", expected, unordered=True) == 1
    assert worth('{"a": 1, "a": 2, "b": [1, {"c": "X"}]}', "schema", expected, ignore_case=True) == pytest.approx(2 / 3)
    assert worth('{"a": true, "b": [1, {"c": "x"}]}', "schema", expected) == pytest.approx(2 / 3)
    assert worth(json.dumps([0] * 5000), "schema", expected) == 0


def test_a_schema_alone_is_enough_and_what_does_not_fit_is_worth_nothing() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
    assert worth('{"a": 1}', "schema", schema=schema) == 1
    assert worth('{"a": "1"}', "schema", schema=schema) == 0
    assert worth('{"a": 1, "b": 2}', "schema", {"a": 1, "b": 3}, schema=schema) == 0.5


SETUP = "CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, NULL);"


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("SELECT a, b FROM t", 1),
        ("SELECT a, b FROM t ORDER BY a DESC;", 1),
        ("WITH u AS (SELECT * FROM t) SELECT * FROM u", 1),
        ("SELECT a * 1.0, b FROM t", 1),
        ("SELECT a, b FROM t WHERE a < 3", 0.8),
        ("SELECT b, a FROM t", 0),
        ("SELECT a FROM t", 0),
        ("SELECT a, b FROM t UNION ALL SELECT a, b FROM t", 2 / 3),
        ("SELECT a, b FROM t; DROP TABLE t", 0),
        ("DELETE FROM t RETURNING a, b", 0),
        ("PRAGMA table_info(t)", 0),
        ("ATTACH '/tmp/x' AS y", 0),
        ("SELECT random(), b FROM t", 0),
        ("SELECT a, b FROM t WHERE current_timestamp > 0", 0),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i FROM n", 0),
        ("SELECT count(*), 1 FROM t, t AS u, t AS v, " + ", ".join(f"t AS w{i}" for i in range(20)), 0),
        ("SELECT hex(zeroblob(900000000)), 1", 0),
        ("SELEC a", 0),
        ("", 0),
        ("VALUES (1, 'x'), (2, 'y'), (3, NULL)", 1),
    ],
)
def test_a_query_is_worth_the_rows_that_it_gives(query: str, value: float) -> None:
    expected = [[1, "x"], [2, "y"], [3, None]]
    assert worth(query, "sql", expected, setup=SETUP) == pytest.approx(value)


def test_a_query_that_writes_its_rows_down_is_found_out_by_another_database() -> None:
    also = [{"setup": SETUP.replace("'y'", "'z'"), "expected": [[1, "x"], [2, "z"], [3, None]]}]
    expected = [[1, "x"], [2, "y"], [3, None]]
    assert worth("SELECT a, b FROM t", "sql", expected, setup=SETUP, also=also) == 1
    written_down = "VALUES (1, 'x'), (2, 'y'), (3, NULL)"
    assert worth(written_down, "sql", expected, setup=SETUP, also=also) == pytest.approx(2 / 3)
    assert worth(written_down, "sql", expected, setup=SETUP, also=also, partial=False) == 0


def test_large_tables_are_compared_and_hostile_ones_are_given_up_without_much_work() -> None:
    def table(noise: float, sign: int = 1) -> str:
        return "a,b\n" + "".join(f"{number},{sign * number / 7 + noise}\n" for number in range(2000))

    rows = [{"a": number, "b": number / 7} for number in range(2000)]
    assert worth(table(1e-9), "table", rows, absolute=1e-6) == 1
    calls = 0

    def same(a: Any, b: Any) -> bool:
        nonlocal calls
        calls += 1
        return False

    assert num_matched([[number] for number in range(2000)], [[-number] for number in range(1, 2001)], same) == 0
    assert calls <= MOST_PAIRS


ROWS = st.lists(st.tuples(st.integers(0, 3), st.none() | st.sampled_from("xy")), min_size=1, max_size=8)


@given(rows=ROWS, others=ROWS, data=st.data())
def test_rows_agree_whatever_their_order_and_never_more_than_in_full(rows: Any, others: Any, data: Any) -> None:
    def same(a: Any, b: Any) -> bool:
        return bool(a == b)

    assert num_matched(data.draw(st.permutations(rows)), rows, same) == len(rows)
    common = num_matched(others, rows, same)
    assert common == num_matched(rows, others, same) == (Counter(rows) & Counter(others)).total()
    assert 0 <= f1(common, len(others), len(rows)) <= 1
    assert ordered_share(rows, rows, same) == 1


def test_rows_that_are_to_be_in_order_are() -> None:
    options = {"setup": SETUP, "ordered": True}
    assert worth("SELECT a FROM t ORDER BY a DESC", "sql", [[3], [2], [1]], **options) == 1
    assert worth("SELECT a FROM t ORDER BY a", "sql", [[3], [2], [1]], **options) == pytest.approx(1 / 3)
    assert worth("SELECT a FROM t ORDER BY a", "sql", [[3], [2], [1]], partial=False, **options) == 0


def test_cells_and_places_of_a_table_can_count() -> None:
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert worth("b,a\ny,2\nx,1", "table", rows) == 1
    assert worth("b,a\ny,2\nx,1", "table", rows, ordered=True) == 0
    assert worth("a,b\n1,x\n2,z", "table", rows, ordered=True, partial="cells") == 0.75
    assert worth("a,b\n1,x\n2,z", "table", rows, partial="none") == 0
    assert worth("a,b\n1.0, X \n2,y", "table", rows, ignore_case=True) == 1
    assert worth("a,b\n" + "1,x\n2,y\n" * 4, "table", rows) == pytest.approx(4 / 10)
    assert worth("a,b\n" + "9,z\n" * 5000, "table", rows) == 0
    assert worth("a,b\n\uff11,x\n1_0,y", "table", rows) == 0


def test_a_case_that_was_cut_or_not_run_is_no_success() -> None:
    expected = {"a": "7", "b": {"stdout": "8", "ends": "any"}}
    cut = Outcome(status="ok", stdout=b"7", stdout_bytes=2)
    assert worth(ran(cut, failed("8")), "cases", expected) == 0.5
    assert worth(ran(ok("7")), "cases", expected) == 0.5
    assert worth(ran(ok("7"), failed("8", status="timed_out")), "cases", expected) == 1
    assert worth(ran(ok("7"), ok("")), "cases", expected, all_or_nothing=True) == 0
    assert worth(ran(failed("7"), failed("8")), "cases", expected) == 0.5
    twin = {"right": {"ends": "ok"}, "twin": {"ends": "fails"}}
    assert worth(ran(ok(""), failed(status="timed_out")), "cases", twin, needs=["right"]) == 1
    assert worth(ran(ok("0"), ok("7")), "cases", {"shown": None, "hidden": "7"}) == 1
    with pytest.raises(ValueError, match="3 cases were run and 2 are expected"):
        worth(ran(ok(""), ok(""), ok("")), "cases", expected)


def test_milestones_are_reached_by_turns_of_their_own_in_their_order() -> None:
    look, note = Turn(written("look"), ok("a key")), Turn(written("open", door=2), ok("open"))
    expected = [{"call": "look", "prints": "key"}, {"call": "open", "arguments": {"door": 2}}, {"answers": "done"}]
    assert worth(rollout(look, note, "done"), "milestones", expected) == 1
    assert worth(rollout(look, look, note, "done"), "milestones", expected) == 1
    assert worth(rollout(note, look, "done"), "milestones", expected) == pytest.approx(1 / 3)
    assert worth(rollout(look, note), "milestones", expected) == pytest.approx(2 / 3)
    assert worth(rollout(look, note), "milestones", expected, all_or_nothing=True) == 0
    assert worth(rollout("look", "open", "done"), "milestones", expected) == 0
    said = Turn(f"a key! {written('look')} done", ok(""))
    assert worth(rollout(said, note, "done"), "milestones", expected) == 0


def test_rouge_is_the_f1_of_the_longest_common_subsequence_of_words() -> None:
    assert worth("the cat sat", "rouge_l", "the cat sat on the mat") == pytest.approx(2 * 3 / 9)
    assert worth("mat the on sat cat the", "rouge_l", "the cat sat on the mat") == pytest.approx(2 * 3 / 12)
    assert worth("", "rouge_l", ["a b", "c"]) == 0
    assert worth("C!", "rouge_l", ["a b", "c"]) == 1


def test_no_disguise_hides_a_word_from_a_loose_search() -> None:
    for text in ("j a n e", "JANE", "J-a\u200bn.e", "\uff2aane", "ja\u00adne"):
        assert worth(text, "contains", "Jane", loose=True) == 1
        assert worth(text, "contains", "Jane") == 0
