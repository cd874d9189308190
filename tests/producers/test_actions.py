import pytest

from producers.actions import action_of
from producers.domains.tools import source_of, tool_of
from schemas.errors import ConfigError
from schemas.executions import Action, Case, Outcome
from schemas.tasks import ExecutionSpec
from schemas.tools import Tool, misfit, written
from schemas.trajectory import Trajectory, fold
from tests import samples
from tests.producers.tool_tasks import put, tool_task
from tests.schemas.test_trajectory import at


def asked(text: str, trajectory: Trajectory | None = None) -> Action | None:
    return action_of(tool_task(), trajectory or Trajectory(), text)


def code_of(text: str) -> tuple[str, str]:
    action = asked(text)
    assert action is not None
    return action.kind, action.code


def test_a_turn_without_a_call_asks_for_nothing() -> None:
    assert asked("The total is 7.") is None
    assert action_of(samples.task(execution=None), Trajectory(), "print(1)") is None


def test_a_call_runs_the_tool_that_it_names_whatever_stands_around_it() -> None:
    call = '{"arguments":{"name":"a","number":3},"name":"put"}'
    assert code_of(f"I put it there. {written('put', number=3, name='a')} and so on") == ("call", call)
    assert code_of(f"<tool_call>\n{call}") == ("call", call)
    assert code_of(written("bash", command="ls -l")) == ("command", "ls -l")
    closing = "echo '</tool_call>' > a; echo '<tool_call>' > b"
    assert code_of(f"{written('bash', command=closing)} {written('bash', command='ls')}") == ("command", closing)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<tool_call>ls</tool_call>", "not a tool call"),
        ('<tool_call>{"name": 3}</tool_call>', "not a tool call"),
        ("<tool_call></tool_call>", "not a tool call"),
        (written("shell", command="ls"), r"there is no tool 'shell'; there are: put, bash"),
        (written("put", name="a"), "argument 'number' is missing"),
        (written("put", name="a", number="3"), "argument 'number' is '3'; wanted integer"),
        (written("put", name="a", number=True), "argument 'number' is True; wanted integer"),
        (written("put", name="a", number=3, colour="red"), "there is no argument 'colour'; wanted name, number"),
        (written("bash", command=["ls"]), "argument 'command' is"),
    ],
)
def test_a_call_that_cannot_be_made_is_refused_with_the_reason(text: str, why: str) -> None:
    kind, code = code_of(text)
    assert kind == "refusal"
    assert why in code


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [62, 200, 1_000_000])
def test_a_call_is_refused_for_its_depth_and_not_by_what_the_stack_has_room_for(opening: str, depth: int) -> None:
    closing = "]" if opening == "[" else "}"
    found = f'{{"name": "put", "arguments": {{"x": {opening * depth}1{closing * depth}}}}}'
    kind, code = code_of(f"<tool_call>{found}</tool_call>")
    assert kind == "refusal"
    assert ("nested too deeply" in code) == (depth > 62)


@pytest.mark.parametrize(
    ("schema", "fits", "fails"),
    [
        ({"type": ["integer", "null"]}, [3, None], [True, "3", 1.5]),
        ({"type": "array", "items": {"type": ["string", "number"]}}, [[], ["a", 1]], [[None], [["a"]], "a"]),
        ({"type": "array", "items": True}, [[None]], [{}]),
        ({"type": "fraction"}, [1], []),
        (True, [1, None], []),
    ],
)
def test_arguments_are_looked_at_by_whatever_a_schema_says_of_types(
    schema: object, fits: list[object], fails: list[object]
) -> None:
    tool = Tool(name="put", description="", parameters={"type": "object", "properties": {"x": schema}})
    assert [misfit(tool, {"x": value}) for value in fits] == [""] * len(fits)
    assert all("wanted" in misfit(tool, {"x": value}) for value in fails)


def test_a_call_with_half_a_character_is_refused() -> None:
    kind, code = code_of('<tool_call>{"name": "put", "arguments": {"name": "\ud800", "number": 3}}</tool_call>')
    assert (kind, code.startswith("not a tool call")) == ("refusal", True)
    code.encode()


def test_only_the_last_block_between_backquotes_is_the_program_where_a_task_says_so() -> None:
    task = samples.task(execution=ExecutionSpec(extract="fenced", cases=(Case(name="a"),), files={"x": b"1"}))
    texts = {
        "print(1)": "print(1)",
        "First:\n```python\nprint(1)\n```\nBetter:\n```\nprint(2)\n```\nDone.": "print(2)",
        "```python\nprint(3)": "print(3)",
    }
    for text, code in texts.items():
        action = action_of(task, Trajectory(), text)
        assert action is not None
        assert (action.code, action.cases, action.files) == (code, (Case(name="a"),), {"x": b"1"})
    whole = action_of(samples.task(), Trajectory(), "```\nprint(2)\n```")
    assert whole is not None
    assert whole.code == "```\nprint(2)\n```"


def test_a_turn_goes_on_from_the_directory_that_was_kept_last_and_files_are_laid_only_once() -> None:
    records = [
        samples.turn(0, 0), samples.execution(0, 0, outcome=Outcome(status="ok", tree=b"kept")),
        samples.turn(0, 1), samples.execution(0, 1, outcome=Outcome(status="timed_out")),
    ]  # fmt: skip
    for num, (tree, num_files) in {0: (b"", 1), 2: (b"kept", 0), 4: (b"kept", 0)}.items():
        trajectory = fold(at(record, offset) for offset, record in enumerate(records[:num])).sample(0)
        action = asked(written("bash", command="ls"), trajectory)
        assert action is not None
        assert (action.tree, len(action.files)) == (tree, num_files)


def test_a_function_is_its_own_schema_and_its_source_is_what_runs() -> None:
    tool = tool_of(put)
    assert (tool.name, tool.description, tool.runs) == ("put", "Put a number under a name.", "call")
    assert tool.parameters == {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "where it goes"}, "number": {"type": "integer"}},
        "required": ["name", "number"],
    }
    namespace: dict[str, object] = {}
    exec(source_of(put), namespace)
    assert callable(namespace["put"])

    def untyped(world: dict[str, int], what: complex) -> None:
        """Have an argument that JSON cannot say."""

    with pytest.raises(ConfigError, match="argument 'what' is of type"):
        tool_of(untyped)
