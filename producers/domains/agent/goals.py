"""What a world has to be like at the end, and what must never have happened in it.

A goal looks at one place of `world.json`; so a world that was left as it was earns nothing, whatever else it holds.
"""

import random
from typing import Any

from producers.domains.tools import with_tools
from schemas.parts import Part
from schemas.tasks import ExecutionSpec, VerifierSpec
from schemas.tools import written

WORLD = "file:world.json"
World = dict[str, Any]
GREETINGS = (
    "You are an assistant who acts by tools.",
    "You work for a customer, on their behalf.",
    "You are the agent of a small company.",
    "Please take care of the following.",
)


def asked(rng: random.Random, question: str, execution: ExecutionSpec) -> str:
    """Return the prompt of a task with tools."""
    return with_tools(f"{rng.choice(GREETINGS)}\n\n{question}", execution)


def call(name: str, /, **arguments: Any) -> str:
    """Return a turn that calls a tool."""
    return written(name, **arguments)


def at(path: tuple[str, ...], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a world that fits a schema at a place."""
    for name in reversed(path):
        schema = {"type": "object", "properties": {name: schema}, "required": [name]}
    return schema


def goal(name: str, path: tuple[str, ...], value: Any, *, weight: float = 1.0, after: float = 0.0) -> Part:
    """Return the credit for a value at a place."""
    return fits(name, path, {"const": value}, weight=weight, after=after)


def fits(name: str, path: tuple[str, ...], schema: dict[str, Any], **fields: Any) -> Part:
    """Return the part that a place of the world fits a schema."""
    return Part(kind="schema", name=label(name), of=WORLD, options={"schema": at(path, schema)}, **fields)


def forbidden(name: str, path: tuple[str, ...], schema: dict[str, Any]) -> Part:
    """Return the veto on worlds that fit a schema at a place."""
    return fits(name, path, schema, role="veto")


def only(name: str, path: tuple[str, ...], names: list[str]) -> Part:
    """Return the gate that a place holds nothing beside these names."""
    return fits(name, path, {"type": "object", "propertyNames": {"enum": names}}, role="gate")


def frugal(free: int, weight: float = 0.1) -> Part:
    """Return the penalty for many more calls than are needed."""
    options = {"unit": "calls", "free": free, "full": 3 * free}
    return Part(kind="cost", role="penalty", weight=weight, options=options)


def judged_by(*parts: Part) -> VerifierSpec:
    """Return the verifier of these parts."""
    return VerifierSpec(kind="parts", parts=parts)


def label(name: str) -> str:
    """Return a text as a part is named."""
    return "".join(char if char.isalnum() else " " for char in name)[:60].strip()
