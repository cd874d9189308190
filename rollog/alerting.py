"""The verb `alerts`: what was raised, past or as the log has it now."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from rollog.quarantining import records
from schemas.alerts import AlertRaised
from schemas.config import LogSettings


def alerts_of(log: LogSettings, run_id: str, *, blob_dir: Path) -> list[dict[str, Any]]:
    """Return a run's alerts in the order of the log, each once. Raises LogError."""
    found: dict[str, dict[str, Any]] = {}
    for event in records(log, "alerts", "beginning", blob_dir=blob_dir):
        if isinstance(event.record, AlertRaised) and event.record.run_id == run_id:
            envelope = {"alert_id": event.id, "time_s": event.time_s, "position": str(event.position)}
            found.setdefault(event.id, {**envelope, **msgspec.to_builtins(event.record)})
    return list(found.values())


def line_of(alert: AlertRaised) -> str:
    """Return an alert in one line."""
    where = f"{alert.unit}s {alert.first} to {alert.last}"
    return f"{alert.signal} in {alert.domain}, {where}: {alert.measured:.0%} ({alert.detail})"


def lines_of(alerts: list[dict[str, Any]]) -> list[str]:
    """Return alerts for people."""
    lines = []
    for alert in alerts:
        moment = datetime.fromtimestamp(alert["time_s"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        record = msgspec.convert({name: alert[name] for name in AlertRaised.__struct_fields__}, AlertRaised)
        lines += [f"{moment} {line_of(record)}", f"    e.g. {', '.join(record.examples[:3])}", f"    {record.command}"]
    return [*lines, f"{len(alerts)} alerts"]
