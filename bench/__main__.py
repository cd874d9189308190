"""Every benchmark, one line of JSON per figure; exit status 1 where one falls short of its bar.

Each runs in a process of its own, one after the other, so that none is measured beside another's threads or memory.
"""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("log_bytes", "event_path", "sandbox", "learner_step")


def run(name: str) -> bool:
    """Run one, pass its lines on, and return whether all hold."""
    command = [sys.executable, "-m", f"bench.{name}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=Path(__file__).parent.parent)
    figures = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for figure in figures:
        print(json.dumps(figure), flush=True)
    if not figures:
        print(f"bench.{name} measured nothing; exit status {done.returncode}", file=sys.stderr)
    return bool(figures) and all(figure["holds"] for figure in figures)


if __name__ == "__main__":
    results = [run(name) for name in BENCHMARKS]
    sys.exit(0 if all(results) else 1)
