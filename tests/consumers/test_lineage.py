import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from consumers.index import Index
from consumers.lineage import Lineage
from consumers.naming import find_policy, find_reward, find_rollout, find_step, find_task
from rollog.audit import chain_of
from rollog.audit_tree import tree_of
from schemas.errors import LogError
from schemas.ids import task_id
from tests.history import MemoryLog, write_history

TRAINED, UNTRAINED = task_id("golden", "train", 0), task_id("golden", "train", 2)


class Past:
    def __init__(self, log: MemoryLog, path: Path) -> None:
        self.log, self.index = log, Index(path)
        self.index.catch_up(log.open_reader, log.bounds)  # type: ignore[arg-type]
        self.lineage = Lineage(self.index, log.open_reader, log.bounds)  # type: ignore[arg-type]

    def audit(self, kind: Any, name: str, run: str = "golden") -> dict[str, Any]:
        return {"kind": kind, "name": name, **chain_of(self.lineage, self.index, kind, name, run=run)}


@pytest.fixture
def past(tmp_path: Path) -> Past:
    log = MemoryLog(tmp_path / "blobs")
    write_history(log.send_all)
    return Past(log, tmp_path / "index")


def at(past: Past, topic: str, event_id: str) -> str:
    return next(str(event.position) for event in past.log.events(topic) if event.id == event_id)


def test_a_rollout_leads_from_its_task_to_the_policies_that_descend(past: Past) -> None:
    found = past.audit("rollout", f"{TRAINED}/1")
    assert found["task"]["task_id"] == TRAINED
    assert found["task"]["position"] == at(past, "tasks", TRAINED)
    assert found["task"]["sampling"] == {"temperature": 0.5, "top_p": 0.75, "max_tokens": 24}
    (rollout,) = found["rollouts"]
    (turn,) = rollout["turns"]
    assert (turn["policy"], turn["versions"], turn["seed"]) == ("policy", [0], 99)
    assert turn["cause"] == TRAINED
    assert turn["execution"]["sandbox_digest"] == "sha256:00"
    assert turn["execution"]["cause"] == turn["event_id"]
    (reward,) = rollout["rewards"]
    assert (reward["value"], reward["parts"], reward["verifier_version"]) == (1.0, {"stdout": 1.0}, 1)
    assert rollout["advantage"] == 0.5
    (end,) = found["ends"]
    assert (end["kind"], end["reward_mean"]) == ("batch", 0.5)
    (step,) = found["steps"]
    assert (step["step"], step["policy_version_out"]) == (1, 1)
    assert [policy["version"] for policy in found["policies"]] == [0]
    assert found["descendants"] == [{"run": "golden", "policy": "policy", "from": 1, "count": 4, "shown": [1, 2, 3, 4]}]
    assert found["gone"] == []


def test_a_rollout_shows_nothing_of_its_siblings(past: Past) -> None:
    assert [rollout["sample"] for rollout in past.audit("rollout", f"{TRAINED}/1")["rollouts"]] == [1]
    assert [rollout["sample"] for rollout in past.audit("task", TRAINED)["rollouts"]] == [0, 1]


def test_what_did_not_train_says_why_and_has_no_step(past: Past) -> None:
    found = past.audit("task", UNTRAINED)
    assert [(end["kind"], end["reason"]) for end in found["ends"]] == [("decision", "zero_variance")]
    assert (found["steps"], found["descendants"]) == ([], [])
    assert found["rollouts"][0]["advantage"] is None


def test_a_reward_is_found_by_its_event(past: Past) -> None:
    event = past.log.events("rewards")[-1]
    found = past.audit("reward", event.id)
    (rollout,) = found["rollouts"]
    assert [reward["event_id"] for reward in rollout["rewards"]] == [event.id]
    assert past.audit("reward", event.id[:12])["rollouts"] == found["rollouts"]


def test_a_step_has_its_batches_and_whether_they_are_unchanged(past: Past) -> None:
    found = past.audit("step", "2")
    assert (found["step"]["step"], found["policy_in"]["version"], found["policy_out"]["version"]) == (2, 1, 2)
    (batch,) = found["batches"]["shown"]
    assert (batch["task_id"], batch["is_unchanged"]) == (task_id("golden", "train", 1), True)
    assert batch["position"] == at(past, "batches", batch["batch_id"])
    assert found["descendants"][0]["shown"] == [2, 3, 4]


def test_a_policy_version_has_its_maker_its_parent_and_what_it_drew(past: Past) -> None:
    found = past.audit("policy", "policy@1")
    assert (found["policy"]["version"], found["parent"]["version"], found["made_by"]["step"]) == (1, 0, 1)
    assert found["drew"]["shown"] == [task_id("golden", "train", 1)]
    assert found["drew"]["num_turns"] == 2
    base = past.audit("policy", "golden/policy@0")
    assert (base["parent"], base["made_by"]) == (None, None)


def test_a_batch_that_retention_removed_is_said_to_be_gone(past: Past) -> None:
    (batch,) = [event for event in past.log.events("batches") if event.key == TRAINED]
    past.log.drop(batch.position)
    found = past.audit("task", TRAINED)
    assert found["gone"] == [str(batch.position)]
    assert [rollout["sample"] for rollout in found["rollouts"]] == [0, 1]


def test_a_repeat_is_shown_once(tmp_path: Path) -> None:
    log = MemoryLog(tmp_path / "more")
    write_history(log.send_all)
    for topic in ("rewards", "batches", "decisions"):
        log.send_all(log.events(topic))
    found = Past(log, tmp_path / "again").audit("task", TRAINED)
    assert [len(rollout["rewards"]) for rollout in found["rollouts"]] == [1, 1]
    assert (len(found["ends"]), len(found["steps"])) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("task", TRAINED), ("rollout", f"{UNTRAINED}/0"), ("step", "1"), ("policy", "0"), ("policy", "3")],
)
def test_every_chain_can_be_shown_to_people(past: Past, kind: str, name: str) -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    found = past.audit(kind, name)
    console.print(tree_of(found))
    text = console.export_text()
    assert name in text
    assert "@" in text


def test_the_beginning_of_a_task_id_is_enough_where_it_is_the_only_one(past: Past) -> None:
    assert find_task(past.index, TRAINED[:10]).task == TRAINED
    named = find_rollout(past.index, f"{TRAINED[:10]}/1")
    assert (named.task, named.sample) == (TRAINED, 1)


def test_a_beginning_of_several_names_them(tmp_path: Path) -> None:
    log = MemoryLog(tmp_path / "blobs")
    write_history(log.send_all, num_tasks=60)
    index = Past(log, tmp_path / "i").index
    first = next(p for p in "0123456789abcdef" if sum(e.id.startswith(p) for e in log.events("tasks")) > 1)
    with pytest.raises(LogError, match=r"begin so: .*; give more of it"):
        find_task(index, first)


def test_an_event_stands_for_what_it_is_about(past: Past) -> None:
    turn = past.log.events("rollouts")[0]
    assert find_task(past.index, turn.id).task == turn.key
    assert find_rollout(past.index, turn.id).sample == turn.record.sample


@pytest.mark.parametrize(
    ("find", "name", "hint"),
    [
        (find_task, TRAINED[:20] + "xyz", TRAINED),
        (find_task, "", "nearest"),
        (find_reward, TRAINED, "id of a task_issued, at tasks"),
        (find_rollout, f"{TRAINED}/9", "there are: 0, 1"),
        (find_rollout, f"{TRAINED}/x", "there are: 0, 1"),
        (find_rollout, "abc", "TASK/SAMPLE"),
    ],
)
def test_an_unknown_name_says_what_is_nearest(past: Past, find: Any, name: str, hint: str) -> None:
    with pytest.raises(LogError, match=hint):
        find(past.index, name)


def test_unknown_steps_and_versions_say_which_there_are(past: Past) -> None:
    with pytest.raises(LogError, match="has no step 9 on the log; it has 1 to 4"):
        find_step(past.index, "9", "golden")
    with pytest.raises(LogError, match="nearest: policy@4"):
        find_policy(past.index, "9", "golden")
    with pytest.raises(LogError, match="run 'nobody' has no steps on the log; there are of: golden"):
        find_step(past.index, "nobody/1", "golden")


def test_the_only_run_is_meant_where_the_settings_name_another(past: Past) -> None:
    assert past.audit("step", "1", run="default")["step"]["run_id"] == "golden"


@pytest.mark.parametrize("kind", ["rollout", "task", "reward"])
def test_what_is_asked_about_one_task_goes_by_indexes_and_through_no_large_table(past: Past, kind: str) -> None:
    past.index.make_indexes()
    names = {
        "rollout": f"{TRAINED}/1",
        "task": TRAINED,
        "reward": past.audit("rollout", f"{TRAINED}/1")["rollouts"][0]["rewards"][0]["event_id"],
    }
    asked: list[str] = []
    past.index.db.set_trace_callback(asked.append)
    past.audit(kind, names[kind])
    past.index.db.set_trace_callback(None)
    plans = [step[3] for query in asked for step in past.index.db.execute(f"EXPLAIN QUERY PLAN {query}")]
    assert plans
    assert [
        step for step in plans if step.split()[:2] in (["SCAN", t] for t in ("events", "rollouts", "rewards"))
    ] == []
