"""The one family of errors that rollog raises on purpose. Each says who caused it."""


class RollogError(Exception):
    """Base of all: something that a person can act on."""


class ConfigError(RollogError):
    """The user's: a setting, flag or combination of them cannot work. Names field, value and remedy."""


class DecodeError(RollogError):
    """The writer's: a record on the log is not what its topic promises. It goes to `deadletters`."""


class LogError(RollogError):
    """The cluster's: the broker refused, lost or no longer has what was asked for."""


class BrokerError(LogError):
    """The host's: the embedded broker cannot be had, started or stopped here."""


class SandboxError(RollogError):
    """The host's: programs cannot be isolated here, or not as asked."""


class CheckpointError(RollogError):
    """The disk's: a checkpoint or a policy's files are missing, torn or not what their digest says."""


class TapeError(RollogError):
    """The disk's: a tape is damaged, cut short or no tape, or cannot be written."""

    def __init__(self, message: str, *, at: int = 0) -> None:
        """`at` is the byte of the file where it was found."""
        super().__init__(message)
        self.at = at


class StuckError(RollogError):
    """Ours or the machine's: something that must happen did not before its deadline."""


class DivergenceError(RollogError):
    """The run's: a loss or gradient is no number any more, so there is no next step."""
