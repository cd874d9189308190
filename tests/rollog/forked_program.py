"""What the tests of the template fork: says what it is, and may then wait for a signal."""

import json
import os
import signal
import sys
import threading


def main() -> None:
    facts = {
        "arguments": sys.argv[1:],
        "environ": dict(os.environ),
        "session": os.getsid(0),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "num_threads": threading.active_count(),
        "num_tasks": len(os.listdir("/proc/self/task")) if sys.platform.startswith("linux") else 1,
        "modules": [name for name in ("torch", "faust", "transformers") if name in sys.modules],
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
    if "wait" in sys.argv:
        signal.sigwait([signal.SIGUSR1])
    sys.exit(5)
