"""What every kind of part keeps, whatever it looks at."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.executions import Outcome
from schemas.parts import Part
from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams.scoring import Job, job_of, trajectory_of
from streams.verifiers import Score, get_verifier
from streams.verifiers.parts import PART_KINDS
from streams.verifiers.parts.checking import check_spec
from streams.verifiers.parts.judging import MODEL, URL
from tests.streams.fake_judge import serving
from tests.streams.part_examples import EXAMPLES, QUESTION, Example, Turn, ran, rollout, with_text

KINDS = sorted(EXAMPLES)
NOT_OURS = {"puzzle"}
"""Scores by a library that tests do without; what reaches it, tests/streams/test_part_inert.py says."""
ABOUT_NOTHING = 0.05
HOSTILE = [
    "",
    " \n\t",
    "\0",
    "\ud800",
    "\u202e391",
    "nan",
    "-inf",
    "1e999999999",
    "\u0663\u0669\u0661",
    "(" * 5000,
    "[" * 100_000,
    '{"a":' * 5000,
    "{" * 5000 + "}" * 5000,
    "\\boxed{" * 5000,
    "```\n" * 5001,
    "<a>" * 5000,
    "a" * 300_000,
    "a," * 100_000,
    "1 " * 100_000,
    "\n" * 100_000,
    "9" * 10_000,
    "-" * 10_000,
    '{"a":1,' * 37_000,
    "\\boxed{" * 37_000,
    "\ufdfa" * 260_000,
    "x\n" * 130_000,
    "[" * 300 + "]" * 300,
    "[" * 800 + "1" + "]" * 800,
    '{"a":' * 90 + "{}" + "}" * 90,
    '{"a":' * 600 + "{}" + "}" * 600,
    '{"ops": ' + "[" * 500 + "]" * 500 + "}",
    '"' * 10_001,
    "[" + "1," * 50_000 + "1]",
    '{"ops": [{"op": "sphere", "id": "plate", "radius": 1e999}]}',
    "```\nWITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*), 1 FROM t\n```",
    "```\nSELECT hex(zeroblob(1000000000)), 1\n```",
    "```\nSELECT load_extension('x'), 1\n```",
    "```\nATTACH '/tmp/x' AS x\n```",
    "```\nSELECT \ud800\n```",
    "<tool_call>{</tool_call>",
]


@pytest.fixture(scope="module", autouse=True)
def judge() -> Iterator[None]:
    with serving() as served, pytest.MonkeyPatch.context() as patch:
        patch.setenv(URL, served.url)
        patch.setenv(MODEL, "judge")
        patch.setenv("no_proxy", "127.0.0.1")
        yield


LIBRARY = {"puzzle"}
"""Another library's own scoring: see tests/streams/test_puzzle_part.py."""


def score(spec: VerifierSpec, trajectory: Trajectory) -> Score:
    return get_verifier("parts").score(spec, trajectory)


def value(example: Example, trajectory: Trajectory) -> float:
    return score(example.spec, trajectory).value


def test_every_kind_has_an_example() -> None:
    assert set(PART_KINDS) - LIBRARY == set(EXAMPLES)
    for name, kind in PART_KINDS.items():
        assert kind.name == name
        assert kind.version >= 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_is_a_spec_that_is_admitted(kind: str) -> None:
    check_spec(EXAMPLES[kind].spec)


@pytest.mark.parametrize("kind", KINDS)
def test_gold_is_worth_1_and_what_is_half_right_less(kind: str) -> None:
    example = EXAMPLES[kind]
    assert value(example, example.gold) == 1
    for trajectory in example.partial:
        assert 0 < value(example, trajectory) < 1
    for trajectory in example.wrong:
        assert value(example, trajectory) <= ABOUT_NOTHING


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", "lorem ipsum dolor sit amet", "0", "{}", "[]", "yes", QUESTION])
def test_nothing_garbage_and_the_question_itself_are_worth_about_nothing(kind: str, text: str) -> None:
    example = EXAMPLES[kind]
    assert value(example, with_text(text, example.part)) <= ABOUT_NOTHING
    assert value(example, rollout()) <= ABOUT_NOTHING


@pytest.mark.parametrize("kind", KINDS)
def test_a_spec_says_the_same_after_a_round_trip_through_json_and_the_log(kind: str) -> None:
    example = EXAMPLES[kind]
    spec = msgspec.json.decode(msgspec.json.encode(example.spec), type=VerifierSpec)
    assert spec == example.spec
    spec = msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=VerifierSpec)
    job = msgspec.msgpack.decode(msgspec.msgpack.encode(job_of(spec, example.gold)), type=Job)
    assert score(job.spec, trajectory_of(job)) == score(example.spec, example.gold)


@pytest.mark.parametrize("kind", KINDS)
def test_a_score_changes_nothing_and_comes_out_the_same_again(kind: str) -> None:
    example = EXAMPLES[kind]
    before = msgspec.json.encode(example.spec)
    for trajectory in (example.gold, *example.partial, *example.wrong):
        first = score(example.spec, trajectory)
        assert score(example.spec, trajectory) == first
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(first), type=Score) == first
    assert msgspec.json.encode(example.spec) == before


def test_scores_are_the_same_in_another_process_with_other_hashes() -> None:
    code = (
        "import json; from tests.contracts.test_part_contract import *\n"
        "print(json.dumps({kind: [value(one, t) for t in (one.gold, *one.partial, *one.wrong)]"
        " for kind, one in EXAMPLES.items()}))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    root = Path(__file__).parents[2]
    found = subprocess.run([sys.executable, "-c", code], env=environment, cwd=root, capture_output=True, check=True)
    here = {
        kind: [value(one, trajectory) for trajectory in (one.gold, *one.partial, *one.wrong)]
        for kind, one in EXAMPLES.items()
    }
    assert json.loads(found.stdout) == here


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_answer_is_worth_nothing_and_no_error(kind: str) -> None:
    example = EXAMPLES[kind]
    for text in HOSTILE:
        assert value(example, with_text(text, example.part)) <= ABOUT_NOTHING, text[:40]


GOLD_TEXTS = [turn.record.text for example in EXAMPLES.values() for turn in example.gold.turns.values()]
PIECES = st.one_of(
    st.text(max_size=30), st.sampled_from(GOLD_TEXTS), st.sampled_from(["{", "}", "$", "\\", '"', ",", "^"])
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXTS)
@settings(max_examples=40, deadline=None)
def test_any_text_has_a_value_between_0_and_1(kind: str, text: str) -> None:
    part = EXAMPLES[kind].part
    found = score(EXAMPLES[kind].spec, with_text(text, part))
    assert 0 <= found.value <= 1
    assert all(0 <= one <= 1 for one in found.parts.values())
    msgspec.msgpack.encode(found)


@given(content=st.binary(max_size=200), status=st.sampled_from(["ok", "nonzero", "timed_out", "oom", "output_limit"]))
@settings(max_examples=60, deadline=None)
def test_any_output_has_a_value_between_0_and_1(content: bytes, status: str) -> None:
    outcome = Outcome(status=status, stdout=content, stdout_bytes=len(content))  # type: ignore[arg-type]
    for kind in ("stdout", "cases"):
        assert 0 <= value(EXAMPLES[kind], ran(outcome, outcome)) <= 1
    for of in ("stdout", "stderr", "status", "text"):
        spec = VerifierSpec(kind="parts", parts=(Part(kind="exact", of=of, expected="391"),))
        assert score(spec, rollout(Turn("x", outcome))).value == float(of == "stdout" and content.strip() == b"391")
