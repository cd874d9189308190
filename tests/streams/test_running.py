import json

import msgspec
import pytest

from producers.actions import action_of
from schemas.executions import Action, Case, Outcome
from schemas.limits import MAX_RECORD_BYTES
from schemas.tools import written
from schemas.trajectory import Trajectory
from streams.running import MAX_TIMEOUTS, Ran, carry_out
from streams.sandbox.bubblewrap import BubblewrapSandbox
from streams.sandbox.fake import FakeSandbox
from streams.sandbox.inside.tree import unpack
from tests.producers.tool_tasks import tool_task
from tests.streams.sandbox.shared_home import sandbox_home

CASES = (Case(name="two", stdin=b"2"), Case(name="none", stdin=b"", epilogue="print(n)"))


def test_each_case_is_a_run_of_its_own_with_its_own_input_and_files() -> None:
    sandbox = FakeSandbox(lambda action: Outcome(status="ok", stdout=action.stdin))
    case = Case(name="b", stdin=b"1", prelude="p = 2", epilogue="print(p)", files={"x": b"case"})
    ran = carry_out(
        sandbox, Action(code="c = 3", prelude="a = 1", files={"x": b"all", "y": b""}, cases=(*CASES, case)), attempts=1
    )
    assert [outcome.stdout for outcome in ran.cases] == [b"2", b"", b"1"]
    assert ran.outcome == ran.cases[0]
    last = sandbox.actions[-1]
    assert (last.prelude, last.code, last.files) == ("a = 1\np = 2", "c = 3\nprint(p)", {"x": b"case", "y": b""})
    assert all(not action.cases for action in sandbox.actions)


def test_the_first_case_that_failed_stands_for_all_and_a_sandboxs_trouble_before_it() -> None:
    statuses = {b"1": "ok", b"2": "nonzero", b"3": "signaled", b"4": "infra_error"}
    sandbox = FakeSandbox(lambda action: Outcome(status=statuses[action.stdin]))

    def told(*inputs: bytes) -> str:
        cases = tuple(Case(name=stdin.decode(), stdin=stdin) for stdin in inputs)
        return carry_out(sandbox, Action(code="", cases=cases), attempts=1).outcome.status

    assert told(b"1", b"1") == "ok"
    assert told(b"1", b"2", b"3") == "nonzero"
    assert told(b"1", b"3", b"2", b"4") == "infra_error"


def test_a_program_that_hangs_is_not_run_on_every_case() -> None:
    sandbox = FakeSandbox(lambda _: Outcome(status="timed_out"))
    cases = tuple(Case(name=str(number)) for number in range(10))
    ran = carry_out(sandbox, Action(code="", cases=cases), attempts=1)
    assert len(ran.cases) == len(sandbox.actions) == MAX_TIMEOUTS


def test_streams_of_many_cases_fit_a_record() -> None:
    large = Outcome(status="ok", stdout=b"x" * 500_000, stdout_bytes=500_000)
    cases = tuple(Case(name=str(number)) for number in range(64))
    ran = carry_out(FakeSandbox(lambda _: large), Action(code="", cases=cases), attempts=1)
    assert len(msgspec.msgpack.encode(ran)) < MAX_RECORD_BYTES
    assert all(outcome.stdout_truncated for outcome in ran.cases)


def test_a_refusal_runs_nothing_and_says_why() -> None:
    sandbox = FakeSandbox()
    ran = carry_out(sandbox, Action(kind="refusal", code="there is no tool 'x'", tree=b"t"), attempts=1)
    assert sandbox.actions == []
    assert ran == Ran(msgspec.structs.replace(ran.outcome, status="nonzero", stderr=b"there is no tool 'x'", tree=b"t"))


def test_a_tools_call_changes_the_world_and_one_that_is_refused_does_not(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    task = tool_task()

    def call(tree: bytes | None, text: str) -> Outcome:
        action = action_of(task, Trajectory(), text)
        assert action is not None
        if tree is not None:
            action = msgspec.structs.replace(action, tree=tree, files={})
        return carry_out(sandbox, action, attempts=1).outcome

    def world(outcome: Outcome) -> dict[str, int]:
        assert outcome.tree is not None
        content = unpack(outcome.tree)["world.json"].content
        assert content is not None
        return dict(json.loads(content))

    with BubblewrapSandbox(num_slots=1, home=sandbox_home(tmp_path_factory)) as sandbox:
        first = call(None, written("put", name="a", number=3))
        assert (first.status, json.loads(first.stdout), world(first)) == ("ok", {"total": 3}, {"a": 3})
        second = call(first.tree, written("put", name="b", number=-1))
        assert (second.status, world(second)) == ("nonzero", {"a": 3})
        assert json.loads(second.stdout) == {"error": "-1 is below 0"}
        third = call(second.tree, written("put", name="b", number=4))
        assert (json.loads(third.stdout), world(third)) == ({"total": 7}, {"a": 3, "b": 4})


def test_who_uses_up_all_files_there_may_be_cannot_keep_the_check_from_running(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    check = Case(name="tests", epilogue="cat hidden/test", files={"hidden/test": b"checked"})
    with BubblewrapSandbox(num_slots=1, home=sandbox_home(tmp_path_factory)) as sandbox:
        for num in (2000, 9999):
            fill = f"import os\nfor number in range({num}):\n    os.close(os.open(str(number), os.O_CREAT))\n"
            left = sandbox.run(Action(code=fill, keep_tree_bytes=1 << 20))
            assert (left.tree is not None) == (num == 2000)
            last = Action(kind="command", code=":", tree=left.tree or b"", cases=(check,))
            (case,) = carry_out(sandbox, last, attempts=1).cases
            assert (case.status, case.stdout) == ("ok", b"checked")
