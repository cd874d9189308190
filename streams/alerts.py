"""The alerts service: follows the log, measures windows of it, and raises what is over a threshold.

    tasks, rollouts, rewards --windows--+
    steps, evals --trends---------------+--over a threshold--> AlertRaised --rule--> CommandGiven(quarantine)

It keeps nothing that must not be lost. Ids are derived from run, signal, domain and window, and what was raised is
read back on start, so that nothing is raised twice. Where it starts: at the issue of the oldest task of a window that
was not over when it was last up, which it notes in a file of the run; without that file, at the longest that a task may
take before now, since what is older was over before anybody watched. A window that is read in part is never measured.
"""

import json
import logging
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from consumers.commands import CommandFeed
from consumers.history.lean import LeanDecoder
from consumers.raw import RawRecord
from consumers.reader import EventReader, Reader
from consumers.runtime import Runtime
from producers.blobs import BlobStore
from producers.publisher import Publisher
from schemas.alerts import AlertRaised
from schemas.config import Settings
from schemas.errors import DecodeError
from schemas.evals import EvalScored
from schemas.events import Event
from schemas.ids import derive_id
from schemas.recalls import QUARANTINE, Quarantine, quarantine_command
from schemas.selections import Selection
from streams.shadows import Shadows
from streams.signals import Found, Windows
from streams.trends import NUM_KEPT, Trends

LOGGER = logging.getLogger("rollog.alerts")
FOLLOWED = ("tasks", "rollouts", "rewards")
POLL_S = 0.5
SLACK_S = 60.0
"""How far clocks of writers may differ, with room."""
NOTE_EVERY_S = 5.0


def alert_id(alert: AlertRaised) -> str:
    """Return the event id of an alert: of one signal, domain and window there is one."""
    return derive_id(f"{alert.run_id}/{alert.signal}/{alert.domain}", "alert_raised", alert.first, alert.about)


def alert_of(found: Found, run_id: str) -> AlertRaised:
    """Return the alert that a finding is."""
    text = found.selection.text
    return AlertRaised(
        run_id=run_id,
        domain=found.domain,
        signal=found.signal,
        about=found.about,
        unit="version" if found.signal == "divergence" else "task",
        first=found.first,
        last=found.last,
        measured=found.measured,
        threshold=found.threshold,
        num_measured=found.num_measured,
        detail=found.detail,
        examples=found.examples,
        selection=text,
        command=f"rollog quarantine --run {run_id} {text}",
    )


def run_alerts(runtime: Runtime) -> None:
    """Run the service until it is told to stop."""
    if not runtime.settings.alerts.enabled:
        runtime.stop.wait()
        return
    publisher = Publisher(runtime.log, source=f"rollog/{runtime.instance}", blob_dir=runtime.blob_dir)
    try:
        watch(runtime, publisher, partial(Reader, runtime.log, blob_dir=runtime.blob_dir, on_undecodable=pass_over))
    finally:
        publisher.close()


def pass_over(raw: Any, error: Exception) -> None:
    """Leave what is no event to the services that work on it: they put it aside."""


class Watch:
    """What the service knows, and what it does with what it finds."""

    def __init__(self, runtime: Runtime, publisher: Any, raised: set[str], commands: CommandFeed) -> None:
        settings = runtime.settings
        shadows = Shadows.of(settings.verifier)
        self.windows = Windows(
            settings.run, settings.alerts, lambda task: [one.scoring_id for one in shadows.wanted(task)]
        )
        self.trends = Trends(settings.run, settings.policy.name, settings.alerts)
        self._runtime, self._publisher, self._raised, self._commands = runtime, publisher, raised, commands
        blobs = BlobStore(runtime.blob_dir)
        self._decoders = {topic: LeanDecoder(topic, blobs) for topic in FOLLOWED}

    def take(self, raw: RawRecord) -> None:
        """Take a record of tasks, rollouts or rewards; raise what it shows. Raises LogError."""
        topic = raw.position.topic
        self._runtime.telemetry.events.labels(topic, "in").inc()
        decoder = self._decoders[topic]
        try:
            record = decoder.record(raw.key, raw.value, lambda: list(raw.headers)) or decoder.whole(raw)
        except DecodeError:
            return  # those who work on it put it aside
        for one in self.windows.take(record, (raw.key or b"").decode(), raw.timestamp_ms / 1000):
            self._raise(one)

    def take_trend(self, event: Event[Any]) -> None:
        """Take a step or a held-out result; raise what it shows. Raises LogError."""
        for one in self.trends.take(event.record):
            self._raise(one)

    def _raise(self, found: Found) -> None:
        settings, telemetry = self._runtime.settings, self._runtime.telemetry
        alert = alert_of(found, settings.run)
        name = alert_id(alert)
        events = []
        if name not in self._raised:
            LOGGER.warning("%s in %s, %s %d to %d: %s", *_told(alert))
            events.append(self._publisher.event(alert, id=name, key=alert.run_id, subject=alert.domain))
            telemetry.alerts.labels(alert.signal, alert.domain).inc()
        if alert.signal in settings.alerts.quarantine:
            # After the alert, which is its cause; and again where a kill came between the two.
            events += self._rule(name, alert, found.selection)
        self._publisher.send_all(events)
        self._raised.add(name)
        for event in events:
            topic = "alerts" if isinstance(event.record, AlertRaised) else "commands"
            telemetry.events.labels(topic, "out").inc()

    def _rule(self, name: str, alert: AlertRaised, selection: Selection) -> list[Event[Any]]:
        """Return the command that the rule gives; none where one that covers it was given, be it lifted since."""
        self._commands.poll()
        recalls = self._commands.recalls
        command_id = derive_id(name, QUARANTINE, 0, "rule")
        ours = [q for q in recalls.quarantines.values() if q.run_id == alert.run_id]
        if command_id in recalls.quarantines or any(covers(given, selection) for given in ours):
            return []
        command = quarantine_command(
            alert.run_id, selection, batches=frozenset(), batch_ends={},
            given_by=f"rule alerts.quarantine: {alert.signal}", reason=f"alert {name}: {alert.detail}"[:500],
        )  # fmt: skip
        event = self._publisher.event(command, id=command_id, key=alert.run_id, subject=alert.run_id)
        return [event]


def _told(alert: AlertRaised) -> tuple[object, ...]:
    return alert.signal, alert.domain, alert.unit, alert.first, alert.last, alert.detail


def covers(given: Quarantine, selection: Selection) -> bool:
    """Return whether a quarantine holds for all that a selection means, but for what it ends before."""
    one = given.selection
    return (
        one.until_s is None
        and one.domain in ("", selection.domain)
        and set(one.conditions) <= set(selection.conditions)
        and (one.policy is None or one.policy == selection.policy)
        and (not one.rollouts or (selection.rollouts != () and set(selection.rollouts) <= set(one.rollouts)))
        and (one.since_s is None or (selection.since_s is not None and one.since_s <= selection.since_s))
    )


def watch(runtime: Runtime, publisher: Any, open_reader: Any) -> None:
    """Follow the log until told to stop. Raises LogError."""
    settings, telemetry, note_path = runtime.settings, runtime.telemetry, runtime.run_dir / "alerts.json"
    commands = CommandFeed(open_reader)
    raised = {event.id for event in read_all(open_reader(["alerts"], start="beginning", bounded=True))}
    state = Watch(runtime, publisher, raised, commands)
    since_s = where_to_start(note_path, settings)
    rollouts = open_reader(FOLLOWED, start=since_s)
    trends = (
        open_reader(["evals"], start="beginning"),
        open_reader(["steps"], start=steps_since(open_reader, settings)),
    )
    noted_s = 0.0
    try:
        while not runtime.stop.is_set():
            raws = rollouts.poll_records(timeout_s=POLL_S)
            with telemetry.busy():
                for raw in raws:
                    state.take(raw)
                for event in (event for reader in trends for event in reader.poll(timeout_s=0.0)):
                    state.take_trend(event)
            telemetry.progress(0)
            if time.monotonic() - noted_s > NOTE_EVERY_S:
                noted_s = time.monotonic()
                note_start(note_path, state.windows.since_s or since_s)
    finally:
        for reader in (rollouts, *trends, commands):
            reader.close()


def where_to_start(path: Path, settings: Settings, *, now_s: float | None = None) -> float:
    """Return the time of the first record to read."""
    try:
        noted_s = float(json.loads(path.read_text())["since_s"])
    except (OSError, ValueError, KeyError, TypeError):
        longest_s = settings.tasks.deadline_s + max(settings.verifier.grace_s, settings.assembler.grace_s)
        noted_s = (time.time() if now_s is None else now_s) - longest_s
    return max(0.0, noted_s - SLACK_S)


def note_start(path: Path, since_s: float) -> None:
    """Write down where to go on: a note that is lost or old costs reading, not alerts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial_path = path.with_suffix(".json.partial")
    partial_path.write_text(json.dumps({"since_s": since_s}))
    os.replace(partial_path, path)


def steps_since(open_reader: Any, settings: Settings) -> float:
    """Return from when on steps are read: those after the last few evaluated versions are all that is compared.

    A result is written after the step that made its version.
    """
    times: dict[str, dict[int, float]] = {}
    for event in read_all(open_reader(["evals"], start="beginning", bounded=True)):
        record = event.record
        if isinstance(record, EvalScored) and (record.run_id, record.policy) == (settings.run, settings.policy.name):
            times.setdefault(record.domain, {}).setdefault(record.version, event.time_s)
    firsts = [
        by_version[sorted(by_version)[-NUM_KEPT - 2]] for by_version in times.values() if len(by_version) > NUM_KEPT + 1
    ]
    return max(0.0, min(firsts) - SLACK_S) if firsts and len(firsts) == len(times) else 0.0


def read_all(reader: EventReader) -> list[Event[Any]]:
    """Return everything that a bounded reader has."""
    try:
        return list(reader)
    finally:
        reader.close()
