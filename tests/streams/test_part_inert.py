"""Answers that would run where rewards are made, if a library evaluated them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.parts import Part
from schemas.tasks import VerifierSpec
from streams.verifiers.parts import puzzle
from streams.verifiers.parts.inert import danger_in
from streams.verifiers.worker import find
from tests.streams.part_examples import rollout

PROGRAMS = [
    "__import__('os').system('true')",
    "().__class__.__base__.__subclasses__()",
    "open('x', 'w')",
    "exit()",
    "quit ( )",
    "eval('1')",
    "\uff45\uff56\uff41\uff4c('1')",
    "\uff45\uff56\uff41\uff4c('1')! 2",
    "x\uff3f\uff3fclass\uff3f\uff3f",
    "open\n('x', 'w')",
    "sorted(['1'], key=eval)",
    "max('1', key=exec)",
    "[print(1) for _ in 'a']",
    "[x for x in range(10)]",
    "(lambda: 1)()",
    "(x := 5)",
    "f'{exit()}'",
    "sympify('1')",
    "preview(x)",
    "x.free_symbols.pop()",
    "x . real",
    "x! + open('x', 'w')",
    "2 open('x', 'w')",
    "2x.evalf(100)",
    "globals()['x']",
    "getattr(x, 'y')(1)",
    "9**9**9",
    "2**99999",
    "2^(2^9)",
    "1 << 10**9",
    "'a' * 10**9",
    "[0] * 10**9",
    "(0,) * 10**9",
    "'%99999999d' % 1",
    "list(range(10**9))",
]
ANSWERS = [
    "",
    "391",
    "-12.5",
    "1, 2, 3",
    "[[1, 2], [3, 4]]",
    "['a', 'b']",
    '{"a": [1, true, null]}',
    "x**2 + 3*x - 7",
    "sin(x)**2 + exp(-x) + C",
    "3!",
    "(1 + 2) * 3 / (4 - 5)",
    "2^10",
    "_ _ Q _\n_ Q _ _",
    "____ _|_",
    "Alice is a knight, and Bob (the knave) is not.",
    "The end. Next (of two).",
    "copyright, license, open, list",
    "loves(bob, alice)",
    "p & ~q | (r >> s)",
    "move A.1 to B.2",
    "01:30",
    "U R' F2",
    "class, import, lambda",
    "(" * 500,
    "\0",
    "\ud800",
]


@pytest.mark.parametrize("text", PROGRAMS)
def test_what_does_more_than_say_a_value_is_found(text: str) -> None:
    assert danger_in(text) is not None


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_harmless(text: str) -> None:
    assert danger_in(text) is None


@given(st.text(alphabet="abx01 ._()[]{}'\"!^*+-,:=\n", max_size=40))
def test_any_text_can_be_looked_at(text: str) -> None:
    danger_in(text)


@given(st.lists(st.sampled_from(["a", "(", ")", ".", "x", "!", "^", " ", "2", "[", "]"]), max_size=12).map("".join))
def test_what_is_called_harmless_evaluates_to_a_value_or_not_at_all(text: str) -> None:
    reached: list[str] = []

    class Watched:
        def __getattribute__(self, name: str) -> Any:
            reached.append(name)
            raise AttributeError(name)

    if danger_in(text) is None:
        try:
            eval(text, {"__builtins__": {}, "a": Watched(), "x": Watched()})  # what the libraries do
        except Exception:  # noqa: BLE001 it was no value
            return
        assert reached == []


def test_a_puzzles_library_never_sees_what_could_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def ask(text: str, *_rest: Any) -> float:
        seen.append(text)
        return 1.0

    monkeypatch.setattr(puzzle, "ask", ask)
    part = Part(
        kind="puzzle",
        expected={"entry": "{}", "gold": "13"},
        options={"library": "reasoning_gym", "dataset": "string_insertion"},
    )
    spec = VerifierSpec(kind="parts", parts=(part,))
    for text in PROGRAMS:
        score = find(spec, rollout(text)).score
        assert score is not None
        assert score.value == 0
        assert "not looked at" in score.evidence["puzzle"]
    assert seen == []
    assert find(spec, rollout("ABC")).score.value == 1  # type: ignore[union-attr]
