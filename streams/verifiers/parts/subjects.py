"""What a part looks at, found in a trajectory's events.

Bytes become text by `surrogateescape`, so that no two streams read alike; what was cut, or is too long to be looked at,
is no text at all but a reason.
"""

import msgspec

from schemas.executions import Outcome
from schemas.tools import ToolCall, find_call, parse_call
from schemas.trajectory import Trajectory, last_tree

MOST_CHARS = 1 << 18
FILE = "file:"
TEXTS = ("answer", "text", "stdout", "stderr", "status")
STREAMS = ("stdout", "stderr")


class Absent(msgspec.Struct, frozen=True):
    """There is nothing to look at."""

    why: str
    is_hidden: bool = False
    """There is something, of which not all is known: then a veto or a penalty applies in full."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One turn as milestones see it."""

    text: str
    call: ToolCall | None = None
    """None where it calls nothing, or nothing that can be read."""
    is_answer: bool
    """Whether it calls nothing."""
    outcome: Outcome | None = None


def text_of(content: bytes) -> str:
    """Return bytes as text, one to one."""
    return content.decode(errors="surrogateescape")


def look_at_text(trajectory: Trajectory, of: str) -> str | Absent:
    """Return the text that `of` names."""
    found = _text(trajectory, of)
    if isinstance(found, str) and len(found) > MOST_CHARS:
        return Absent(f"{of} has {len(found)} characters, and at most {MOST_CHARS} are looked at", is_hidden=True)
    return found


def _text(trajectory: Trajectory, of: str) -> str | Absent:
    if of == "answer":
        return answer_of(trajectory)
    if of == "text":
        turns = [trajectory.turns[turn].record.text for turn in range(trajectory.num_turns)]
        return "\n".join(turns) if turns else Absent("there is no turn")
    if of.startswith(FILE):
        return file_of(trajectory, of.removeprefix(FILE))
    outcome = last_outcome(trajectory)
    if isinstance(outcome, Absent) or of == "status":
        return outcome if isinstance(outcome, Absent) else outcome.status
    is_cut = outcome.stdout_truncated if of == "stdout" else outcome.stderr_truncated
    if is_cut:
        return Absent(f"{of} was cut: more was written than is kept", is_hidden=True)
    return text_of(outcome.stdout if of == "stdout" else outcome.stderr)


def answer_of(trajectory: Trajectory) -> str | Absent:
    """Return the text of the last turn, which is no answer where it calls a tool."""
    last = trajectory.num_turns - 1
    if last < 0:
        return Absent("there is no turn")
    text: str = trajectory.turns[last].record.text
    return text if find_call(text) is None else Absent("the last turn calls a tool and answers nothing")


def last_outcome(trajectory: Trajectory) -> Outcome | Absent:
    """Return what came of the last thing that ran."""
    if not trajectory.executions:
        return Absent("nothing ran")
    return trajectory.executions[max(trajectory.executions)].record.outcome


def cases_of(trajectory: Trajectory) -> tuple[Outcome, ...] | Absent:
    """Return what came of each case of the last turn; nothing where that turn ran nothing."""
    last = trajectory.num_turns - 1
    if last not in trajectory.executions:
        return Absent("the last turn ran nothing")
    return trajectory.executions[last].record.cases


def steps_of(trajectory: Trajectory) -> tuple[Step, ...] | Absent:
    """Return the turns in their order."""
    if trajectory.num_turns == 0:
        return Absent("there is no turn")
    return tuple(_step(trajectory, turn) for turn in range(trajectory.num_turns))


def _step(trajectory: Trajectory, turn: int) -> Step:
    text = trajectory.turns[turn].record.text
    execution = trajectory.executions.get(turn)
    found = find_call(text)
    try:
        call = None if found is None else parse_call(found)
    except ValueError:
        call = None
    outcome = None if execution is None else execution.record.outcome
    return Step(text=text, call=call, is_answer=found is None, outcome=outcome)


def file_of(trajectory: Trajectory, path: str) -> str | Absent:
    """Return a file of the last working directory that was kept. Raises ValueError where its bytes are none."""
    from streams.sandbox.inside.tree import unpack  # here, since the sandbox comes with it

    tree = last_tree(trajectory)
    if tree is None:
        return Absent("no working directory was kept")
    entry = unpack(tree).get(path)
    if entry is None or entry.content is None:
        return Absent(f"there is no file {path}")
    return text_of(entry.content)
