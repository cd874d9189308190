"""The sandbox pool against plain child processes: the same one-line program, in turns, at 1 and 8 at once."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from schemas.executions import Action
from streams.sandbox import Sandbox, open_sandbox

PROGRAM = 'print("hello")'
NUM_ROUNDS = 5
RUNS_PER_ROUND = 32
MIN_ROUNDS = 2
MAX_S = 20.0
"""For each number of parallel jobs: a busy machine gets fewer rounds, not a longer wait."""
MIN_RATE_RATIO = 0.8
MAX_CPU_RATIO = 1.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def measure() -> list[dict[str, object]]:
    """Rates and processor time per execution, as ratios to `subprocess.run` of the same interpreter; under a minute."""
    figures: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as home:
        for num_parallel in (1, 8):
            with open_sandbox("bubblewrap", num_slots=num_parallel, home=Path(home)) as sandbox:
                figures += _compare(sandbox, num_parallel)
    return figures


def _compare(sandbox: Sandbox, num_parallel: int) -> list[dict[str, object]]:
    def run_in_sandbox() -> None:
        outcome = sandbox.run(Action(code=PROGRAM))
        assert outcome.stdout == b"hello\n", outcome

    rate_ratios, cpu_ratios, cpu_ms, rates = [], [], [], []
    with ThreadPoolExecutor(num_parallel) as threads:
        for run in (run_plain, run_in_sandbox):
            _round(threads, run)
        started_s = time.perf_counter()
        while len(rates) < NUM_ROUNDS and (len(rates) < MIN_ROUNDS or time.perf_counter() - started_s < MAX_S):
            before, ours, after = (_round(threads, run) for run in (run_plain, run_in_sandbox, run_plain))
            rate_ratios.append((before[0] + after[0]) / 2 / ours[0])
            cpu_ratios.append(ours[1] / ((before[1] + after[1]) / 2))
            cpu_ms.append(1e3 * ours[1] / RUNS_PER_ROUND)
            rates.append(RUNS_PER_ROUND / ours[0])
    rate, cpu = statistics.median(rate_ratios), statistics.median(cpu_ratios)
    name = f"sandbox_{{}}_at_{num_parallel}".format
    return [
        _figure(name("rate_vs_plain"), rate, "x", MIN_RATE_RATIO, rate >= MIN_RATE_RATIO),
        _figure(name("cpu_vs_plain"), cpu, "x", MAX_CPU_RATIO, cpu <= MAX_CPU_RATIO),
        _figure(name("cpu_per_execution"), statistics.median(cpu_ms), "ms", None, True),
        _figure(name("rate"), statistics.median(rates), "executions/s", None, True),
    ]


def _figure(name: str, value: float, unit: str, bar: float | None, holds: bool) -> dict[str, object]:
    return {"name": name, "value": round(value, 3), "unit": unit, "bar": bar, "holds": holds}


def run_plain() -> None:
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert finished.stdout == b"hello\n"


def _round(threads: ThreadPoolExecutor, run: Callable[[], None]) -> tuple[float, float]:
    """Return wall and processor seconds of one round."""
    cpu_s, wall_s = cpu_of_tree(), time.perf_counter()
    for future in [threads.submit(run) for _ in range(RUNS_PER_ROUND)]:
        future.result()
    return time.perf_counter() - wall_s, cpu_of_tree() - cpu_s


def cpu_of_tree() -> float:
    """Return processor seconds of this process and its living descendants, and of all that any of them waited for."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(fields[1]), []).append(int(name))
        ticks[int(name)] = sum(map(int, fields[11:15]))
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total_s = sum(usage.ru_utime + usage.ru_stime for usage in own)
    open_pids = list(children.get(os.getpid(), []))
    while open_pids:
        pid = open_pids.pop()
        total_s += ticks[pid] / _TICKS_PER_S
        open_pids += children.get(pid, [])
    return total_s


if __name__ == "__main__":
    for figure in measure():
        print(figure)
