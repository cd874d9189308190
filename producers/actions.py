"""From what a turn says to what is to run for it. Pure."""

import re
from typing import Any, Literal

import msgspec

from schemas.executions import Action
from schemas.tasks import ExecutionSpec, TaskIssued
from schemas.tools import ToolCall, find_call, misfit, parse_call
from schemas.trajectory import Trajectory, last_tree

FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:\n?```|\Z)", re.DOTALL)

Kind = Literal["python", "command", "call", "refusal"]


def action_of(task: TaskIssued, trajectory: Trajectory, text: str) -> Action | None:
    """Return what the next turn's text asks for; None where it asks for nothing, or the task runs nothing.

    `trajectory` holds the turns before, whose last working directory the action starts from.
    """
    execution = task.execution
    if execution is None:
        return None
    tree = last_tree(trajectory)
    if execution.kind == "tools":
        found = find_call(text)
        is_over = found is None or trajectory.num_turns == task.max_turns - 1
        if execution.cases and is_over:
            return check_of(execution, tree)
        if found is None:
            return None
        kind, code = called(execution, found)
    else:
        kind, code = execution.kind, program_in(text) if execution.extract == "fenced" else text
    action = Action(
        kind=kind,
        code=code,
        prelude="" if kind == "command" else execution.prelude,
        limits=execution.limits,
        cases=() if execution.kind == "tools" else execution.cases,
        keep_tree_bytes=execution.keep_tree_bytes,
    )
    return starting_from(tree, execution, action)


def starting_from(tree: bytes | None, execution: ExecutionSpec, action: Action) -> Action:
    """Return the action in the working directory that there is, or in the first one."""
    if tree is not None:
        return msgspec.structs.replace(action, tree=tree)
    return msgspec.structs.replace(action, files=execution.files, setup=execution.setup)


def check_of(execution: ExecutionSpec, tree: bytes | None) -> Action:
    """Return what checks a rollout that is over, in a copy of what it left: each case is a line for the shell."""
    check = Action(kind="command", code=":", limits=execution.limits, cases=execution.cases)
    return starting_from(tree, execution, check)


def program_in(text: str) -> str:
    """Return the last block between three backquotes, the whole text where there is none."""
    blocks: list[str] = FENCED.findall(text)
    return blocks[-1] if blocks else text


def called(execution: ExecutionSpec, found: str) -> tuple[Kind, str]:
    """Return what a call runs, or the refusal of one that is none or fits no tool."""
    try:
        call = parse_call(found)
    except ValueError as error:
        return "refusal", str(error)
    tool = next((tool for tool in execution.tools if tool.name == call.name), None)
    if tool is None:
        known = ", ".join(tool.name for tool in execution.tools)
        return "refusal", f"there is no tool {call.name!r}; there are: {known}"
    wrong = misfit(tool, call.arguments)
    if wrong:
        return "refusal", f"{call.name}: {wrong}"
    if tool.runs == "call":
        return "call", encoded(call)
    (argument,) = call.arguments.values()
    return tool.runs, str(argument)


def encoded(call: ToolCall) -> str:
    """Return a call as JSON, its arguments in one order, so that equal calls are equal text."""
    content: dict[str, Any] = {"name": call.name, "arguments": call.arguments}
    return msgspec.json.encode(content, order="sorted").decode()
