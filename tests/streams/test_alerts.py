"""The alerts service on a real broker: raised once, whatever is restarted; a rule gives the command once."""

import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.commands import read_recalls
from consumers.reader import Reader
from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from producers.publisher import Publisher
from schemas.alerts import AlertRaised
from schemas.codec import new_event
from schemas.config import AlertSettings, LogSettings, Settings
from schemas.events import Event
from schemas.ids import derive_id
from schemas.recalls import Quarantine, lift_command
from schemas.selections import Selection, parse_conditions, parse_selection
from streams.alerts import SLACK_S, alert_id, covers, run_alerts, where_to_start
from tests.logs import new_log, read_all, wait_for
from tests.streams.test_signals import facts

ALERTS = AlertSettings(window=8, min_measured=8, min_questions=4)


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return new_log(broker, namespace)


def write(log: LogSettings, home: Path, number: int, **options: Any) -> None:
    publisher = Publisher(log, source="test", blob_dir=home / "blobs")
    now_s = time.time()
    publisher.send_all(
        new_event(record, id=derive_id(repr(record), "test", 0), key=key, source="test", time_s=now_s)
        for record, key, _ in facts(number, **options)
    )
    publisher.close()


def same(index: int, sample: int) -> str:
    return "same"


def serve(log: LogSettings, home: Path, until: Any, **alerts: Any) -> Telemetry:
    """Run the service until something holds, and stop it."""
    settings = msgspec.structs.replace(ALERTS, **alerts)
    runtime = Runtime(
        settings=Settings(run="golden", log=log, alerts=settings), home=home, instance="alerts-0",
        telemetry=Telemetry("alerts"), stop=threading.Event(),
    )  # fmt: skip
    failures: list[BaseException] = []

    def run() -> None:
        try:
            run_alerts(runtime)
        except BaseException as error:  # noqa: BLE001 told below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_for(lambda: bool(failures) or until(runtime), "the service")
    finally:
        runtime.stop.set()
        thread.join(30)
    assert failures == []
    assert not thread.is_alive()
    return runtime.telemetry


def raised(log: LogSettings, home: Path) -> list[Event[AlertRaised]]:
    return read_all(log, "alerts", home / "blobs", dedupe=0)


def has_read(topic: str, number: int) -> Any:
    """Hold once so many records of a topic were taken."""

    def holds(runtime: Runtime) -> bool:
        threading.Event().wait(0.05)
        value: float = runtime.telemetry.events.labels(topic, "in")._value.get()
        return value >= number

    return holds


def test_an_alert_is_raised_once_with_what_to_do_and_a_restart_raises_nothing_twice(
    log: LogSettings, tmp_path: Path
) -> None:
    write(log, tmp_path, 0, text=same)
    telemetry = serve(log, tmp_path, lambda runtime: bool(raised(log, tmp_path)))
    (event,) = raised(log, tmp_path)
    alert = event.record
    assert (alert.signal, alert.domain, alert.unit, alert.first, alert.last) == ("repeated", "repair", "task", 0, 7)
    assert event.id == alert_id(alert)
    assert alert.command == "rollog quarantine --run golden --domain repair --where 'answer.text=\"same\"'"
    assert parse_selection(alert.selection).domain == "repair"
    assert b'rollog_alerts_total{domain="repair",signal="repeated"} 1.0' in telemetry.metrics()
    assert read_recalls(partial(Reader, log, blob_dir=tmp_path / "blobs")).quarantines == {}
    (tmp_path / "runs/golden/alerts.json").unlink(missing_ok=True)
    write(log, tmp_path, 1, text=same)
    serve(log, tmp_path, lambda runtime: len(raised(log, tmp_path)) > 1)
    assert [event.record.first for event in raised(log, tmp_path)] == [0, 8]


def test_a_healthy_window_is_silent(log: LogSettings, tmp_path: Path) -> None:
    write(log, tmp_path, 0)
    serve(log, tmp_path, has_read("rewards", 64))
    assert raised(log, tmp_path) == []


def test_a_rule_gives_the_command_once_and_not_again_after_a_lift(log: LogSettings, tmp_path: Path) -> None:
    open_reader = partial(Reader, log, blob_dir=tmp_path / "blobs")
    write(log, tmp_path, 0, text=same)
    serve(log, tmp_path, lambda runtime: bool(raised(log, tmp_path)))
    assert read_recalls(open_reader).quarantines == {}
    rule: dict[str, Any] = {"quarantine": ("repeated",)}
    serve(log, tmp_path, lambda runtime: bool(read_recalls(open_reader).quarantines), **rule)
    (given,) = read_recalls(open_reader).in_force("golden")
    assert (given.selection.text, given.batches) == (raised(log, tmp_path)[0].record.selection, frozenset())
    assert given.given_by == "rule alerts.quarantine: repeated"
    assert raised(log, tmp_path)[0].id in given.reason
    publisher = Publisher(log, source="test", blob_dir=tmp_path / "blobs")
    publisher.send_all([publisher.event(lift_command(given, given_by="me"), id="lift", key="golden")])
    publisher.close()
    write(log, tmp_path, 1, text=same)
    serve(log, tmp_path, lambda runtime: len(raised(log, tmp_path)) > 1, **rule)
    assert len(read_recalls(open_reader).quarantines) == 1


def test_it_can_be_turned_off(log: LogSettings, tmp_path: Path) -> None:
    write(log, tmp_path, 0, text=same)
    serve(log, tmp_path, lambda runtime: True, enabled=False)
    assert raised(log, tmp_path) == []


def test_it_starts_where_it_noted_or_the_longest_time_of_a_task_ago(tmp_path: Path) -> None:
    settings, path = Settings(), tmp_path / "alerts.json"
    longest_s = settings.tasks.deadline_s + settings.assembler.grace_s
    assert where_to_start(path, settings, now_s=10_000.0) == 10_000.0 - longest_s - SLACK_S
    path.write_text('{"since_s": 5000.0}')
    assert where_to_start(path, settings, now_s=10_000.0) == 5_000.0 - SLACK_S
    for broken in ("", "[]", '{"since_s": null}', '{"other": 1}'):
        path.write_text(broken)
        assert where_to_start(path, settings, now_s=10_000.0) == 10_000.0 - longest_s - SLACK_S


@pytest.mark.parametrize(
    ("given", "is_covered"),
    [
        (Selection(domain="repair"), True),
        (Selection(conditions=parse_conditions(["answer.text~x"])), True),
        (Selection(domain="verbs"), False),
        (Selection(domain="repair", until_s=9.0), False),
        (Selection(domain="repair", since_s=6.0), False),
        (Selection(domain="repair", since_s=5.0), True),
        (Selection(domain="repair", rollouts=("a/1",)), False),
        (Selection(conditions=parse_conditions(["answer.text~y"])), False),
    ],
)
def test_a_quarantine_covers_what_it_means_all_of(given: Selection, *, is_covered: bool) -> None:
    wanted = Selection(domain="repair", since_s=5.0, conditions=parse_conditions(["answer.text~x"]))
    assert covers(Quarantine(quarantine_id="q", run_id="r", selection=given, offset=0), wanted) is is_covered
