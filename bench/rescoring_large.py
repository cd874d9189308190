"""The figures of rescoring over 500,000 rollouts, a log of a million and a half events: some minutes."""

from typing import Any

from bench import rescoring

LARGE = 500_000


def measure() -> list[dict[str, Any]]:
    """Return the figures, each with `name`, `value`, `unit`, `bar` and `holds`."""
    return rescoring.measure(large=LARGE)
