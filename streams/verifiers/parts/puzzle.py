"""A puzzle of another library, by that library's own scoring.

`expected` is what the library said of the item (`schemas/typed_json.py`) and a right answer. Its scores are on scales
of their own: what it gives for saying anything at all is taken for nothing. Where the library fails over an answer, and
does not over the right one, the answer is worth nothing; where it fails over that too, nothing is known.

Example: `Part(kind="puzzle", extract="tag:answer", expected={"entry": "{...}", "gold": "13"},
options={"library": "reasoning_gym", "dataset": "gcd"})`.
"""

import re
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from schemas import typed_json
from streams.verifiers.parts.inert import danger_in
from streams.verifiers.parts.interface import Found, PartKind

FOR_SAYING_ANYTHING = 0.05
"""The most that reasoning-gym's datasets give for an answer that has nothing right."""
WHOLE = 1 - 1e-6
MOST_CHARS = 20_000
OF_FORMULAS = ("intermediate_integration", "polynomial_multiplication", "simple_integration")
EVALUATED: MappingProxyType[str, re.Pattern[str]] = MappingProxyType(
    {
        "string_insertion": re.compile(r"[A-E\s,'\"\[\]]*"),
        "spiral_matrix": re.compile(r"[\d\s,.\-\[\]]*", re.ASCII),
        "binary_matrix": re.compile(r"[\d\s,.\-\[\]]*", re.ASCII),
        "n_queens": re.compile(r"[Q_\s,'\"\[\]]*"),
        "countdown": re.compile(r"(?!.*\*\s*\*)[\d\s+\-*/().]*", re.ASCII | re.DOTALL),
        "puzzle24": re.compile(r"(?!.*\*\s*\*)[\d\s+\-*/().]*", re.ASCII | re.DOTALL),
    }
    | dict.fromkeys(OF_FORMULAS, re.compile(r"(?!.*\.\s*[A-Za-z_])[A-Za-z\d\s+\-*/^().]*", re.ASCII | re.DOTALL))
)
"""Datasets that evaluate an answer, in the process that scores, and what their answers are made of (reasoning-gym
0.1.25, every `eval` and `parse_expr` in it)."""
NAME = re.compile(r"[A-Za-z]+")
FUNCTIONS = frozenset(
    {"sin", "cos", "tan", "sec", "csc", "cot", "exp", "log", "ln", "sqrt", "pi", "Abs"}
    | {"asin", "acos", "atan", "sinh", "cosh", "tanh"}
)


class Puzzle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An item as its library knows it."""

    entry: str
    gold: str


class PuzzleOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose item it is."""

    library: Literal["reasoning_gym"]
    dataset: str
    config: str = "{}"
    """What the dataset was made with (`schemas/typed_json.py`)."""


def score(text: str, expected: Puzzle, options: PuzzleOptions) -> Found:
    """Return what the library gives, less what it gives for anything."""
    entry = typed_json.loads(expected.entry)
    if len(text) > MOST_CHARS:
        return Found(0.0, f"{len(text)} characters; at most {MOST_CHARS} are read")
    danger = danger_of(options.dataset, text)
    if danger is not None:
        return Found(0.0, f"not looked at: it has {danger}")
    try:
        raw = ask(text.strip(), entry, options)
    except Exception as error:
        right = ask(expected.gold, entry, options)
        if right < WHOLE:
            raise ValueError(f"{options.dataset}: gives {right} for the answer that it says is right") from error
        return Found(0.0, f"cannot be read as an answer: {error!r}"[:200])
    value = min(max(raw, 0.0), 1.0)
    return Found(0.0 if value <= FOR_SAYING_ANYTHING else 1.0 if value >= WHOLE else value)


def ask(text: str, entry: Any, options: PuzzleOptions) -> float:
    """Return the library's score."""
    return float(dataset_of(options.dataset, options.config).score_answer(text, entry))


def danger_of(dataset: str, text: str) -> str | None:
    """Return why the library may not see an answer; None where it can only be a value.

    Datasets that are known to evaluate answers are shown what their answers are made of, and nothing else.
    """
    made_of = EVALUATED.get(dataset)
    if made_of is not None and not made_of.fullmatch(text):
        return "characters that no right answer has"
    if dataset in OF_FORMULAS:
        unknown = [name for name in NAME.findall(text) if len(name) > 1 and name not in FUNCTIONS]
        if unknown:
            return f"the name {unknown[0][:40]}"
    return danger_in(text)


@lru_cache(maxsize=256)
def dataset_of(name: str, config: str) -> Any:
    """Return a dataset of reasoning-gym as it was when the item was drawn."""
    from reasoning_gym.factory import create_dataset

    return create_dataset(name, **typed_json.loads(config))


def check(expected: Puzzle, options: PuzzleOptions) -> None:
    """Refuse what cannot be read again."""
    typed_json.loads(expected.entry)
    typed_json.loads(options.config)


def load() -> None:
    """Import the library, which takes seconds; where it is not installed, whoever asks it is told."""
    with suppress(ImportError):
        import_module("reasoning_gym.factory")


PUZZLE = PartKind(
    name="puzzle", version=1, cost="dear", expects=Puzzle, options=PuzzleOptions, score=score, check=check, load=load,
    limit_s=20.0,
)  # fmt: skip
