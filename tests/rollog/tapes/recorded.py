"""A log with something of everything on it, and the command line to use it with."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from consumers.offsets import spans
from consumers.raw import RawRecord
from consumers.reader import records_between
from producers.publisher import Publisher
from rollog.cli import app, mount
from schemas.config import LogSettings
from schemas.events import Event
from schemas.limits import INLINE_BYTES
from schemas.topics import TOPICS
from tests import samples
from tests.logs import produce_raw, task_ids, turns

NUM_TURNS = 40
LARGE = "x" * INLINE_BYTES


def record_some(log: LogSettings, home: Path) -> list[Event[Any]]:
    """Write turns, one of them too large for the log, rewards, a step, and a record that is no event."""
    publisher = Publisher(log, source="test", blob_dir=home / "blobs")
    events: list[Event[Any]] = turns(publisher, task_ids(NUM_TURNS))
    events.append(publisher.event(samples.turn(text=LARGE), id="large", key=samples.TASK_ID))
    events.append(publisher.event(samples.reward(), id="reward", key=samples.TASK_ID))
    events.append(publisher.event(samples.step(), id="step", key="golden"))
    written = publisher.send_all(events)
    publisher.close()
    produce_raw(log, "rewards", b"junk", key=b"junk", headers={"ce_id": b"\xff"})
    return written


def all_records(log: LogSettings, home: Path) -> dict[tuple[str, int], list[RawRecord]]:
    """Return everything that is on a log, as it stands there."""
    pieces = spans(log, list(TOPICS))
    return {at: list(records_between(log, at, span, blob_dir=home / "blobs")) for at, span in pieces.items()}


def rollog(*arguments: str, log: LogSettings, home: Path) -> Any:
    """Run a verb in this process."""
    if not any(group.name == "tape" for group in app.registered_groups):
        mount()
    flags = ["--set", f"log.bootstrap={log.bootstrap!r}", "--set", f"log.namespace={log.namespace!r}"]
    flags += ["--set", f"log.partitions={log.partitions}", "--home", str(home)]
    takes_log = arguments[:2] not in (("tape", "cat"), ("tape", "verify"))
    return CliRunner().invoke(app, [*arguments, *(flags if takes_log else [])])


def tree(result: Any) -> Any:
    """Return the JSON that a verb printed."""
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return json.loads(result.stdout)
