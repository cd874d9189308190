"""Whether new versions of the policy are for use, by the newest mix: they are not while held-out results are down.

Training goes on with what is held: only so can it mend what fell. A version says itself that it is held, and why, so
that whoever uses the policy for anything else takes the newest one that is not.
"""

from consumers.feed import OpenReader
from schemas.mixes import TOPIC, MixRevised


class Gate:
    """The newest mix of one run. Not thread-safe."""

    def __init__(self, open_reader: OpenReader, run_id: str) -> None:
        """Read all mixes that are there. Raises LogError."""
        self._run_id = run_id
        self._mix: MixRevised | None = None
        first = open_reader([TOPIC], start="beginning", bounded=True, on_undecodable=lambda raw, error: None)
        try:
            for event in first:
                self._take(event.record)
            positions = dict(first.positions)
        finally:
            first.close()
        self._reader = open_reader([TOPIC], start=positions, on_undecodable=lambda raw, error: None)

    def poll(self) -> None:
        """Hear what is new, without waiting. Raises LogError."""
        for event in self._reader.poll(timeout_s=0.0):
            self._take(event.record)

    @property
    def why(self) -> str:
        """Return why a version is not for use; empty where it is."""
        if self._mix is None or not self._mix.held:
            return ""
        fallen = sorted(name for name, one in self._mix.domains.items() if one.status == "protected")
        return f"mix {self._mix.version}: held-out results fell in {', '.join(fallen)}"

    def close(self) -> None:
        """Let go."""
        self._reader.close()

    def _take(self, record: object) -> None:
        if not isinstance(record, MixRevised) or record.run_id != self._run_id:
            return
        if self._mix is None or record.version > self._mix.version:  # of two with one version the first counts
            self._mix = record
