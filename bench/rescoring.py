"""Scoring history again beside the bare client and beside generating it again, each on one core, and its memory.

Raw is confluent-kafka alone: consuming every record of a history (bench/histories.py), then producing as many of a
reward's size and envelope as there are rollouts, which were made before. The pass is `rollog rescore --verifier
exact_match --apply` without its start, which asks where the log ends and declares the scoring: reading, folding,
scoring, comparing, writing until all is durable. Both run in a process of their own that is pinned to one core, client
threads included, and open their clients within the time that is measured; the broker has the other cores.

Generating again is what there is to do without rescoring: to issue, generate, execute, verify and assemble as many
rollouts on that core, everything on the log (bench/looping.py). Beside it, without a bar, stands what the policy's
sampler does there alone, without a log, a sandbox or a verifier (bench/generating.py). Memory is the resident peak of a
pass over a small and a large history.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.histories import FLUSH_S, fill, produce, records
from consumers.history.ranges import Span
from consumers.history.reader import TOPICS
from consumers.offsets import consumer_options
from consumers.reader import end_offsets
from producers.publisher import producer_options
from rollog.broker import EmbeddedBroker
from rollog.rescoring import make_plan, run_plan
from rollog.selection import Options
from schemas.config import LogSettings, Settings
from schemas.scorings import VerifierChoice

SMALL, LARGE = 10_000, 100_000
"""Rollouts of the two histories; `python -m bench rescoring_large` takes 500,000."""
BAR, GENERATING_BAR, MEMORY_BAR = 0.40, 100.0, 1.2
CHOICE = VerifierChoice(kind="exact_match")
NUM_MADE = 20_000
"""Rewards that raw writes over and over: more than one batch has, so that they compress no better than others."""
GATHERING = {"linger.ms": 50}
"""What the pass' publisher has, too."""
AT_ONCE = {"fetch.min.bytes": 1, "fetch.wait.max.ms": 5}


def raw_s(log: LogSettings) -> float:
    """Consume every record and produce a reward's bytes for each rollout, with the client alone."""
    ends = end_offsets(log, TOPICS)
    rewards = [record for record in records(NUM_MADE, time.time()) if record[0] == "rewards"]
    start_s = time.perf_counter()
    consumer = Consumer({**consumer_options(log), **AT_ONCE})
    consumer.assign([TopicPartition(log.namespace + topic, p, 0) for topic, p in ends])
    num_read, num_bytes, num_rollouts = 0, 0, sum(end for at, end in ends.items() if at[0] == "rewards")
    while num_read < sum(ends.values()):
        found = [m for m in consumer.consume(500, 0.05) if m.error() is None]
        num_read += len(found)
        num_bytes += sum(len(m.value()) for m in found)
    consumer.close()
    assert num_bytes
    producer = Producer({**producer_options(log), **GATHERING})
    for index in range(num_rollouts):
        produce(producer, f"{log.namespace}evals", rewards[index % NUM_MADE])
        if not index % 1000:
            producer.poll(0)
    assert producer.flush(FLUSH_S) == 0
    return time.perf_counter() - start_s


def pass_s(log: LogSettings, home: Path) -> float:
    """Score the history again, and write the rewards."""
    plan = make_plan(Settings(log=log), CHOICE, Options(), Span(), blob_dir=home, applies=True)
    start_s = time.perf_counter()
    outcome = run_plan(plan, num_workers=1, on_progress=lambda _num: None)
    elapsed_s = time.perf_counter() - start_s
    assert outcome.num_written == sum(t.num_compared for t in outcome.comparison.domains.values()) > 0
    assert outcome.num_open == outcome.num_undecodable == 0
    return elapsed_s


def alone(what: str, log: LogSettings, home: Path) -> dict[str, float]:
    """Do it in a process of its own on the last core, and return its figure and the resident peak in MiB."""
    arguments = [sys.executable, "-m", "bench.rescoring", what, log.bootstrap, log.namespace, str(home)]
    done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def be_alone(what: str, bootstrap: str, namespace: str, home: str) -> None:
    """Be that process."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    log = LogSettings(bootstrap=bootstrap, namespace=namespace)
    if what == "sample":
        from bench import generating  # with torch, which the others are measured without

        figure = generating.rollouts_per_s()
    elif what == "generate":
        from bench import looping

        figure = looping.rollouts_per_s(log, Path(home))
    else:
        figure = raw_s(log) if what == "raw" else pass_s(log, Path(home))
    print(json.dumps({"figure": figure, "mb": peak_mb()}))


def peak_mb() -> float:
    """Return the resident peak of this program; what `getrusage` has begins with that of who started it."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def measure(small: int = SMALL, large: int = LARGE) -> list[dict[str, Any]]:
    """Return the figures, each with `name`, `value`, `unit`, `bar` and `holds`."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        home = Path(folder)
        logs = [LogSettings(bootstrap=broker.bootstrap, namespace=name) for name in ("small.", "large.")]
        num_records = [fill(log, num) for log, num in zip(logs, (small, large), strict=True)][1]
        raw = alone("raw", logs[1], home)
        peaks = [alone("pass", log, home) for log in logs]
        loop = LogSettings(bootstrap=broker.bootstrap, namespace="loop.")
        generated, sampled = alone("generate", loop, home), alone("sample", loop, home)
    passed = peaks[1]
    rate = large / passed["figure"]
    ratio, against = raw["figure"] / passed["figure"], rate / generated["figure"]
    memory = passed["mb"] / peaks[0]["mb"]
    growth = f"ratio of resident peaks, {small} to {large} rollouts"
    return [
        line("rescore_of_raw_client", ratio, "ratio", BAR, holds=ratio >= BAR),
        line("rescore_of_generating", against, "ratio", GENERATING_BAR, holds=against >= GENERATING_BAR),
        line("rescore_memory_growth", memory, growth, MEMORY_BAR, holds=memory <= MEMORY_BAR),
        line("rescore", rate, "rollouts/s"),
        line("rescore_records", num_records / passed["figure"], "records/s"),
        line("rescore_raw_client", large / raw["figure"], "rollouts/s"),
        line("rescore_of_sampler_alone", rate / sampled["figure"], "ratio"),
        line("rescore_generating", generated["figure"], "rollouts/s"),
        line("rescore_sampler_alone", sampled["figure"], "rollouts/s"),
        line("rescore_memory", passed["mb"], "MiB"),
    ]


def line(name: str, value: float, unit: str, bar: float | None = None, *, holds: bool = True) -> dict[str, Any]:
    """Return one figure."""
    return {"name": name, "value": round(value, 3 if value < 10 else 1), "unit": unit, "bar": bar, "holds": holds}


if __name__ == "__main__":
    be_alone(*sys.argv[1:])
