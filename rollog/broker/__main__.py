"""Makes ready what the broker needs, for hosts that will have no network: `python -m rollog.broker`."""

import sys

from rollog.broker.runtime import prepare
from schemas.errors import BrokerError

if __name__ == "__main__":
    try:
        prepare(say=lambda line: print(line, flush=True))  # noqa: T201 - a command's own output
    except BrokerError as problem:
        sys.exit(str(problem))
