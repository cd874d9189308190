import msgspec

from consumers.raw import RawRecord
from producers.blobs import BlobStore
from producers.distinct import MOST_DRAWS, Distinct, question_of
from producers.tasks import train_task
from schemas.codec import encode_value
from schemas.config import Settings, TaskSettings
from schemas.events import Position
from schemas.tasks import TaskIssued
from tests import samples

SETTINGS = Settings(run="r", seed=3, tasks=TaskSettings(domains={"verbs": 1.0}, distinct=1000))


def issued(distinct: Distinct, num: int, first: int = 0) -> list[TaskIssued]:
    return [
        distinct.draw(lambda draw, index=index: train_task(SETTINGS, index, draw=draw))  # type: ignore[misc]
        for index in range(first, first + num)
    ]


def raw(task: TaskIssued, offset: int) -> RawRecord:
    where = Position("tasks", 0, offset)
    return RawRecord(position=where, key=task.task_id.encode(), value=encode_value(task), headers=[], timestamp_ms=1)


def test_no_question_comes_twice_within_the_window_and_a_task_says_how_often_it_was_drawn() -> None:
    plain = [question_of(train_task(SETTINGS, index)) for index in range(600)]
    assert len(set(plain)) < 600, "nothing to avoid"
    tasks = issued(Distinct(1000), 600)
    assert len({question_of(task) for task in tasks}) == 600
    again = [question_of(task) for task in issued(Distinct(5), 600)]
    assert len(set(again)) < 600, "what is long ago may come again"
    assert not any(again[index] in again[max(0, index - 5) : index] for index in range(600))
    assert {task.draw for task in tasks} > {0}
    assert tasks == [train_task(SETTINGS, index, draw=task.draw) for index, task in enumerate(tasks)]


def test_an_issuer_that_comes_back_remembers_what_the_log_shows(tmp_path: object) -> None:
    live = Distinct(50)
    before = issued(live, 120)
    other = samples.task(run_id="r", domain="repair")
    held_out = msgspec.structs.replace(before[0], split="held_out", prompt="held out")
    broken = msgspec.structs.replace(raw(before[0], 9), value=b"\xc1")
    log = [raw(task, place) for place, task in enumerate([*before[::-1], other, held_out])]
    back = Distinct(50)
    back.recall([*log, broken], "r", BlobStore(tmp_path))  # type: ignore[arg-type]
    assert issued(back, 120, 120) == issued(live, 120, 120)


def test_a_domain_with_too_few_questions_asks_them_again() -> None:
    calls: list[int] = []

    def only(draw: int) -> TaskIssued:
        calls.append(draw)
        return samples.task(draw=draw)

    distinct = Distinct(50)
    assert [distinct.draw(only).draw for _ in range(2)] == [0, 0]
    assert calls == [0, *range(MOST_DRAWS)]


def test_tasks_differ_by_prompt_files_and_setup_and_by_nothing_else() -> None:
    task = samples.task()
    assert task.execution is not None
    assert question_of(task) == question_of(msgspec.structs.replace(task, index=9, seed=4, level=3))
    assert question_of(task) != question_of(msgspec.structs.replace(task, prompt="other"))
    for change in ({"files": {"a": b"x"}}, {"setup": "ls"}):
        execution = msgspec.structs.replace(task.execution, **change)
        assert question_of(task) != question_of(msgspec.structs.replace(task, execution=execution))
