"""A tool that a turn may call, and the call as it stands in the turn's text.

A call is JSON between `<tool_call>` and `</tool_call>`: `{"name": "bash", "arguments": {"command": "ls"}}`. A turn
without those words is an answer. What is between them and is no call is one all the same, whose result says why.
"""

import json
import re
from typing import Any, Literal

import msgspec

CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|$)", re.DOTALL)
DECODER = json.JSONDecoder()
MOST_DEPTH = 64
"""Arrays and objects within each other, the call itself among them; what is nested deeper is no call."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool.

    Example: `Tool(name="bash", description="Run a line.", parameters={"type": "object", ...}, runs="command")`.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments, an object."""
    runs: Literal["call", "command", "python"] = "call"
    """A function of that name in the execution's prelude; or its one argument as a shell line, or as a program."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is well formed; whether there is such a tool, and whether the arguments fit, is not said."""

    name: str
    arguments: dict[str, Any] = {}


def find_call(text: str) -> str | None:
    """Return what stands between the words of the first call of a turn; None where the turn calls nothing.

    It ends where its JSON ends, which may hold the word that closes a call; what is no JSON ends by that word.
    """
    found = CALL.search(text)
    if found is None:
        return None
    rest = text[found.start(1) :].lstrip()
    try:
        _, end = DECODER.raw_decode(rest)
    except (ValueError, RecursionError):
        return found[1].strip()
    return rest[:end]


def parse_call(found: str) -> ToolCall:
    """Return the call. Raises ValueError that says what is wrong with it."""
    try:
        call = msgspec.json.decode(found, type=ToolCall)
    # What is far too deep ends the decoder, at a depth that depends on how deep its caller is.
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(
            f'not a tool call: {why}; wanted {{"name": NAME, "arguments": {{...}}}} as JSON between the words'
        ) from error
    if is_deep(call.arguments, MOST_DEPTH - 1):
        raise ValueError(f"not a tool call: it is nested too deeply; wanted at most {MOST_DEPTH} levels")
    return call


def is_deep(value: Any, most: int) -> bool:
    """Return whether arrays and objects are within each other more than `most` deep."""
    layer = [value]
    for _ in range(most + 1):
        layer = [one for one in layer if isinstance(one, dict | list)]
        if not layer:
            return False
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, dict) else one)]
    return True


JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def misfit(tool: Tool, arguments: dict[str, Any]) -> str:
    """Return what is wrong with the arguments by the tool's schema, empty where nothing is."""
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    for name in tool.parameters.get("required", ()):
        if name not in arguments:
            return f"argument {name!r} is missing"
    for name, value in arguments.items():
        if name not in properties:
            return f"there is no argument {name!r}; wanted {', '.join(properties) or 'none'}"
        schema = properties[name] if isinstance(properties[name], dict) else {}
        wanted = types_of(schema)
        if not is_of_type(value, wanted):
            return f"argument {name!r} is {value!r:.80}; wanted {' or '.join(wanted)}"
        items = types_of(schema.get("items")) if isinstance(value, list) else ()
        if items and not all(is_of_type(item, items) for item in value):
            return f"argument {name!r} is {value!r:.80}; wanted an array of {' or '.join(items)}"
    return ""


def types_of(schema: Any) -> tuple[str, ...]:
    """Return the types that a schema names: one, several, or none where it does not say."""
    found = schema.get("type", ()) if isinstance(schema, dict) else ()
    return (found,) if isinstance(found, str) else tuple(found)


def is_of_type(value: object, wanted: tuple[str, ...]) -> bool:
    """Return whether a JSON value is of one of the types; a truth value is no number."""
    return not wanted or any(one not in JSON_TYPES or is_one(value, one) for one in wanted)


def is_one(value: object, wanted: str) -> bool:
    """Return whether a JSON value is of a type."""
    return isinstance(value, JSON_TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))


def written(name: str, /, **arguments: Any) -> str:
    """Return a call as a turn writes it."""
    call = msgspec.json.encode({"name": name, "arguments": arguments}).decode()
    return f"<tool_call>{call}</tool_call>"
