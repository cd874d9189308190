"""A verifier process whose verifier does what the answer tells it to: for tests of the pool."""

import os
import sys
import time
from types import MappingProxyType

from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams import verifiers
from streams.verifiers.interface import Score, Verifier
from streams.verifiers.worker import main


def score(spec: VerifierSpec, trajectory: Trajectory) -> Score:
    text = trajectory.turns[0].record.text
    match text.split(" "):
        case ["hang"]:
            while True:
                time.sleep(60)
        case ["die"]:
            os._exit(9)
        case ["die_once", path]:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return Score(value=1.0)
            os._exit(9)
        case ["raise"]:
            raise RuntimeError("no judge")
        case ["nan"]:
            return Score(value=float("nan"))
        case ["print"]:
            print("x" * 100_000)  # noqa: T201 that is what is tried
            sys.stdout.flush()
        case ["pid"]:
            return Score(value=1.0, detail=str(os.getpid()))
    return Score(value=1.0 if text == spec.expected else 0.0)


if __name__ == "__main__":
    verifiers.VERIFIERS = MappingProxyType({"told": Verifier(name="told", version=1, score=score)})
    main()
