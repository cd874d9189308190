"""A run over all downstream domains: what slow verifiers cost it, and what it gains over a loop that waits.

Real services on a real log, bubblewrap, a learner that steps; the scripted sampler at three competences; sampler and
learner at the pace of an accelerator (`bench.paced`). Twice: where of two tasks in a hundred the verifier takes 50
times the mean scoring of the others (`bench.judged_domains`), and where it takes no time. Then the same tasks, the slow
ones included, by a synchronous loop of the same parts (`bench.synchronous`).
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.domains_figures import LEVELS, Counts, Window, count, figure, slots_busy, trained_per_s
from bench.judged_domains import PREFIX
from bench.looping import running
from bench.slow_verifiers import MODEL, Judge, install_domains, serving_judge
from bench.synchronous import Synchronous, run_synchronously
from bench.tiny_policy import write_policy
from consumers.reader import Reader
from producers.domains.catalogue import all_domains
from rollog.broker import EmbeddedBroker
from rollog.figures import Figures, scrape
from rollog.topics import create_topics
from schemas.config import (
    AdmissionSettings,
    ExecutorSettings,
    GeneratorSettings,
    JudgeSettings,
    LearnerSettings,
    LogSettings,
    PolicySettings,
    Settings,
    TaskSettings,
    VerifierSettings,
)
from schemas.steps import StepTaken
from schemas.tasks import SamplingParams

SERVICES = ("issuer", "generator", "executor", "verifier", "assembler", "learner")
"""What a rollout and a step need; the others would only take the processor."""
CONTEXT_TOKENS = 1 << 15
NUM_SAMPLES, GROUPS_PER_STEP = 4, 8
NUM_SLOTS = 16
"""Half of what a step trains on: the synchronous loop has enough to fill them with, at least while a phase begins."""
FIRST_STEP, LAST_STEP = 2, 11
"""Between them is measured."""
NUM_BATCHES = 3
"""Of the synchronous loop, after one that is not timed."""
SEED = 4
"""With which some of the tasks that are measured have a slow verifier; with others it is none, of so few."""
TIMES_SLOWER = 50
BUSY_BAR, THROUGHPUT_BAR = 0.95, 2.0
START_S, DEADLINE_S = 240.0, 600.0
POLL_S = 0.25


def settings_for(log: LogSettings, judge: Judge, policy: Path) -> Settings:
    """Return the settings of a run over all downstream domains."""
    names = [name for name in all_domains() if name.startswith(PREFIX)]
    return Settings(
        run="domains",
        seed=SEED,
        log=log,
        policy=PolicySettings(base=str(policy)),
        tasks=TaskSettings(domains=dict.fromkeys(names, 1.0), num_samples=NUM_SAMPLES, deadline_s=DEADLINE_S),
        sampling=SamplingParams(max_tokens=2048),
        admission=AdmissionSettings(max_staleness=4),
        generator=GeneratorSettings(sampler="scripted", script="mixed", num_slots=NUM_SLOTS),
        executor=ExecutorSettings(num_slots=2),
        verifier=VerifierSettings(judge=JudgeSettings(url=judge.url, model=MODEL)),
        learner=LearnerSettings(groups_per_step=GROUPS_PER_STEP, pack_tokens=2048, rows_per_pass=4),
    )


def run_services(settings: Settings, home: Path, packages: Path) -> tuple[Window, Counts]:
    """Run the services until the last step, and return what was seen and what is on the log."""
    create_topics(settings.log)
    with running(settings, home, SERVICES, program="bench.paced", packages=packages) as processes:
        window = watch(settings, home, processes)
    return window, count(settings, home, window)


def watch(settings: Settings, home: Path, processes: Sequence[Any]) -> Window:
    """Look at the services at two of the learner's steps."""
    looks: dict[int, tuple[float, dict[str, Figures]]] = {}
    by_s = time.monotonic() + START_S
    reader = Reader(settings.log, ["steps"], blob_dir=home / "blobs", start="beginning")
    try:
        while LAST_STEP not in looks:
            for event in reader.poll(timeout_s=POLL_S):
                assert isinstance(event.record, StepTaken)
                by_s = time.monotonic() + START_S
                if event.record.step in (FIRST_STEP, LAST_STEP):
                    looks[event.record.step] = (event.time_s, scrape(home / "runs" / settings.run))
            assert time.monotonic() < by_s, f"no step for {START_S} s; see {home}/runs"
            assert all(process.poll() is None for process in processes), f"a service ended; see {home}/runs"
    finally:
        reader.close()
    (start_s, before), (end_s, after) = looks[FIRST_STEP], looks[LAST_STEP]
    return Window(
        start_time_s=start_s,
        end_time_s=end_s,
        first_step=FIRST_STEP,
        last_step=LAST_STEP,
        busy={name: busy_between(before[name], after[name]) for name in after},
    )


def busy_between(before: Figures, after: Figures) -> float:
    """Return the share of the time between two looks with work in hand, all by the service's own clock."""
    since_start_s = [look.busy_s / look.busy if look.busy else 0.0 for look in (before, after)]
    return (after.busy_s - before.busy_s) / max(since_start_s[1] - since_start_s[0], 1e-9)


def measure() -> list[dict[str, Any]]:
    """Return the figures, each with `name`, `value`, `unit`, `bar` and `holds`."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving_judge() as judge,
        EmbeddedBroker(Path(folder) / "broker") as broker,
    ):
        top = Path(folder)
        install_domains(top / "packages")
        write_policy(top / "policy", context_tokens=CONTEXT_TOKENS)

        def run(name: str) -> tuple[Settings, Window, Counts]:
            log = LogSettings(bootstrap=broker.bootstrap, namespace=f"{name}.", seal_every_s=0)
            settings = settings_for(log, judge, top / "policy")
            window, counts = run_services(settings, top / name, top / "packages")
            tell(name, window, counts)
            return settings, window, counts

        even = run("even")
        judge.latency_s = TIMES_SLOWER * even[2].mean_score_s
        mixed = run("mixed")
        broker.stop()
        loop = run_synchronously(mixed[0], home=top / "synchronous", num_batches=NUM_BATCHES)
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in loop.seconds.items())
    print(f"synchronous: {phases}; {loop.num_tasks} tasks, {loop.num_trained} trained", file=sys.stderr)
    return figures_of(even, mixed, judge, loop)


def figures_of(
    even: tuple[Settings, Window, Counts],
    mixed: tuple[Settings, Window, Counts],
    judge: Judge,
    loop: Synchronous,
) -> list[dict[str, Any]]:
    """Return the lines of the bench."""
    (settings, window, counts), (_, fast, _) = mixed, even
    per_s, slots = trained_per_s(settings, window), slots_busy(*mixed)
    tokens_per_s = counts.num_tokens / window.seconds
    loop_per_s, loop_tokens_per_s = loop.num_trained / loop.total_s, loop.memory.num_tokens / loop.total_s
    busy = {name: (window.busy[f"{name}-0"], fast.busy[f"{name}-0"]) for name in ("generator", "learner")}
    ratios = [
        figure("domains_generation_busy_of_even_cost", busy["generator"][0] / busy["generator"][1], "ratio", BUSY_BAR),
        figure("domains_slots_busy_of_even_cost", slots / slots_busy(*even), "ratio", BUSY_BAR),
        figure("domains_learner_busy_of_even_cost", busy["learner"][0] / busy["learner"][1], "ratio", BUSY_BAR),
        figure("domains_groups_of_synchronous", per_s / loop_per_s, "ratio", THROUGHPUT_BAR),
        figure("domains_tokens_of_synchronous", tokens_per_s / loop_tokens_per_s, "ratio", THROUGHPUT_BAR),
    ]
    valued = [
        ("domains_generation_busy", busy["generator"][0], "share"),
        ("domains_slots_busy", slots, "share"),
        ("domains_learner_busy", busy["learner"][0], "share"),
        ("domains_groups", per_s, "groups/s"),
        ("domains_groups_even_cost", trained_per_s(settings, fast), "groups/s"),
        ("domains_groups_synchronous", loop_per_s, "groups/s"),
        ("domains_effective_share", counts.num_trained_tokens / counts.num_tokens, "share"),
        ("domains_slow_tasks", counts.num_judged / len(counts.tasks), "share"),
        ("domains_mean_scoring", 1e3 * even[2].mean_score_s, "ms"),
        ("domains_slow_scoring", 1e3 * judge.latency_s, "ms"),
        ("domains_solved_by_expert", counts.solve_rate("expert"), "share"),
        ("domains_invalid", sum(counts.invalid.values()) / max(1, counts.num_rewards), "share"),
    ]
    return [*ratios, *(figure(*one) for one in valued)]


def tell(name: str, window: Window, counts: Counts) -> None:
    """Say on stderr what a run was like, and of each domain how many of whose rollouts were solved."""
    busy = ", ".join(f"{name} {share:.2f}" for name, share in sorted(window.busy.items()))
    ends = ", ".join(f"{count} {end}" for end, count in sorted(counts.ends.items()))
    lines = [f"{name}: {window.seconds:.1f} s, busy: {busy}"]
    lines += [f"  {len(counts.tasks)} tasks, {counts.num_judged} with a slow verifier; ends: {ends}"]
    for domain in sorted({domain for domain, _ in counts.scored} | set(counts.invalid)):
        at = ", ".join(f"{level} {counts.solved[domain, level]}/{counts.scored[domain, level]}" for level in LEVELS)
        lines += [f"  {domain}: {at}; right and not worth 1: {counts.unrewarded[domain]}"]
        if counts.invalid[domain]:
            lines[-1] += f"; invalid: {counts.invalid[domain]}, {counts.details[domain]}"
    lines += [f"  dead letter: {letter[:300]}" for letter in counts.dead_letters]
    print("\n".join(lines), file=sys.stderr, flush=True)


if __name__ == "__main__":
    for line in measure():
        print(json.dumps(line))
