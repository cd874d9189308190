"""Scoring history again beside the bare client, on one core, and what memory it takes as history grows.

`measure()` writes groups of eight one-turn rollouts with their live rewards. Raw is confluent-kafka alone: consuming
every one of those records, then producing as many of a reward's size and envelope as there are rollouts. The pass is
`rollog rescore --verifier exact_match --apply` without its start: reading, folding, scoring, comparing and writing.
Both run in a process of their own that is pinned to one core, client threads included; the broker has the other cores.
Memory is the resident peak of such a process over a small and a large history.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from consumers.history.ranges import Span
from consumers.history.reader import TOPICS
from consumers.offsets import consumer_options
from consumers.reader import end_offsets
from producers.publisher import producer_options
from rollog.broker import EmbeddedBroker
from rollog.rescoring import make_plan, run_plan
from rollog.selection import Options
from rollog.topics import create_topics
from schemas.arrays import PackedArray
from schemas.codec import encode_headers, encode_value, new_event
from schemas.config import LogSettings, Settings
from schemas.ids import derive_id, task_id
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.scorings import VerifierChoice
from schemas.tasks import SamplingParams, TaskIssued, VerifierSpec
from streams.scoring import Finding, reward_id, reward_of
from streams.verifiers import Score

NUM_SAMPLES, NUM_TOKENS = 8, 48
SMALL, LARGE = 10_000, 60_000
"""Rollouts of the two histories; 500,000 take longer to write than a bench should."""
BAR, MEMORY_BAR = 0.40, 1.2
TIMEOUT_S = 400.0
SAMPLING = SamplingParams(max_tokens=NUM_TOKENS)
CHOICE = VerifierChoice(kind="exact_match")
Record = tuple[str, bytes, bytes, list[tuple[str, bytes]], int]


def task_of(index: int) -> TaskIssued:
    return TaskIssued(
        task_id=task_id("bench", "train", index),
        run_id="bench",
        index=index,
        domain="verbs",
        prompt="call f 3 4|",
        verifier=VerifierSpec(kind="exact_match", expected="print(f(3,4))" * 4, partial="prefix"),
        num_samples=NUM_SAMPLES,
        sampling=SAMPLING,
        seed=index,
        deadline_s=600.0,
    )


def records(num_rollouts: int, start_s: float) -> Iterator[Record]:
    """Every record of a history, a tenth of a second from one task to the next."""
    ids = PackedArray.pack(range(NUM_TOKENS), dtype="i4")
    logprobs = PackedArray.pack([-0.5] * NUM_TOKENS, dtype="f4")
    for index in range(num_rollouts // NUM_SAMPLES):
        task, time_s = task_of(index), start_s + index / 10
        issued = new_event(task, id=task.task_id, key=task.task_id, source="bench", time_s=time_s)
        yield record("tasks", issued)
        for sample in range(NUM_SAMPLES):
            rollout_id = f"{task.task_id}/{sample}"
            is_right = (index + sample) % 3 == 0
            turn = TurnGenerated(
                task_id=task.task_id,
                rollout_id=rollout_id,
                sample=sample,
                turn=0,
                domain=task.domain,
                policy="policy",
                context_ids=ids,
                token_ids=ids,
                logprobs=logprobs,
                versions=ids,
                text="print(f(3,4))" * (4 if is_right else 3),
                finish_reason="stop",
                sampling=SAMPLING,
                seed=sample,
            )
            ended = RolloutEnded(
                task_id=task.task_id,
                rollout_id=rollout_id,
                sample=sample,
                domain=task.domain,
                why="finished",
                num_turns=1,
                num_tokens=NUM_TOKENS,
            )
            value = 1.0 if is_right else 0.75
            reward = reward_of(task, sample, Finding(score=Score(value=value, parts={"text": value})))
            made = (
                ("rollouts", turn, derive_id(rollout_id, "turn_generated", 0), 1.0),
                ("rollouts", ended, derive_id(rollout_id, "rollout_ended", 0), 1.001),
                ("rewards", reward, reward_id(reward), 1.5),
            )
            for topic, content, event_id, after_s in made:
                moment_s = time_s + after_s + sample / 100
                event = new_event(content, id=event_id, key=issued.key, source="bench", cause=issued, time_s=moment_s)
                yield record(topic, event)


def record(topic: str, event: Any) -> Record:
    value = encode_value(event.record)
    return topic, event.key.encode(), value, encode_headers(event), int(event.time_s * 1000)


def fill(log: LogSettings, num_rollouts: int) -> int:
    """Write a history, and return the number of its records."""
    create_topics(log)
    producer, num = Producer(producer_options(log)), 0
    for topic, key, value, headers, time_ms in records(num_rollouts, time.time() - 86_400 * 7):
        while True:
            try:
                producer.produce(f"{log.namespace}{topic}", value, key, headers=headers, timestamp=time_ms)
                break
            except BufferError:
                producer.poll(0.05)
        num += 1
    assert producer.flush(TIMEOUT_S) == 0
    return num


def raw_s(log: LogSettings) -> float:
    """Consume every record and produce a reward's bytes for each rollout, with the client alone."""
    ends = end_offsets(log, TOPICS)
    sample = next(r for r in records(NUM_SAMPLES, time.time()) if r[0] == "rewards")
    start_s = time.perf_counter()
    consumer = Consumer(consumer_options(log))
    consumer.assign([TopicPartition(log.namespace + topic, p, 0) for topic, p in ends])
    num_read, num_bytes, num_rollouts = 0, 0, sum(end for at, end in ends.items() if at[0] == "rewards")
    while num_read < sum(ends.values()):
        found = [m for m in consumer.consume(500, 0.05) if m.error() is None]
        num_read += len(found)
        num_bytes += sum(len(m.value()) for m in found)
    consumer.close()
    assert num_bytes
    producer = Producer(producer_options(log))
    for index in range(num_rollouts):
        while True:
            try:
                key = b"%032x" % index
                producer.produce(f"{log.namespace}evals", sample[2], key, headers=sample[3], timestamp=sample[4])
                break
            except BufferError:
                producer.poll(0.05)
        if not index % 1000:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    return time.perf_counter() - start_s


def pass_s(log: LogSettings, home: Path) -> float:

    start_s = time.perf_counter()
    plan = make_plan(Settings(log=log), CHOICE, Options(), Span(), blob_dir=home, applies=True)
    outcome = run_plan(plan, num_workers=1, on_progress=lambda _num: None)
    elapsed_s = time.perf_counter() - start_s
    assert outcome.num_written == sum(t.num_compared for t in outcome.comparison.domains.values()) > 0
    assert outcome.num_open == outcome.num_undecodable == 0

    return elapsed_s


def alone(what: str, log: LogSettings, home: Path) -> dict[str, float]:
    """Do it in a process of its own on the last core, and return seconds and the resident peak in MiB."""
    arguments = [sys.executable, "-m", "bench.rescoring", what, log.bootstrap, log.namespace, str(home)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def be_alone(what: str, bootstrap: str, namespace: str, home: str) -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    log = LogSettings(bootstrap=bootstrap, namespace=namespace)
    elapsed_s = raw_s(log) if what == "raw" else pass_s(log, Path(home))
    print(json.dumps({"s": elapsed_s, "cpu_s": time.process_time(), "mb": peak_mb()}))


def peak_mb() -> float:
    """Return the resident peak of this program; what `getrusage` has begins with that of who started it."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def measure(small: int = SMALL, large: int = LARGE) -> list[dict[str, Any]]:
    """Return the figures, each with `name`, `value`, `unit`, `bar` and `holds`."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        logs = [LogSettings(bootstrap=broker.bootstrap, namespace=name) for name in ("small.", "large.")]
        num_records = [fill(log, num) for log, num in zip(logs, (small, large), strict=True)][1]
        peaks = [alone("pass", log, Path(folder)) for log in logs]
        raw = alone("raw", logs[1], Path(folder))
    passed = peaks[1]
    memory = passed["mb"] / peaks[0]["mb"]
    ratio = raw["s"] / passed["s"]
    name, unit = "rescore_memory_growth", f"ratio of resident peaks, {small} to {large} rollouts"
    return [
        {"name": "rescore_of_raw_client", "value": round(ratio, 3), "unit": "ratio", "bar": BAR, "holds": ratio >= BAR},
        {"name": name, "value": round(memory, 3), "unit": unit, "bar": MEMORY_BAR, "holds": memory <= MEMORY_BAR},
        *(
            {"name": name, "value": round(value, 1), "unit": unit, "bar": None, "holds": True}
            for name, value, unit in (
                ("rescore", large / passed["s"], "rollouts/s"),
                ("rescore_records", num_records / passed["s"], "records/s"),
                ("rescore_raw_client", large / raw["s"], "rollouts/s"),
                ("rescore_memory", passed["mb"], "MiB"),
            )
        ),
    ]


if __name__ == "__main__":
    be_alone(*sys.argv[1:])
