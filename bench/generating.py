"""Sampling rollouts with the demo's policy on one core, and nothing else: the least that generating again can take.

The generator's own mind and sampler do it, with as many slots as in a run, on the demo's tasks. Around them is no log:
what is written is encoded and counts as durable, and a program's outcome is there at once, a failure where the domain
has a second turn. So it is faster than any run; bench/looping.py is one.
"""

import time
from hashlib import sha256
from pathlib import Path
from typing import Any

from consumers.telemetry import Telemetry
from producers.generation import Generator
from producers.generator import TOKENS_PER_ROUND
from producers.publisher import OnDelivered
from producers.samplers import make_sampler
from producers.tasks import train_task
from schemas.codec import encode_headers, encode_value, new_event
from schemas.config import Settings, load_settings
from schemas.events import Event, Position
from schemas.executions import ExecutionFinished, Outcome
from schemas.ids import derive_id
from schemas.policies import PolicyPublished
from schemas.rollouts import RolloutEnded, TurnGenerated

ROOT = Path(__file__).parents[1]
NUM_WARM, NUM_TASKS = 8, 96
"""Tasks before the clock starts, and those that are timed."""


class NoLog:
    """A publisher for which everything is durable at once."""

    def __init__(self) -> None:
        self.turns: list[TurnGenerated] = []
        self.num_ended = 0

    def event(self, record: Any, **fields: Any) -> Event[Any]:
        """Return an event that is yet to be written."""
        return new_event(record, source="rollog/generator-0", **fields)

    def publish(self, event: Event[Any], on_delivered: OnDelivered) -> None:
        """Encode it, and say that it is written."""
        encode_value(event.record), encode_headers(event)
        if isinstance(event.record, TurnGenerated):
            self.turns.append(event.record)
        self.num_ended += isinstance(event.record, RolloutEnded)
        on_delivered(None)


def rollouts_per_s() -> float:
    """Return how many rollouts a second this process generates."""
    settings = load_settings([ROOT / "demo" / "demo.toml"])
    log = NoLog()
    publisher: Any = log
    generator = Generator(
        settings, sampler=make_sampler(settings.generator), publisher=publisher, telemetry=Telemetry("generator")
    )
    generator.policies.take(base_of(settings))
    generator.load_newest()
    generate(generator, log, settings, range(NUM_WARM))
    num_before, start_s = log.num_ended, time.perf_counter()
    generate(generator, log, settings, range(NUM_WARM, NUM_WARM + NUM_TASKS))
    return (log.num_ended - num_before) / (time.perf_counter() - start_s)


def base_of(settings: Settings) -> PolicyPublished:
    """Return the demo's base policy as it is published."""
    folder = ROOT / settings.policy.base
    content = (folder / "model.safetensors").read_bytes()
    return PolicyPublished(
        policy=settings.policy.name,
        version=0,
        parent=None,
        run_id=settings.run,
        step=0,
        address=str(folder),
        digest=f"sha256:{sha256(content).hexdigest()}",
        num_bytes=len(content),
    )


def generate(generator: Generator, log: NoLog, settings: Settings, indices: range) -> None:
    """Generate all rollouts of these tasks."""
    wanted = log.num_ended + len(indices) * settings.tasks.num_samples
    for index in indices:
        task = train_task(settings, index)
        take(generator, task, task.task_id, "tasks", index)
    while log.num_ended < wanted:
        generator.work(TOKENS_PER_ROUND)
        for turn in log.turns:
            if turn.action is not None:
                execution = ExecutionFinished(
                    task_id=turn.task_id,
                    rollout_id=turn.rollout_id,
                    turn=turn.turn,
                    domain=turn.domain,
                    outcome=outcome_of(turn),
                )
                take(generator, execution, derive_id(turn.rollout_id, "execution_finished", turn.turn), "executions", 0)
        log.turns.clear()


def outcome_of(turn: TurnGenerated) -> Outcome:
    """Return what running the turn's program comes to."""
    if turn.domain == "repair" and turn.turn == 0:
        return Outcome(status="nonzero", exit_code=1, stderr=b"ValueError: mode q\n")
    return Outcome(status="ok", exit_code=0, stdout=b"12\n")


def take(generator: Generator, record: Any, event_id: str, topic: str, offset: int) -> None:
    """Give the generator an event."""
    event = new_event(record, id=event_id, key=record.task_id, source="bench")
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    generator.take(Event(**(fields | {"position": Position(topic, 0, offset)})), lambda: None)
