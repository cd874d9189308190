"""JSON that fits a schema, and says what it should, with credit by field.

The text is JSON; `extract = "json"` finds it within other words. What does not fit `options.schema` is worth 0. Then
every leaf of the expected value counts the same, and leaves that nobody asked for count against it, so that naming
everything gains nothing. Arrays are compared place by place, or with `unordered`, by which elements there are.

Example: `Part(kind="schema", extract="json", expected={"total": 12.5, "items": ["a", "b"]},
options={"schema": {"type": "object", "required": ["total"]}, "relative": 0.001})`.
"""

from typing import Any

import msgspec

from streams.verifiers.parts.extraction import read_json
from streams.verifiers.parts.interface import Found, PartKind
from streams.verifiers.parts.rows import is_close, share

MOST_LEAVES = 2000
"""Of the text's JSON; more is worth nothing."""
MOST_PAIRS = 20_000
"""Elements of an array that are compared with each other; where there are more, each is with the one at its place."""


class SchemaOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the JSON must fit, and which differences do not count."""

    schema: dict[str, Any] = {}
    """JSON schema, draft 2020-12; without references to elsewhere."""
    absolute: float = 0.0
    relative: float = 0.0
    """Tolerance of numbers; the larger of the two holds."""
    ignore_case: bool = False
    """Of texts that are values; white space at their ends never counts."""
    unordered: bool = False
    only_whole: bool = False
    """Whether less than all of it is nothing."""


def score(text: str, expected: Any, options: SchemaOptions) -> Found:
    """Return the share of leaves that are right; where nothing is expected, 1 for what fits the schema."""
    try:
        value = read_json(text)
    except ValueError as error:
        return Found(0.0, f"no JSON: {error}"[:200])
    if options.schema and (lack := lack_of(value, options.schema)) is not None:
        return Found(0.0, lack)
    if expected is None:
        return Found(1.0)
    num_got, num_expected = num_leaves(value), num_leaves(expected)
    if num_got > MOST_LEAVES:
        return Found(0.0, f"it has over {MOST_LEAVES} values")
    num_same, wrong = compare(value, expected, options)
    found = share(num_same, num_got, num_expected)
    why = f"{num_same} right of {num_got} values; wanted {num_expected}"
    if wrong:
        why += f"; not: {', '.join(wrong[:5])}"
    return Found(0.0 if options.only_whole and found < 1 else found, why)


def lack_of(value: Any, schema: dict[str, Any]) -> str | None:
    """Return why the value does not fit the schema, None where it does."""
    from jsonschema import Draft202012Validator  # here, since it takes longer to import than to use

    try:
        error = next(Draft202012Validator(schema).iter_errors(value), None)
    except RecursionError:
        return "it is nested too deeply"
    return None if error is None else f"at {error.json_path}: {error.message}"[:200]


def num_leaves(value: Any) -> int:
    """Return how many values there are in it that hold no others; an empty one is a value."""
    if isinstance(value, dict | list) and value:
        return sum(map(num_leaves, value.values() if isinstance(value, dict) else value))
    return 1


def compare(got: Any, expected: Any, options: SchemaOptions, path: str = "$") -> tuple[int, list[str]]:
    """Return how many leaves are right, and where the others are."""
    if isinstance(expected, dict) and expected and isinstance(got, dict):
        pairs = [(f"{path}.{name}", got.get(name, Ellipsis), value) for name, value in expected.items()]
    elif isinstance(expected, list) and expected and isinstance(got, list):
        if options.unordered and len(got) * len(expected) <= MOST_PAIRS:
            got = in_order_of(got, expected, options)
        padded = [*got, *[Ellipsis] * (len(expected) - len(got))]
        pairs = [(f"{path}[{place}]", padded[place], value) for place, value in enumerate(expected)]
    else:
        return (1, []) if is_same(got, expected, options) else (0, [path])
    found = [compare(one, value, options, where) for where, one, value in pairs]
    return sum(num for num, _ in found), [where for _, wrong in found for where in wrong]


def in_order_of(got: list[Any], expected: list[Any], options: SchemaOptions) -> list[Any]:
    """Return the elements, each at the place of the expected one that it agrees with most."""
    left = list(got)
    placed: list[Any] = []
    for value in expected:
        agreements = [compare(one, value, options)[0] for one in left]
        best = max(range(len(left)), key=agreements.__getitem__, default=None)
        placed.append(Ellipsis if best is None or not agreements[best] else left.pop(best))
    return placed


def is_same(got: Any, expected: Any, options: SchemaOptions) -> bool:
    """Return whether two leaves agree."""
    if isinstance(got, str) and isinstance(expected, str):
        got, expected = got.strip(), expected.strip()
        return bool(got.casefold() == expected.casefold()) if options.ignore_case else bool(got == expected)
    return is_close(got, expected, absolute=options.absolute, relative=options.relative)


def check(expected: Any, options: SchemaOptions) -> None:
    """Refuse a schema that is none, and an expected value that does not fit it."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not options.schema and expected is None:
        raise ValueError("expected: got neither a value nor options.schema; wanted one of them")
    if not (0 <= options.absolute < float("inf") and 0 <= options.relative < float("inf")):
        raise ValueError(f"absolute, relative: got {options.absolute}, {options.relative}; wanted numbers from 0")
    try:
        Draft202012Validator.check_schema(options.schema)
    except SchemaError as error:
        raise ValueError(f"schema: at {error.json_path}: {error.message}") from error
    if "$ref" in str(options.schema) and not all(ref.startswith("#") for ref in references(options.schema)):
        raise ValueError("schema: got a $ref to elsewhere; wanted references that begin with #")
    if expected is not None and options.schema and (lack := lack_of(expected, options.schema)) is not None:
        raise ValueError(f"expected: does not fit options.schema: {lack}")


def references(schema: Any) -> list[str]:
    """Return where the references of a schema lead."""
    if isinstance(schema, list):
        return [ref for one in schema for ref in references(one)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return own + [ref for one in schema.values() for ref in references(one)]


def load() -> object:
    """Import what is heavy."""
    import jsonschema

    return jsonschema


SCHEMA = PartKind(
    name="schema",
    version=1,
    expects=Any,
    options=SchemaOptions,
    score=score,
    check=check,
    library="jsonschema",
    load=load,
)
