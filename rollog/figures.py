"""What the services say of themselves, by their /metrics, and what memory they take, by the system."""

import urllib.error
import urllib.request
from collections.abc import Collection
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
    """Share of the time since its start with work in hand."""
    busy_s: float = 0.0
    """The same in seconds; two looks tell of the time between them."""
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


def parse(text: str) -> Figures:  # noqa: C901  one case a metric
    """Return what a page of Prometheus' text format says."""
    figures = Figures()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            match sample.name:
                case "rollog_busy_fraction":
                    figures.busy = sample.value
                case "rollog_busy_seconds":
                    figures.busy_s = sample.value
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
    """Resident, in MiB; of pages that processes share each has its part, where the system says so."""
    cpu_s: float = 0.0
    """Processor seconds since their start, descendants that ended and were waited for included."""


def usage_of(heads: Collection[int]) -> dict[int, Usage]:
    """Return what is taken now by this process, each of `heads` and each other child of ours, by process id.

    A head or child has all that stems from it, but for what another head has.
    """
    own = psutil.Process()
    found = {own.pid: measure(own, with_ended=False)}
    belongs_to: dict[int, int] = {}
    family = own.children(recursive=True)
    outside = set(heads) - {process.pid for process in family} - {own.pid}
    for process in family + [psutil.Process(pid) for pid in outside if psutil.pid_exists(pid)]:
        is_head = process.pid in heads
        try:
            # A child of ours that is no head, such as the template, may have waited for heads, which have theirs.
            parent, taken = process.ppid(), measure(process, with_ended=is_head or process.ppid() != own.pid)
        except psutil.Error:
            continue
        is_own = is_head or parent == own.pid
        head = belongs_to[process.pid] = process.pid if is_own else belongs_to.get(parent, process.pid)
        before = found.get(head, Usage())
        found[head] = Usage(rss_mb=before.rss_mb + taken.rss_mb, cpu_s=before.cpu_s + taken.cpu_s)
    return found


def measure(process: psutil.Process, *, with_ended: bool) -> Usage:
    """Return what one process takes, and took by those that it has waited for."""
    with process.oneshot():
        times = process.cpu_times()
        ended = ("children_user", "children_system") if with_ended else ()
        cpu_s = times.user + times.system + sum(getattr(times, name, 0.0) for name in ended)
        return Usage(rss_mb=resident_bytes(process) / MEBIBYTE, cpu_s=cpu_s)


def resident_bytes(process: psutil.Process) -> int:
    """Return what a process has resident: forks of one template share most of what each of them maps."""
    try:
        return int(process.memory_full_info().pss)
    except (AttributeError, psutil.AccessDenied):
        return int(process.memory_info().rss)
