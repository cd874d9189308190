"""Records a small run for tests/golden: `python -m tests.golden.record v2`, once for each format that was released.

A recording stays as it is for ever: what reads it has to go on reading it.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from consumers.tapes.exporting import export
from rollog.demo import demo_settings, fresh_run, watch
from rollog.observer import Observer
from rollog.up import running
from schemas.topics import TOPICS

FLAGS = (
    "learner.steps=4",
    "learner.groups_per_step=3",
    "tasks.num_samples=6",
    "admission.max_staleness=2",
    "evaluation.every=4",
    "evaluation.num_tasks=3",
    "log.partitions=2",
    "log.seal_every_s=5",
    'verifier.shadows={"*" = ["exact_match"]}',
)


async def record(tape: Path, home: Path) -> None:
    """Run it to its end and write all of its log to the tape."""
    settings = fresh_run(demo_settings(1, (), FLAGS), home, prefix="golden")
    async with running(settings, home=home, say=Console().print) as up:
        observer = await asyncio.to_thread(Observer, up)
        await watch(up, observer, Console())
        await up.supervisor.stop()
        done = await asyncio.to_thread(export, up.settings.log, tape, list(TOPICS), blob_dir=home / "blobs")
    sys.stdout.write(f"{done.num_records} records, {done.num_bytes} bytes, {done.digest}\n")


if __name__ == "__main__":
    folder = Path(__file__).parent / sys.argv[1]
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rollog-") as scratch:
        home = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(scratch)
        asyncio.run(record(folder / "run.tape", home))
