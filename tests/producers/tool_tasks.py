"""A task whose turns call tools, for tests."""

from typing import Any

import msgspec

from producers.domains.tools import BASH, world_tools
from schemas.tasks import TaskIssued
from tests import samples


def put(world: dict[str, Any], name: str, number: int) -> dict[str, int]:
    """Put a number under a name.

    name: where it goes
    """
    if number < 0:
        raise ValueError(f"{number} is below 0")
    world[name] = number
    return {"total": sum(world.values())}


def tool_task(**changes: Any) -> TaskIssued:
    execution = world_tools(put, world={})
    execution = msgspec.structs.replace(execution, tools=(*execution.tools, BASH))
    return samples.task(**({"execution": execution, "max_turns": 4} | changes))
