"""Parts that look at what a session in a terminal leaves behind, and how one asks for it."""

import json
import random
from collections.abc import Mapping
from typing import Any

from producers.domains.tools import BASH, machine_tools, with_tools
from schemas.parts import Part
from schemas.tasks import ExecutionSpec
from schemas.tools import written

GREETINGS = (
    "You work in a shell on a machine of ours.",
    "A colleague is away and asks you to take over a job on this machine.",
    "You are on call. A request has come in:",
    "Here is a ticket for you.",
)


def bash(command: str) -> str:
    """Return a turn that runs a line."""
    return written("bash", command=command)


def asked(rng: random.Random, question: str, execution: ExecutionSpec) -> str:
    """Return the prompt of a task in a terminal."""
    return with_tools(f"{rng.choice(GREETINGS)}\n\n{question}", execution)


def machine(files: Mapping[str, str | bytes], setup: str = "") -> ExecutionSpec:
    """Return a machine with these files and a shell."""
    content = {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}
    return machine_tools(BASH, files=content, setup=setup)


def file_is(path: str, text: str, *, name: str = "", weight: float = 1.0) -> Part:
    """Return the credit for a file that says just that."""
    return Part(kind="exact", name=name or label(path), of=f"file:{path}", expected=text, weight=weight)


def untouched(path: str, text: str) -> Part:
    """Return a gate: the file still says what it said."""
    return Part(kind="exact", name=f"kept {label(path)}", of=f"file:{path}", expected=text, role="gate")


def still_there(path: str, weight: float) -> Part:
    """Return a penalty for a file that should be gone."""
    return Part(
        kind="regex", name=f"left {label(path)}", of=f"file:{path}", expected=r"\S", role="penalty", weight=weight
    )


def answer_is(expected: dict[str, Any], *, absolute: float = 0.0) -> Part:
    """Return the credit for the fields of a JSON answer."""
    return Part(kind="schema", name="answer", extract="json", expected=expected, options={"absolute": absolute})


def label(path: str) -> str:
    """Return a path as a part is named."""
    return "".join(char if char.isalnum() else " " for char in path)[-50:].strip()


def json_text(value: Any) -> str:
    """Return a JSON answer."""
    return json.dumps(value)


def heredoc(path: str, text: str) -> str:
    """Return a line that writes a file."""
    return f"cat > {path} <<'END_OF_FILE'\n{text.rstrip()}\nEND_OF_FILE"
