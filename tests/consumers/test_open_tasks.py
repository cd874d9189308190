"""The three rules of `open_tasks`, on a model of the log: any order, any crash, any time of an output's durability."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.acknowledgements import Acknowledgements
from consumers.open_tasks import OpenTask, OpenTasks
from schemas.codec import new_event
from schemas.events import Event, Position
from schemas.ids import derive_id, task_id
from tests import samples

NUM_SAMPLES = 2


def inputs_of(index: int) -> list[Event[Any]]:
    """Return a task and the ends of its rollouts, without positions."""
    key = task_id("model", "train", index)
    issued = samples.task(task_id=key, num_samples=NUM_SAMPLES)
    events = [new_event(issued, id=key, key=key, source="model", time_s=0.0)]
    for sample in range(NUM_SAMPLES):
        record = samples.ended(sample, task_id=key, rollout_id=f"{key}/{sample}")
        event_id = derive_id(record.rollout_id, "rollout_ended", 0)
        events.append(new_event(record, id=event_id, key=key, source="model", time_s=0.0))
    return events


def output_of(event: Event[Any]) -> Event[Any]:
    """Return the reward of a rollout that ended."""
    record = event.record
    reward = samples.reward(record.sample, task_id=event.key, rollout_id=record.rollout_id)
    return new_event(
        reward, id=derive_id(record.rollout_id, "reward_scored", 0), key=event.key, source="model", time_s=0.0
    )


def placed(event: Event[Any], topic: str, offset: int) -> Event[Any]:
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return Event(**(fields | {"position": Position(topic, 0, offset)}))


def is_finished(task: OpenTask) -> bool:
    return task.group.task is not None and len(task.outputs) == NUM_SAMPLES


class Model:
    """One input partition and one output partition, and a stage on them that may crash at any point."""

    def __init__(self, log: list[Event[Any]]) -> None:
        self.log = [placed(event, "rollouts", offset) for offset, event in enumerate(log)]
        self.outputs: list[tuple[int, Event[Any]]] = []
        """With the number of inputs that were on the log when it was written: its time."""
        self.committed = 0
        self.num_repeats = 0
        self.start()

    def start(self) -> None:
        """Begin an assignment: own outputs since the oldest input that comes again, then the inputs from there."""
        self.open = OpenTasks(is_finished=is_finished, grace_s=1e9)
        self.books = Acknowledgements()
        self.next = self.committed
        self.sending: list[Event[Any]] = []
        self.asked: set[str] = set()
        self.open.recall([output for time, output in self.outputs if time > self.committed])

    def deliver(self) -> None:
        if self.next == len(self.log):
            return
        event = self.log[self.next]
        ack = self.books.deliver(("rollouts", 0), self.next)
        self.next += 1
        task = self.open.take(event, ack, now_s=0.0)
        if task is None:
            return
        for held in task.inputs:
            if held.id == held.key or task.group.task is None:
                continue
            output = output_of(held)
            if output.id not in self.asked and output.id not in task.outputs:
                self.asked.add(output.id)
                self.sending.append(output)

    def make_durable(self) -> None:
        if not self.sending:
            return
        output = self.sending.pop(0)
        self.num_repeats += any(output.id == other.id for _, other in self.outputs)
        self.outputs.append((self.next, placed(output, "rewards", len(self.outputs))))
        self.open.note_output(self.outputs[-1][1])

    def commit(self) -> None:
        self.committed = max(self.committed, self.books.committable().get(("rollouts", 0), self.committed))

    def run(self, step: str) -> None:
        match step:
            case "deliver":
                self.deliver()
            case "durable":
                self.make_durable()
            case "commit":
                self.commit()
            case "crash":
                self.start()


logs = st.permutations([event for index in range(4) for event in inputs_of(index)])
steps = st.lists(
    st.sampled_from(("deliver", "deliver", "deliver", "durable", "durable", "commit", "crash")), max_size=80
)


@settings(max_examples=300, deadline=None)
@given(logs, steps)
def test_every_task_is_finished_exactly_once_whatever_crashes_when(log: list[Event[Any]], steps: list[str]) -> None:
    model = Model(log)
    for step in steps:
        model.run(step)
    for _ in range(len(log) + 1):
        model.deliver()
    while model.sending:
        model.make_durable()
    model.commit()

    wanted = {output_of(event).id for event in log if event.id != event.key}
    assert {output.id for _, output in model.outputs} == wanted
    assert model.num_repeats == 0
    lost = model.open.orphans(1e9)
    assert lost == []
    model.commit()
    assert model.committed == len(log)


@settings(max_examples=100, deadline=None)
@given(logs, steps)
def test_nothing_is_committed_whose_task_is_not_finished(log: list[Event[Any]], steps: list[str]) -> None:
    model = Model(log)
    for step in steps:
        model.run(step)
        done = {output.id for _, output in model.outputs}
        for event in model.log[: model.committed]:
            wanted = {output_of(other).id for other in log if other.key == event.key and other.id != other.key}
            assert wanted <= done


def one_task() -> tuple[OpenTasks, list[str], list[Event[Any]]]:
    acked: list[str] = []
    events = [placed(event, "rollouts", offset) for offset, event in enumerate(inputs_of(0))]
    return OpenTasks(is_finished=is_finished, grace_s=5.0, orphan_s=30.0), acked, events


def test_all_events_of_a_task_are_acknowledged_together_and_only_when_it_is_finished() -> None:
    tasks, acked, events = one_task()
    for event in events:
        tasks.take(event, lambda event=event: acked.append(event.id), now_s=0.0)  # type: ignore[misc]
    assert tasks.note_output(output_of(events[1])) is False
    assert acked == []
    assert tasks.note_output(output_of(events[2])) is True
    assert acked == [event.id for event in events]
    assert tasks.take(events[0], lambda: acked.append("again"), now_s=0.0) is None
    assert acked[-1] == "again"


def test_an_event_without_task_but_with_outputs_belongs_to_a_finished_task() -> None:
    tasks, acked, events = one_task()
    tasks.recall([output_of(events[2])])
    tasks.take(events[1], lambda: acked.append("late"), now_s=100.0)

    assert tasks.orphans(129.0) == []
    assert acked == []
    assert tasks.orphans(130.0) == []
    assert acked == ["late"]


def test_an_event_with_neither_task_nor_outputs_is_an_orphan() -> None:
    tasks, acked, events = one_task()
    tasks.take(events[1], lambda: acked.append("never"), now_s=100.0)

    assert [task.task_id for task in tasks.orphans(130.0)] == [events[1].key]
    assert acked == []


def test_what_is_forgotten_is_not_acknowledged() -> None:
    tasks, acked, events = one_task()
    tasks.take(events[0], lambda: acked.append("no"), now_s=0.0)

    assert [task.task_id for task in tasks.forget({0})] == [events[0].key]
    assert tasks.open == {}
    assert acked == []


def test_a_task_is_overdue_after_deadline_and_grace() -> None:
    tasks, _, events = one_task()
    tasks.take(events[0], lambda: None, now_s=0.0)
    due_s = events[0].record.deadline_s + 5.0

    assert tasks.overdue(due_s - 0.1) == []
    assert [task.task_id for task in tasks.overdue(due_s)] == [events[0].key]
