"""reasoning-gym's own scoring, behind what its datasets may be shown. A module of a few lines stands in for it."""

import sys
from types import ModuleType
from typing import Any

import pytest

from schemas import typed_json
from streams.verifiers.parts import puzzle
from streams.verifiers.parts.puzzle import EVALUATED, Puzzle, PuzzleOptions, danger_of, score

ENTRY = {"question": "?", "answer": "12", "metadata": {"grid": ((1, 2), (3,)), 4: {5, 6}}}
EXPECTED = Puzzle(entry=typed_json.dumps(ENTRY), gold="12")


class Dataset:
    seen: list[tuple[str, Any]]

    def __init__(self, scores: dict[str, float]) -> None:
        self.seen, self.scores = [], scores

    def score_answer(self, answer: str, entry: Any) -> float:
        self.seen.append((answer, entry))
        if answer not in self.scores:
            raise ValueError(f"invalid literal: {answer}")
        return self.scores[answer]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    dataset = Dataset({"12": 1.0, "1": 0.01, "": 0.05, "almost": 0.6, "too much": 3.0})
    factory = ModuleType("reasoning_gym.factory")
    factory.create_dataset = lambda name, **config: dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "reasoning_gym", ModuleType("reasoning_gym"))
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", factory)
    puzzle.dataset_of.cache_clear()
    return dataset


def value(text: str, dataset: str = "gcd") -> float:
    return score(text, EXPECTED, PuzzleOptions(library="reasoning_gym", dataset=dataset)).value


@pytest.mark.parametrize(
    ("text", "worth"), [("12", 1.0), (" 12\n", 1.0), ("almost", 0.6), ("1", 0.0), ("", 0.0), ("too much", 1.0)]
)
def test_the_library_scores_and_what_it_gives_for_anything_is_nothing(
    text: str, worth: float, library: Dataset
) -> None:
    assert value(text) == worth
    assert library.seen[-1][1] == ENTRY


def test_an_answer_that_the_library_cannot_read_is_worth_nothing(library: Dataset) -> None:
    assert value("twelve") == 0.0
    assert [answer for answer, _ in library.seen] == ["twelve", "12"]


def test_where_the_library_fails_over_what_it_says_is_right_nothing_is_known(library: Dataset) -> None:
    library.scores["12"] = 0.5
    with pytest.raises(ValueError, match=r"gives 0\.5 for the answer that it says is right"):
        value("twelve")


RIGHT = {
    "string_insertion": ["ABCDEA", "['A', 'B', 'C']"],
    "spiral_matrix": ["1 2 -3 4", "[1, 2, 3]"],
    "binary_matrix": ["0 1\n1 0", "[[0, 1], [1, 0]]"],
    "n_queens": ["_ Q _\nQ _ _", "[['Q', '_'], ['_', 'Q']]"],
    "countdown": ["(3 + 4)*5 - 6/2"],
    "puzzle24": ["(8 / 2 + 2) * 4"],
    "simple_integration": ["3*X**2/2 + 5*x + C", "14*Y**10/5 + C"],
    "intermediate_integration": ["sin(x)**2/2 + C", "-x*exp(-3*x)/3 + log(x + 1) + sqrt(2)*atan(x)"],
    "polynomial_multiplication": ["-63*u**7 + 3*u*y - 1"],
}
WRONG = [
    "open('x','w')", "__import__('os')", "().__class__", "[x for x in range(9)]", "(3).bit_length()", "9**9**9**9",
    "exec('1')", "S('1')", "x.subs", "lambda: 0", "print(1)", "globals()", "\uff4f\uff50\uff45\uff4e('x')",
    "f'{1}'", "a" * 99,
]  # fmt: skip


def test_a_dataset_that_evaluates_answers_is_shown_what_those_are_made_of_and_nothing_else(
    library: Dataset,
) -> None:
    assert RIGHT.keys() == EVALUATED.keys()
    for dataset, texts in RIGHT.items():
        for text in texts:
            assert danger_of(dataset, text) is None, (dataset, text)
        for text in WRONG:
            assert danger_of(dataset, text) is not None, (dataset, text)
            assert value(text, dataset) == 0.0
    assert library.seen == []
