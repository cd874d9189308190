"""What the command's exit status means. Scripts may rely on these numbers."""

from enum import IntEnum

from schemas import errors


class ExitCode(IntEnum):
    """Every status that `rollog` ends with."""

    OK = 0
    FELL_SHORT = 1
    """It ran, and what it checks does not hold: drift, a goal not met, a step that differs."""
    USAGE = 2
    """The command line cannot be parsed."""
    CONFIG = 3
    """A setting or a combination of settings cannot work."""
    LOG = 4
    """The broker cannot be reached, or refused."""
    DECODE = 5
    """A record is not what its topic promises."""
    SANDBOX = 6
    """Programs cannot be isolated on this host, or not as asked."""
    CHECKPOINT = 7
    """A checkpoint's or policy's files are missing or torn."""
    STUCK = 8
    """Something did not happen before its deadline."""
    OTHER = 9
    """Any other error of rollog's."""
    TAPE = 10
    """A tape is damaged, cut short or no tape, or cannot be written."""
    INTERRUPTED = 130
    """Ctrl-C, where there was nothing to finish in order."""


CODE_OF: tuple[tuple[type[errors.RollogError], ExitCode], ...] = (
    (errors.ConfigError, ExitCode.CONFIG),
    (errors.LogError, ExitCode.LOG),
    (errors.DecodeError, ExitCode.DECODE),
    (errors.SandboxError, ExitCode.SANDBOX),
    (errors.CheckpointError, ExitCode.CHECKPOINT),
    (errors.TapeError, ExitCode.TAPE),
    (errors.StuckError, ExitCode.STUCK),
)


def code_of(error: errors.RollogError) -> ExitCode:
    """Return the status that an error ends the command with."""
    return next((code for family, code in CODE_OF if isinstance(error, family)), ExitCode.OTHER)
