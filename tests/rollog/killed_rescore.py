"""`rollog` that is killed, for good and at once, when it is about to write its Nth event: the first argument."""

import os
import signal
import sys
from typing import Any

from producers.bulk import BulkPublisher
from rollog.cli import main

NUM = int(sys.argv.pop(1))


class Dying(BulkPublisher):
    """Counts what is written."""

    num = 0

    def write(self, *arguments: Any) -> None:
        Dying.num += 1
        if Dying.num == NUM:
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(*arguments)


if __name__ == "__main__":
    import streams.rescoring.passes

    streams.rescoring.passes.BulkPublisher = Dying  # type: ignore[misc]
    main()
