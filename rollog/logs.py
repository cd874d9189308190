"""How a service's own log reads: one line a message with its time, and no flood of the same one.

A client whose broker is away says so many times a second, for as long as it is away.
"""

import logging
import sys

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
QUIET_S = 10.0
"""Time in which the same message, whatever its values, is written once."""
OURS = ("rollog", "producers", "streams", "consumers", "learner")


class Repeats(logging.Filter):
    """Passes one message of a kind in a while, and says with the next how many it held back."""

    def __init__(self, quiet_s: float = QUIET_S) -> None:
        super().__init__()
        self._quiet_s = quiet_s
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is to be written."""
        kind = (record.name, record.levelno, str(record.msg))
        since_s, num_held = self._seen.get(kind, (float("-inf"), 0))
        if record.created - since_s < self._quiet_s:
            self._seen[kind] = (since_s, num_held + 1)
            return False
        self._seen[kind] = (record.created, 0)
        if num_held:
            record.msg, record.args = f"{record.getMessage()} (and {num_held} more like it)", ()
        return True


def configure_logging() -> None:
    """Write to stderr: what is ours from INFO on, what libraries say from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    handler.addFilter(Repeats())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)
