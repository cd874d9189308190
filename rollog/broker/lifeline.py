"""Becomes another program which ends when the process that started it does: `lifeline.py PARENT_PID PROGRAM ARG...`.

Linux only; elsewhere it just becomes the program. The kernel watches the thread that started it, so that thread has to
live as long as the process.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Ask for SIGTERM on the parent's death, then become `command`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit("the process that started the broker is gone already")
    os.execv(command[0], command)  # noqa: S606 - becoming the program is the point


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
