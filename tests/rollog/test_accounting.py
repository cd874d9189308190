from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from producers.publisher import Publisher
from rollog.accounting import Accounts, read_accounts
from rollog.report import account_tree
from rollog.topics import create_topics
from schemas.codec import new_event
from schemas.config import LogSettings
from schemas.events import Event, Position
from schemas.recalls import quarantine_command
from schemas.selections import Selection
from schemas.steps import BatchRef
from schemas.topics import TOPICS
from tests.samples import TASK_ID, ended, records, reward, step, task

RECORDS = records()


def event(record: Any, *, id: str, key: str = TASK_ID) -> Event[Any]:  # noqa: A002 the envelope's own name
    return new_event(record, id=id, key=key, source="rollog/test")


def books(*events: Event[Any]) -> Accounts:
    accounts = Accounts("golden")
    for one in events:
        accounts.add(one)
    return accounts


ISSUED = event(task(), id=TASK_ID)
BATCH = event(RECORDS["batch"], id="batch")
DECISION = event(RECORDS["decision"], id="decision")


def trained(step_number: int, *batch_ids: str, digest: str = "sha256:04") -> Event[Any]:
    refs = tuple(BatchRef(topic="batches", partition=0, offset=0, event_id=one, digest="") for one in batch_ids)
    record = msgspec.structs.replace(step(), step=step_number, batches=refs, weights_digest_out=digest)
    return event(record, id=f"step-{step_number}", key="golden")


def test_an_issued_task_is_open_until_something_ends_it() -> None:
    assert books(ISSUED).tasks.open == 1
    assert books(ISSUED, BATCH).tasks.batched == 1
    assert books(ISSUED, DECISION).tasks.decided == {"zero_variance": 1}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_order_of_arrival_does_not_matter(order: tuple[int, int]) -> None:
    events = (ISSUED, BATCH)

    tasks = books(*(events[index] for index in order)).tasks

    assert (tasks.issued, tasks.batched, tasks.open) == (1, 1, 0)


def test_an_open_task_is_a_finding() -> None:
    assert any("open" in finding for finding in books(ISSUED).balance())
    assert books(ISSUED, BATCH).balance() == []


def test_repeats_of_an_id_change_nothing() -> None:
    accounts = books(ISSUED, BATCH, BATCH, ISSUED)

    assert accounts.balance() == []
    assert accounts.num_repeats == 2


def test_the_effective_share_is_what_was_trained_on_of_what_was_drawn_for_training() -> None:
    other = "f" * 32
    held_out = event(task(task_id=other, split="held_out", index=8), id=other, key=other)
    drawn = [
        event(ended(0, num_tokens=9), id="a"),
        event(ended(1, num_tokens=3), id="b"),
        event(ended(0, num_tokens=50, task_id=other, rollout_id=f"{other}/0"), id="c", key=other),
    ]
    accounts = books(*drawn, held_out, ISSUED, trained(1, "batch"), trained(1, "batch", digest="sha256:09"))
    assert accounts.effective_share == {"*": 0.5, "repair": 0.5}
    assert account_tree(accounts)["effective_share"] == {"*": 0.5, "repair": 0.5}
    assert books(ISSUED).effective_share == {}


def test_a_task_with_two_ends_is_found() -> None:
    accounts = books(ISSUED, BATCH, DECISION)

    assert accounts.ended_twice == [TASK_ID]
    assert accounts.tasks.add_up
    assert any("more than once" in finding for finding in accounts.balance())


def test_a_batch_of_a_task_that_was_never_issued_is_found() -> None:
    assert books(BATCH).ended_unissued == [TASK_ID]


def test_a_dead_letter_of_the_task_itself_ends_it_and_others_do_not() -> None:
    letter = msgspec.structs.replace(RECORDS["dead_letter"], topic="tasks", key=TASK_ID.encode())
    other = msgspec.structs.replace(letter, topic="rollouts")

    assert books(ISSUED, event(letter, id="dead")).tasks.deadlettered == 1
    assert books(ISSUED, event(other, id="dead")).tasks.open == 1


def test_a_batch_in_two_steps_is_found_and_the_same_step_twice_is_not() -> None:
    assert books(trained(1, "a"), trained(2, "b"), trained(2, "b")).trained_twice == []
    assert books(trained(1, "a"), trained(2, "a")).trained_twice == ["a"]


def test_a_step_with_two_results_is_found() -> None:
    assert books(trained(1, "a"), trained(1, "a")).forked_steps == []
    assert books(trained(1, "a"), trained(1, "a", digest="sha256:ff")).forked_steps == [1]


def test_batches_are_trained_passed_over_or_waiting() -> None:
    stale = msgspec.structs.replace(RECORDS["decision"], stage="learner", reason="stale", batch_id="batch")

    assert books(ISSUED, BATCH).batches == {"trained": 0, "waiting": 1}
    assert books(ISSUED, BATCH, trained(1, "batch")).batches == {"trained": 1, "waiting": 0}
    assert books(ISSUED, BATCH, event(stale, id="stale")).batches == {"trained": 0, "stale": 1, "waiting": 0}
    assert books(ISSUED, BATCH, event(stale, id="stale")).balance() == []


def test_other_runs_on_the_same_log_do_not_count() -> None:
    other = event(task(run_id="other", task_id="f" * 32), id="f" * 32, key="f" * 32)

    assert books(ISSUED, BATCH, other).tasks.issued == 1


def test_tokens_and_invalid_rewards_are_counted() -> None:
    invalid = reward(value=None, invalid_reason="infrastructure")

    accounts = books(event(ended(), id="e0"), event(ended(1), id="e1"), event(invalid, id="r0"))

    assert accounts.num_tokens == 6
    assert accounts.invalid == {"infrastructure": 1}


def test_the_books_are_read_from_the_log_whatever_else_is_on_it(broker: str, namespace: str, tmp_path: Path) -> None:
    log = LogSettings(bootstrap=broker, namespace=namespace)
    create_topics(log)
    publisher = Publisher(log, source="rollog/test", blob_dir=tmp_path)
    publisher.send_all([ISSUED, BATCH, trained(1, "batch"), BATCH])
    publisher.close()
    foreign = Producer({"bootstrap.servers": broker})
    foreign.produce(f"{namespace}batches", key=b"x", value=b"\xc1")
    assert foreign.flush(15) == 0

    accounts = read_accounts(log, "golden", blob_dir=tmp_path)

    assert accounts.balance() == []
    assert (accounts.tasks.issued, accounts.num_repeats) == (1, 1)
    assert accounts.event_bytes["batches"] > 0


def test_what_was_made_again_of_history_ends_no_task_and_waits_for_nobody() -> None:
    rebuilt = msgspec.structs.replace(RECORDS["batch"], scoring_id="strict")
    accounts = books(ISSUED, DECISION, event(rebuilt, id="rebuilt"))
    assert accounts.balance() == []
    assert (accounts.tasks.batched, accounts.batches) == (0, {"trained": 0, "waiting": 0})
    assert books(ISSUED, event(rebuilt, id="rebuilt")).tasks.open == 1


def test_a_task_issued_under_a_scoring_ends_by_its_batch_and_its_invalid_rewards_count() -> None:
    issued = event(task(scoring_id="strict"), id=TASK_ID)
    batch = msgspec.structs.replace(RECORDS["batch"], scoring_id="strict", rebuilt=False)
    invalid = {"value": None, "invalid_reason": "deadline", "scoring_id": "strict"}
    accounts = books(
        issued,
        event(batch, id="batch"),
        event(reward(own=True, **invalid), id="r0"),
        event(reward(**invalid | {"scoring_id": "shadow"}), id="r1"),
    )
    assert accounts.balance() == []
    assert (accounts.tasks.batched, accounts.invalid) == (1, {"deadline": 1})


def test_alerts_quarantines_and_steps_that_went_back_are_in_the_books() -> None:
    command = quarantine_command("golden", Selection(domain="verbs"), batches=frozenset(), batch_ends={}, given_by="me")
    given = msgspec.structs.replace(event(command, id="q", key="golden"), position=Position("commands", 0, 0))
    back = trained(6)
    back = msgspec.structs.replace(back, record=msgspec.structs.replace(back.record, restored_from=4))
    found = books(event(RECORDS["alert_raised"], id="a"), event(RECORDS["alert_raised"], id="b"), given, back)
    tree = account_tree(found)
    assert tree["alerts"] == {"disagreement": 2}
    assert tree["quarantines"] == [{"quarantine_id": "q", "selection": "--domain verbs", "given_by": "me"}]
    assert tree["rollbacks"] == [{"step": 6, "to_version": 4}]
    assert tree["findings"] == []


def test_a_log_of_before_a_topic_came_is_read_all_the_same(
    broker: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogSettings(bootstrap=broker, namespace=namespace, partitions=1)
    with monkeypatch.context() as older:
        older.delitem(TOPICS, "alerts")
        create_topics(log)
    assert read_accounts(log, "golden", blob_dir=tmp_path).balance() == []
