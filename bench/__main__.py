"""`python -m bench`: every benchmark, one line of JSON per figure; exit status 1 where one falls short of its bar.

Each runs in a process of its own, one after the other, so that none is measured beside another's threads or memory;
`python -m bench NAME` is such a process.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("log_bytes", "event_path", "sandbox", "learner_step", "rescoring", "curriculum", "domains_run")
BY_NAME = ("rescoring_large",)
"""Those that take minutes, and run only when they are asked for."""


def run_here(name: str) -> bool:
    """Measure in this process, print the figures, and return whether all hold."""
    figures = list(importlib.import_module(f"bench.{name}").measure())
    for figure in figures:
        print(json.dumps(figure), flush=True)
    return all(figure["holds"] for figure in figures)


def run_all() -> bool:
    """Run one after the other and return whether all hold; one that fails to measure does not."""
    top = Path(__file__).parent.parent
    codes = [subprocess.run([sys.executable, "-m", "bench", name], check=False, cwd=top) for name in BENCHMARKS]
    return all(done.returncode == 0 for done in codes)


if __name__ == "__main__":
    holds = run_here(sys.argv[1]) if len(sys.argv) > 1 else run_all()
    sys.exit(0 if holds else 1)
