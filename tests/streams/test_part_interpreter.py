"""How parts add up, and what they look at."""

import signal
import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.history.lean import LEAN, Held
from schemas.errors import ConfigError
from schemas.executions import Outcome
from schemas.parts import Part
from schemas.rollouts import TurnGenerated
from schemas.scorings import VerifierChoice
from schemas.tasks import VerifierSpec
from schemas.tools import written
from schemas.trajectory import Trajectory
from streams.rescoring.judge import records_read
from streams.sandbox.inside.tree import Entry, pack
from streams.scoring import Finding, reward_of
from streams.verifiers import Score, get_verifier
from streams.verifiers.parts import PART_KINDS, interpreter
from streams.verifiers.parts.interface import AbstainError, Found, PartKind
from streams.verifiers.parts.interpreter import PARTS, cost_of
from streams.verifiers.parts.time_limit import time_limit
from streams.verifiers.worker import find
from tests import samples
from tests.streams.part_examples import EXAMPLES, Turn, failed, printed, rollout
from tests.streams.stage_fakes import ok

SEEN: list[str] = []


def told(text: str, expected: Any, _options: Any) -> Found:
    """Be worth what is expected, and note that one looked."""
    SEEN.append(text)
    if expected == "abstain":
        raise AbstainError("nobody is there")
    return Found(float(expected), "told")


@pytest.fixture(autouse=True)
def told_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    SEEN.clear()
    kind = PartKind(name="told", version=1, expects=Any, score=told)
    kinds = dict(PART_KINDS) | {"told": kind}
    monkeypatch.setattr(interpreter, "get_kind", kinds.__getitem__)


def part(value: Any, name: str = "", **fields: Any) -> Part:
    return Part(kind="told", name=name or f"n{len(SEEN)}{value}", expected=value, **fields)


def score(*parts: Part, at: Trajectory | None = None) -> Score:
    return get_verifier("parts").score(VerifierSpec(kind="parts", parts=parts), at or rollout("x"))


def test_credit_is_the_mean_by_weight() -> None:
    found = score(part(1, "a", weight=3), part(0.5, "b"), part(0, "c", weight=0))
    assert found.value == pytest.approx(3.5 / 4)
    assert found.parts == {"a": 1, "b": 0.5, "c": 0}
    assert found.evidence["a"] == "told"
    assert found.detail == "b 0.5, c 0"


def test_a_gate_that_is_not_passed_ends_it_and_nothing_after_it_is_looked_at() -> None:
    found = score(part(1, "a"), part(0.4, "g", role="gate", at_least=0.5), part(1, "b"))
    assert (found.value, found.parts, len(SEEN)) == (0, {"a": 1, "g": 0.4}, 2)
    assert found.detail == "gate g: 0.4 is below 0.5"
    assert score(part(0.5, "g", role="gate", at_least=0.5), part(0.8, "b")).value == 0.8
    assert score(part(1, "g", role="gate")).value == 1


def test_a_veto_counts_from_its_threshold_on() -> None:
    assert score(part(1, "a"), part(0.5, "v", role="veto", at_least=0.5), part(1, "b")).value == 0
    assert len(SEEN) == 2
    assert score(part(1, "a"), part(0.4, "v", role="veto", at_least=0.5)).value == 1


def test_penalties_are_taken_away_down_to_nothing() -> None:
    assert score(part(1, "a"), part(0.5, "p", role="penalty", weight=0.4)).value == pytest.approx(0.8)
    assert score(part(0.2, "a"), part(1, "p", role="penalty", weight=1.0)).value == 0


def test_a_dear_part_waits_for_the_credit_of_those_before_it() -> None:
    low = score(part(0.4, "a"), part(1, "b", after=0.5))
    assert (low.value, low.parts, len(SEEN)) == (pytest.approx(0.2), {"a": 0.4, "b": 0}, 1)
    assert "not looked at" in low.evidence["b"]
    assert score(part(0.5, "a"), part(1, "b", after=0.5)).value == 0.75
    assert score(part(0.4, "a"), part(1, "g", role="gate", after=0.5)).value == 0


def test_what_abstains_counts_for_nothing_either_way() -> None:
    found = score(part(0.5, "a"), part("abstain", "b", weight=9), part("abstain", "p", role="penalty", weight=1.0))
    assert (found.value, found.abstained, found.parts) == (0.5, ("b", "p"), {"a": 0.5})
    assert found.evidence["b"] == "abstained: nobody is there"
    assert score(part("abstain", "a"), part(1, "b", after=0.5)).value == 1


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([part("abstain", "a")], "nothing is left to judge by: a abstained"),
        ([part(1, "a"), part("abstain", "g", role="gate")], "gate g cannot be judged: nobody is there"),
        ([part(1, "a"), part("abstain", "v", role="veto")], "veto v cannot be judged"),
        ([part("nan", "a")], "part a is worth nan"),
        ([part(1.5, "a")], "part a is worth 1.5"),
        ([], "no parts"),
        ([Part(kind="exact", expected=7)], "Expected `str | array`, got `int`"),
    ],
)
def test_where_nobody_can_know_the_reward_is_invalid_with_a_reason(parts: list[Part], reason: str) -> None:
    finding = find(VerifierSpec(kind="parts", parts=tuple(parts)), rollout("x"))
    assert (finding.score, finding.invalid_reason) == (None, "verifier_error")
    assert reason in finding.detail


@given(
    values=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 10), st.sampled_from(["credit", "penalty"])), max_size=6),
    gate=st.floats(0, 1),
)
def test_any_parts_add_up_to_a_value_between_0_and_1(values: list[tuple[float, float, Any]], gate: float) -> None:
    parts = [part(v, f"{i}", weight=w, role=role) for i, (v, w, role) in enumerate(values)]
    found = score(part(1, "first"), *parts, part(gate, "gate", role="gate", at_least=0.5))
    assert 0 <= found.value <= 1
    if gate < 0.5:
        assert found.value == 0


OUTCOME = Outcome(status="nonzero", exit_code=1, stdout=b"out", stdout_bytes=3, stderr=b"\xff", stderr_bytes=1)


@pytest.mark.parametrize(
    ("of", "extract", "expected"),
    [
        ("answer", "", "b\nx = <a>7</a>"),
        ("answer", "last_line", "x = <a>7</a>"),
        ("answer", "tag:a", "7"),
        ("text", "", "a\nb\nx = <a>7</a>"),
        ("stdout", "", "out"),
        ("stderr", "", "\udcff"),
        ("status", "", "nonzero"),
    ],
)
def test_a_part_looks_at_what_it_names(of: str, extract: str, expected: str) -> None:
    at = rollout(Turn("a", OUTCOME), "b\nx = <a>7</a>")
    score(part(1, of=of, extract=extract), at=at)
    assert [expected] == SEEN


def test_a_file_is_that_of_the_last_working_directory_that_was_kept() -> None:
    trees = [pack({"out": Entry(0o755), "out/a.txt": Entry(0o644, content)}) for content in (b"old", b"n\xffw")]
    turns = [Turn("x", msgspec.structs.replace(OUTCOME, tree=tree)) for tree in trees]
    at = rollout(*turns, Turn("x", OUTCOME), "done")
    score(part(1, of="file:out/a.txt"), at=at)
    assert SEEN == ["n\udcffw"]
    for path in ("out", "b.txt", "out/a.txt/b"):
        assert score(part(1, of=f"file:{path}"), at=at).value == 0
    assert score(part(1, of="file:out/a.txt"), at=rollout("done")).evidence == {
        "kinds": "told@1",
        f"n1{1}": "no working directory was kept",
    }


@pytest.mark.parametrize("of", ["stdout", "stderr", "status", "file:a"])
def test_what_there_is_nothing_of_earns_and_costs_nothing(of: str) -> None:
    assert score(part(1, "a", of=of)).value == 0
    assert score(part(1, "g", of=of, role="gate", at_least=0.1)).value == 0
    assert score(part(1, "a"), part(1, "v", of=of, role="veto")).value == 1
    assert score(part(1, "a"), part(1, "b", extract="boxed")).value == 0.5


def test_nobody_escapes_a_veto_by_writing_more_than_is_kept() -> None:
    cut = Outcome(status="ok", stdout=b"a" * 10, stdout_bytes=20)
    at = rollout(Turn("x", cut))
    assert score(part(1, "a", of="stdout"), at=at).value == 0
    assert score(part(1, "a"), part(0, "v", of="stdout", role="veto"), at=at).value == 0
    assert score(part(1, "a"), part(0, "p", of="stdout", role="penalty", weight=0.3), at=at).value == 0.7
    assert score(part(1, "a"), part(0, "v", role="veto"), at=rollout("x" * (1 << 18) + "x")).value == 0


@pytest.mark.parametrize(
    ("kind", "expected", "options", "text"),
    [
        ("regex", "secret", {}, "x" * 20_001),
        ("regex", "secret", {"most_chars": 3}, "abcd"),
        ("contains", "secret", {"loose": True}, "\ufdfa" * 110_000),
        ("rouge_l", "secret", {}, "a " * 20_001),
        ("numeric", 7, {"pick": "last"}, "1 " * 10_001),
    ],
)
def test_nobody_escapes_a_veto_by_writing_more_than_is_looked_at(
    kind: str, expected: Any, options: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Part(kind=kind, expected=expected, options=options)
    monkeypatch.setattr(interpreter, "get_kind", PART_KINDS.__getitem__)
    other = Part(kind="contains", name="x", expected=text[0])
    assert score(other, one, at=rollout(text)).parts == {"x": 1, kind: 0}
    found = score(other, msgspec.structs.replace(one, role="veto"), at=rollout(text))
    assert (found.value, found.parts[kind]) == (0, 1)


def test_a_last_turn_that_calls_a_tool_is_no_answer() -> None:
    at = rollout(Turn(written("say", text="7"), ok("7")))
    assert score(part(1, "a"), at=at).value == 0
    assert SEEN == []


def test_a_program_that_printed_the_answer_and_failed_is_no_answer_of_kind_stdout() -> None:
    spec = Part(kind="stdout", expected="7")
    assert score(spec, at=printed("7")).value == 1
    assert score(spec, at=rollout(Turn("x", failed("7")))).value == 0
    with pytest.raises(ValueError, match="keep_bytes"):
        score(Part(kind="stdout", expected="7" * 20), at=rollout(Turn("x", Outcome(status="ok", stdout_bytes=30))))


def test_the_version_grows_with_every_kinds_and_a_reward_says_which_took_part() -> None:
    changes = [kind.version - 1 for kind in PART_KINDS.values()]
    assert interpreter.VERSION + sum(changes) == PARTS.version
    spec = VerifierSpec(kind="parts", parts=(Part(kind="exact", expected="x"), Part(kind="regex", expected="x")))
    reward = reward_of(samples.task(verifier=spec), 0, Finding(score=PARTS.score(spec, rollout("x"))))
    assert (reward.value, reward.verifier, reward.verifier_version) == (1.0, "parts", PARTS.version)
    assert reward.evidence["kinds"] == "exact@1, regex@1"


def test_the_version_of_a_kinds_library_is_evidence_and_one_that_is_missing_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from importlib.metadata import version

    rouge = Part(kind="rouge_l", expected="x")
    monkeypatch.setattr(interpreter, "get_kind", PART_KINDS.__getitem__)
    assert score(rouge).evidence["kinds"] == f"rouge_l@1 rapidfuzz {version('rapidfuzz')}"
    without = msgspec.structs.replace(PART_KINDS["rouge_l"], library="no-such-library")
    monkeypatch.setattr(interpreter, "get_kind", {"rouge_l": without}.__getitem__)
    with pytest.raises(ConfigError, match=r"no-such-library is not installed.*rollog\[domains\]"):
        score(rouge)


@pytest.mark.parametrize("kind", sorted(set(EXAMPLES) - {"judge"}))
def test_history_without_tokens_and_actions_is_enough_to_judge_by(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "get_kind", PART_KINDS.__getitem__)
    decode = msgspec.msgpack.Decoder(LEAN[TurnGenerated]).decode
    for at in (EXAMPLES[kind].gold, *EXAMPLES[kind].partial):
        lean = Trajectory()
        lean.turns = {  # type: ignore[assignment]
            turn: Held(decode(msgspec.msgpack.encode(event.record))) for turn, event in at.turns.items()
        }
        lean.executions, lean.ended = at.executions, at.ended
        assert PARTS.score(EXAMPLES[kind].spec, lean) == PARTS.score(EXAMPLES[kind].spec, at)
    assert TurnGenerated not in records_read(VerifierChoice(kind="parts"))


def test_as_a_shadow_or_a_later_scoring_it_judges_by_the_parts_of_each_task_and_passes_over_those_without() -> None:
    own = VerifierSpec(kind="parts", parts=(Part(kind="exact", expected="x"),))
    assert VerifierChoice(kind="parts").spec_for(own) == own
    assert VerifierChoice(kind="exact_match").spec_for(own).parts == ()
    assert PARTS.lacks(samples.task(verifier=own)) is None
    assert "names no parts" in str(PARTS.lacks(samples.task()))


def test_a_spec_is_as_dear_as_its_dearest_part() -> None:
    exact, judge = Part(kind="exact", expected="x"), Part(kind="judge")
    assert cost_of(VerifierSpec(kind="parts", parts=(exact,))) == "cheap"
    assert cost_of(VerifierSpec(kind="parts", parts=(exact, judge))) == "dear"
    assert cost_of(VerifierSpec(kind="stdout_match", expected="x")) == "cheap"
    assert cost_of(VerifierSpec(kind="parts", parts=(Part(kind="unheard of"),))) == "cheap"


def test_a_pattern_that_never_comes_back_is_given_up_and_the_clock_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = msgspec.structs.replace(PART_KINDS["regex"], limit_s=0.05)
    monkeypatch.setattr(interpreter, "get_kind", {"regex": hasty}.__getitem__)
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    signal.setitimer(signal.ITIMER_REAL, 100, 7)
    try:
        spec = VerifierSpec(kind="parts", parts=(Part(kind="regex", expected="(a+)+$"),))
        finding = find(spec, rollout("a" * 5000 + "!"))
        left_s, every_s = signal.getitimer(signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert finding.invalid_reason == "verifier_error"
    assert "part regex: no answer within 0.05 s" in finding.detail
    assert (0 < left_s < 100, every_s, rung) == (True, 7, [])


def test_a_query_that_is_out_of_time_rather_than_of_steps_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    hasty = msgspec.structs.replace(PART_KINDS["sql"], limit_s=0.05)
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"

    def worth(most_steps: int, kind: PartKind) -> Finding:
        monkeypatch.setattr(interpreter, "get_kind", {"sql": kind}.__getitem__)
        options = {"setup": "", "most_steps": most_steps}
        return find(
            VerifierSpec(kind="parts", parts=(Part(kind="sql", expected=[[1]], options=options),)), rollout(endless)
        )

    assert worth(1 << 40, hasty).invalid_reason == "verifier_error"
    assert worth(100_000, PART_KINDS["sql"]).score.value == 0  # type: ignore[union-attr]


def test_a_clock_that_rings_sooner_is_left_alone_and_a_thread_has_no_limit() -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 50)
    try:
        mine = signal.getsignal(signal.SIGALRM)
        with time_limit(60):
            assert signal.getsignal(signal.SIGALRM) is mine
        with time_limit(10):
            assert signal.getsignal(signal.SIGALRM) is not mine
        assert signal.getsignal(signal.SIGALRM) is mine
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    done: list[bool] = []

    def work() -> None:
        with time_limit(0.001):
            done.append(signal.getitimer(signal.ITIMER_REAL) == (0, 0))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
