"""What verifiers say of honest and of hostile answers."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.executions import Outcome
from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams.verifiers import VERIFIERS, Score, get_verifier
from streams.verifiers.credit import common_length, normalise, share_of
from tests import samples
from tests.streams.stage_fakes import ok, read


def trajectory(outcome: Outcome | None = None, *, text: str = "") -> Trajectory:
    made = Trajectory()
    made.turns = {0: read(samples.turn(text=text))}
    made.ended = {None: read(samples.ended())}
    if outcome is not None:
        made.executions = {0: read(samples.execution(outcome=outcome))}
    return made


def spec(expected: str = "7", partial: str = "none", kind: str = "stdout_match") -> VerifierSpec:
    return VerifierSpec(kind=kind, expected=expected, partial=partial)  # type: ignore[arg-type]


def stdout_score(outcome: Outcome | None, expected: str = "7", partial: str = "none") -> Score:
    return get_verifier("stdout_match").score(spec(expected, partial), trajectory(outcome))


def text_score(text: str, expected: str = "7", partial: str = "none") -> float:
    return get_verifier("exact_match").score(spec(expected, partial, "exact_match"), trajectory(text=text)).value


HOSTILE: list[bytes] = [
    "\u0667".encode(),
    "\uff17".encode(),
    "7\u200b".encode(),
    "\ufeff7".encode(),
    b"7\x00",
    b"\x007",
    b"\xff7",
    b"7\xc3",
    b"07",
    b"7.0",
    b"+7",
    b"nan",
    b"",
    b"\n",
    b"7 7",
    b"7\n7",
    b"expected 7",
    b"7" * 60_000,
    b"\n" * 30_000 + b"8",
    b"(" * 30_000 + b")" * 30_000,
]


@pytest.mark.parametrize("answer", HOSTILE)
def test_only_the_expected_bytes_match(answer: bytes) -> None:
    assert stdout_score(ok(answer)).value == 0
    assert text_score(answer.decode(errors="replace")) == 0


@pytest.mark.parametrize("answer", [b"7", b"7\n", b"7 \r\n", b" 7\t\n\n\n"])
def test_white_space_around_an_answer_does_not_count(answer: bytes) -> None:
    assert stdout_score(ok(answer)).value == 1
    assert text_score(answer.decode()) == 1


def test_nan_matches_only_where_nan_is_expected_and_the_value_is_a_number() -> None:
    assert stdout_score(ok("nan"), expected="nan").value == 1
    assert stdout_score(ok("nan"), expected="0").value == 0


def test_text_with_lone_surrogates_is_judged_like_any_other() -> None:
    assert text_score("\ud800") == 0


@pytest.mark.parametrize("status", ["nonzero", "signaled", "timed_out", "cpu_limit", "oom", "output_limit"])
@pytest.mark.parametrize("partial", ["none", "lines", "prefix"])
def test_a_program_that_failed_is_no_full_match_whatever_it_printed(status: str, partial: str) -> None:
    outcome = Outcome(status=status, exit_code=1, stdout=b"7\n", stdout_bytes=2)  # type: ignore[arg-type]
    score = stdout_score(outcome, partial=partial)
    assert score.value == (0 if partial == "none" else 0.5)
    assert status in score.detail


def test_a_cut_stream_never_matches_even_if_what_was_kept_does() -> None:
    outcome = Outcome(status="ok", exit_code=0, stdout=b"7\n", stdout_bytes=100_000)
    for partial in ("none", "lines", "prefix"):
        assert stdout_score(outcome, partial=partial).value == 0


def test_where_the_expected_output_would_be_cut_too_the_verifier_says_that_it_cannot_know() -> None:
    outcome = Outcome(status="ok", exit_code=0, stdout=b"7" * 10, stdout_bytes=20)
    with pytest.raises(ValueError, match="keep_bytes"):
        stdout_score(outcome, expected="7" * 20)


def test_a_last_turn_that_ran_nothing_earns_nothing() -> None:
    assert stdout_score(None).value == 0


def test_only_the_last_turn_counts() -> None:
    two = trajectory(ok("7"))
    two.turns[1] = read(samples.turn(index=1, text="8"))
    two.executions[1] = read(samples.execution(index=1, outcome=ok("8")))
    assert get_verifier("stdout_match").score(spec("7"), two).value == 0
    assert get_verifier("stdout_match").score(spec("8"), two).value == 1
    assert get_verifier("exact_match").score(spec("8", kind="exact_match"), two).value == 1


@pytest.mark.parametrize(
    ("answer", "credit"),
    [
        ("a\nb\nc\nd", 1),
        ("a\nb\nx\nd", 0.75),
        ("a\nb", 0.5),
        ("a\nb\nc\nd\ne\nf\ng\nh", 0.5),
        ("b\na\nd\nc", 0),
        ("", 0),
    ],
)
def test_lines_earn_by_place_and_flooding_costs(answer: str, credit: float) -> None:
    assert stdout_score(ok(answer), expected="a\nb\nc\nd", partial="lines").value == credit


@pytest.mark.parametrize(
    ("answer", "credit"), [("abcd", 1), ("ab", 0.5), ("abxx", 0.5), ("xbcd", 0), ("abcdefgh", 0.5)]
)
def test_a_beginning_earns_its_share(answer: str, credit: float) -> None:
    assert stdout_score(ok(answer), expected="abcd", partial="prefix").value == credit
    assert text_score(answer, expected="abcd", partial="prefix") == credit


def test_an_unknown_verifier_is_an_error_that_lists_the_known_ones() -> None:
    known = "exact_match, exit_status, parts, stdout_match"
    with pytest.raises(Exception, match=f"'regex' is not known; known are: {known}"):
        get_verifier("regex")


@given(
    answer=st.binary(max_size=200), expected=st.text(max_size=50), partial=st.sampled_from(["none", "lines", "prefix"])
)
def test_credit_is_in_bounds_and_full_only_for_the_expected(answer: bytes, expected: str, partial: str) -> None:
    if any("\ud800" <= c <= "\udfff" for c in expected):
        return
    credit = share_of(spec(expected, partial), answer)
    assert 0 <= credit <= 1
    assert (credit == 1) == (normalise(answer) == normalise(expected.encode()))
    assert share_of(spec(expected, partial), expected.encode()) == 1


@given(first=st.binary(max_size=50), second=st.binary(max_size=50), common=st.binary(max_size=50))
def test_the_common_beginning_is_common_and_the_longest(first: bytes, second: bytes, common: bytes) -> None:
    a, b = common + first, common + second
    length = common_length(a, b)
    assert length >= len(common)
    assert a[:length] == b[:length]
    assert length == min(len(a), len(b)) or a[length] != b[length]


def test_every_verifier_is_registered_under_its_name_with_a_version() -> None:
    for name, verifier in VERIFIERS.items():
        assert verifier.name == name
        assert verifier.version >= 1


@pytest.mark.parametrize("status", ["ok", "nonzero", "timeout", "oom", "killed"])
def test_exit_status_is_content_with_any_program_that_runs(status: str) -> None:
    outcome = msgspec.structs.replace(ok(b"anything at all"), status=status)
    found = get_verifier("exit_status").score(spec(kind="exit_status"), trajectory(outcome))
    assert found.value == found.parts["ran"] == float(status == "ok")
    assert (status in found.detail) == (status != "ok")


def test_exit_status_judges_the_last_turn_and_needs_it_to_have_run() -> None:
    verifier = get_verifier("exit_status")
    assert verifier.score(spec(kind="exit_status"), trajectory()).value == 0.0
    both = trajectory(ok(b"7"))
    both.turns[1] = read(samples.turn(0, 1))
    assert verifier.score(spec(kind="exit_status"), both).value == 0.0
    assert verifier.lacks(samples.task(execution=None)) is not None
