"""Tools for domains: from typed functions to what a task carries, and from a task's tools to what its prompt says.

A tool is a function `(world, ...) -> answer` that is its own explanation: the signature becomes the schema, the first
line of the docstring the description, and a line `name: what it is` that of an argument. Its source travels with the
task and runs in the sandbox, so it imports what it needs within itself, and only from the standard library. `world` is
a JSON object, which the function changes; what it refuses it raises as ValueError, and then nothing has changed.
"""

import inspect
import json
import textwrap
import types
from collections.abc import Callable
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from schemas.errors import ConfigError
from schemas.executions import ExecutionLimits
from schemas.tasks import ExecutionSpec
from schemas.tools import Tool

ToolFunction = Callable[..., Any]
TYPES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
LIMITS = ExecutionLimits(wall_s=5.0, cpu_s=3.0, keep_bytes=8 << 10)
TREE_BYTES = 256 << 10
RESPONSE = "\n<tool_response>\n{stdout}{stderr}</tool_response>\n"
"""What a turn gets back from a tool."""

BASH = Tool(
    name="bash",
    description="Run a line in a shell. Files stay from one call to the next; processes and variables do not.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    runs="command",
)
PYTHON = Tool(
    name="python",
    description="Run a Python program, which has the standard library, and see what it prints.",
    parameters={"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]},
    runs="python",
)


@cache
def tool_of(function: ToolFunction) -> Tool:
    """Return the tool that a function is. Raises ConfigError for a type that JSON does not have, or no docstring."""
    lines = inspect.cleandoc(function.__doc__ or "").split("\n")
    if not lines[0]:
        raise ConfigError(f"tool {function.__name__}: wanted a docstring, which is its description")
    hints = get_type_hints(function)
    properties, required = {}, []
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        about = next((line.partition(":")[2].strip() for line in lines[1:] if line.startswith(f"{name}:")), "")
        properties[name] = schema_of(function, name, hints.get(name)) | ({"description": about} if about else {})
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    schema = {"type": "object", "properties": properties, "required": required}
    return Tool(name=function.__name__, description=lines[0], parameters=schema)


def schema_of(function: ToolFunction, name: str, hint: Any) -> dict[str, Any]:
    """Return the JSON schema of an argument's type."""
    origin = get_origin(hint)
    if origin is list:
        return {"type": "array", "items": schema_of(function, name, get_args(hint)[0])}
    kind = TYPES.get(origin or hint)
    if kind is None or isinstance(hint, types.UnionType):
        raise ConfigError(f"tool {function.__name__}: argument {name!r} is of type {hint}; wanted one that JSON has")
    return {"type": kind}


@cache
def source_of(*functions: ToolFunction) -> str:
    """Return the source of functions as a program that defines them; annotations are never evaluated there."""
    sources = [textwrap.dedent(inspect.getsource(function)) for function in functions]
    return "\n\n".join(["from __future__ import annotations", *sources])


def world_tools(
    *functions: ToolFunction, world: dict[str, Any], helpers: tuple[ToolFunction, ...] = (), observation: str = RESPONSE
) -> ExecutionSpec:
    """Return the execution of a task whose tools act on a world; `helpers` are functions that they call.

    The world at the end is the file `world.json` of the last working directory.
    """
    return ExecutionSpec(
        kind="tools",
        tools=tuple(tool_of(function) for function in functions),
        prelude=source_of(*helpers, *functions),
        files={"world.json": json.dumps(world, sort_keys=True).encode()},
        keep_tree_bytes=TREE_BYTES,
        limits=LIMITS,
        observation=observation,
        ends_on="answer",
    )


def machine_tools(
    *tools: Tool, files: dict[str, bytes] | None = None, setup: str = "", observation: str = RESPONSE
) -> ExecutionSpec:
    """Return the execution of a task that is worked on with `BASH` or `PYTHON` in a working directory."""
    return ExecutionSpec(
        kind="tools",
        tools=tools,
        files=files or {},
        setup=setup,
        keep_tree_bytes=TREE_BYTES,
        limits=LIMITS,
        observation=observation,
        ends_on="answer",
    )


def with_tools(question: str, execution: ExecutionSpec) -> str:
    """Return a prompt that says what is asked, which tools there are, and how one is called."""
    told = "\n".join(
        json.dumps({"name": tool.name, "description": tool.description, "parameters": tool.parameters})
        for tool in execution.tools
    )
    return (
        f"{question}\n\nYou have these tools, one a line:\n{told}\n"
        'Call one by writing <tool_call>{"name": NAME, "arguments": {...}}</tool_call> and nothing after it. '
        "You then see what it answers. Once you are done, write your answer without a call.\n"
    )
