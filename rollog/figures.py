"""What the services say of themselves, by their /metrics, and what memory they take, by the system."""

import urllib.error
import urllib.request
from pathlib import Path

import msgspec
import psutil
from prometheus_client.parser import text_string_to_metric_families

from rollog.services import read_services

TIMEOUT_S = 5.0
MEBIBYTE = 1 << 20


class Figures(msgspec.Struct, kw_only=True):
    """One service instance at one moment."""

    busy: float = 0.0
    in_flight: int = 0
    lag: int = 0
    """Over all its topics."""
    num_in: int = 0
    """Events taken since its start."""
    num_out: int = 0
    staleness_sum: float = 0.0
    staleness_count: float = 0.0


def scrape(run_dir: Path) -> dict[str, Figures]:
    """Return the figures of every instance that answers, by instance."""
    found = {}
    for instance, noted in read_services(run_dir).items():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{noted['port']}/metrics", timeout=TIMEOUT_S) as answer:
                found[instance] = parse(answer.read().decode())
        except (urllib.error.URLError, OSError):
            continue
    return found


def parse(text: str) -> Figures:
    """Return what a page of Prometheus' text format says."""
    figures = Figures()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            match sample.name:
                case "rollog_busy_fraction":
                    figures.busy = sample.value
                case "rollog_in_flight":
                    figures.in_flight = int(sample.value)
                case "rollog_lag":
                    figures.lag += int(sample.value)
                case "rollog_events_total" if sample.labels["direction"] == "in":
                    figures.num_in += int(sample.value)
                case "rollog_events_total":
                    figures.num_out += int(sample.value)
                case "rollog_staleness_sum":
                    figures.staleness_sum += sample.value
                case "rollog_staleness_count":
                    figures.staleness_count += sample.value
    return figures


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What one process and all its living descendants take."""

    rss_mb: float = 0.0
    """Resident, in MiB; pages that they share count for each."""
    cpu_s: float = 0.0
    """Processor seconds since their start, descendants that ended and were waited for included."""


def usage(pid: int) -> Usage:
    """Return what a process takes now; nothing where it is gone."""
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return Usage()
    rss_bytes, cpu_s = 0, 0.0
    for process in family:
        try:
            times = process.cpu_times()
            rss_bytes += process.memory_info().rss
        except psutil.Error:
            continue
        cpu_s += (
            times.user + times.system + getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
        )
    return Usage(rss_mb=rss_bytes / MEBIBYTE, cpu_s=cpu_s)
