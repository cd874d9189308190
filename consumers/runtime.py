"""What the conductor hands to every service: settings, places, its own name, and the word to stop."""

from pathlib import Path
from threading import Event as Flag

import msgspec

from consumers.telemetry import Telemetry
from schemas.config import LogSettings, Settings


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One service instance's surroundings."""

    settings: Settings
    home: Path
    """Shared by all runs of this user: broker, root file systems, blobs."""
    instance: str
    """Stable name, unique in its run: `verifier-0`; a static group member, so that a restart is no rebalance."""
    telemetry: Telemetry
    stop: Flag
    """Set when the service is to finish: it stops taking, loses nothing, and returns."""

    @property
    def log(self) -> LogSettings:
        """Return which log to use; its bootstrap address is set by now."""
        return self.settings.log

    @property
    def run_dir(self) -> Path:
        """Return the folder of this run: settings, checkpoints, report."""
        return self.home / "runs" / self.settings.run

    @property
    def blob_dir(self) -> Path:
        """Return where values live that are too large for the log."""
        return self.home / "blobs"
