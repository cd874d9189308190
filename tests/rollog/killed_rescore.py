"""`rollog` that is killed, for good and at once, when it is about to write its Nth event: the first argument."""

import os
import signal
import sys
from typing import Any

from producers.publisher import Publisher
from rollog.cli import main

NUM = int(sys.argv.pop(1))


class Dying(Publisher):
    """Counts what is written."""

    num = 0

    def publish(self, *arguments: Any) -> None:
        Dying.num += 1
        if Dying.num == NUM:
            os.kill(os.getpid(), signal.SIGKILL)
        super().publish(*arguments)


if __name__ == "__main__":
    import streams.rescoring.passes

    streams.rescoring.passes.Publisher = Dying  # type: ignore[misc]
    main()
