"""Where tables are printed: as wide as the terminal, and wide enough for every column where there is none."""

from typing import IO

from rich.console import Console

WIDTH = 160


def wide_console(file: IO[str] | None = None) -> Console:
    """Return a console on `file`, else on stdout."""
    found = Console(file=file)
    return found if found.is_terminal else Console(file=file, width=WIDTH)
