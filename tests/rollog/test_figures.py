import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from consumers.telemetry import Telemetry, serve_telemetry
from rollog.disk import segment_bytes
from rollog.figures import parse, scrape, usage_of
from rollog.services import note_service

HOLD = "import sys, signal; held = bytearray(64 << 20); print('ready', flush=True); signal.pause()"


def telemetry() -> Telemetry:
    made = Telemetry("verifier")
    made.events.labels(topic="rollouts", direction="in").inc(5)
    made.events.labels(topic="executions", direction="in").inc(2)
    made.events.labels(topic="rewards", direction="out").inc(3)
    made.lag.labels(topic="rollouts").set(7)
    made.lag.labels(topic="executions").set(1)
    made.staleness.labels(domain="verbs").observe(2)
    made.pending(4)
    return made


def test_what_a_service_says_of_itself_is_what_is_shown() -> None:
    figures = parse(telemetry().metrics().decode())

    assert (figures.num_in, figures.num_out, figures.lag, figures.in_flight) == (7, 3, 8, 4)
    assert (figures.staleness_sum, figures.staleness_count) == (2.0, 1.0)


def test_instances_that_answer_are_scraped_and_others_are_passed_over(tmp_path: Path) -> None:
    server = serve_telemetry(telemetry())
    note_service(tmp_path, "verifier-0", port=server.server_address[1])
    note_service(tmp_path, "gone-0", port=1)

    found = scrape(tmp_path)
    server.shutdown()
    server.server_close()

    assert set(found) == {"verifier-0"}
    assert found["verifier-0"].num_in == 7


def test_a_childs_memory_counts_with_all_that_stems_from_it() -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}])"
    child = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    try:
        child.stdout.readline()
        used = usage_of([])
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()

    assert used[child.pid].rss_mb > 64
    assert used[os.getpid()].cpu_s > 0


def test_a_head_below_another_child_has_its_own() -> None:
    start = f"p = subprocess.Popen([sys.executable, '-c', {HOLD!r}])"
    middle = f"import subprocess, sys; {start}; print(p.pid, flush=True); p.wait()"
    child = subprocess.Popen([sys.executable, "-c", middle], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    try:
        said = [child.stdout.readline(), child.stdout.readline()]
        head = next(int(line) for line in said if line.strip().isdigit())
        used = usage_of([head])
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()

    assert used[head].rss_mb > 64 > used[child.pid].rss_mb


def test_others_may_be_asked_about_too_and_may_be_gone() -> None:
    assert usage_of([os.getppid()])[os.getppid()].rss_mb > 0
    assert 1 << 22 not in usage_of([1 << 22])


@pytest.mark.parametrize(("namespace", "expected"), [("a.", 30), ("", 5)])
def test_segments_of_one_namespace_count_and_indexes_do_not(tmp_path: Path, namespace: str, expected: int) -> None:
    for folder, name, size in (
        ("a.tasks-0", "0.log", 10),
        ("a.tasks-1", "0.log", 20),
        ("a.tasks-1", "0.index", 1000),
        ("tasks-0", "0.log", 5),
        ("b.tasks-0", "0.log", 500),
        ("a.other-0", "0.log", 500),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(bytes(size))

    assert segment_bytes(tmp_path, namespace)["tasks"] == expected
    assert sum(segment_bytes(tmp_path, namespace).values()) == expected
