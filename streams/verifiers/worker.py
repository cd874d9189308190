"""A verifier process: reads jobs, answers each with a finding, and ends with its input.

Frames on both pipes are 4 bytes of length and MessagePack. It stops itself where a scoring takes much longer than its
deadline, so that it does not outlive a parent that was killed.
"""

import os
import signal
import struct
import sys
import time
from typing import BinaryIO

import msgspec

from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory
from streams.scoring import Finding, Job, trajectory_of
from streams.verifiers import get_verifier

READY = b"ready"
LENGTH = struct.Struct(">I")
SELF_DESTRUCTION = 3.0
"""Multiple of the deadline after which the process ends itself; its parent does so at 1."""


def read_frame(pipe: BinaryIO) -> bytes | None:
    """Return the next frame, None at the end."""
    header = pipe.read(LENGTH.size)
    if len(header) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(header)
    return pipe.read(length)


def answer(job: Job) -> Finding:
    """Return what the job's verifier finds, or `verifier_error`."""
    started_s = time.perf_counter()
    finding = find(job.spec, trajectory_of(job))
    if finding.score is None:
        return finding
    return msgspec.structs.replace(finding, score_s=time.perf_counter() - started_s)


def find(spec: VerifierSpec, trajectory: Trajectory) -> Finding:
    """Return what the spec's verifier finds in this process, or `verifier_error`."""
    try:
        score = get_verifier(spec.kind).score(spec, trajectory)
        for value in (score.value, *score.parts.values()):
            if not 0 <= value <= 1:  # True for NaN, too
                raise ValueError(f"verifier {spec.kind} said {score}; wanted value and parts in [0, 1]")
    except Exception as error:  # noqa: BLE001 the boundary to a verifier: whatever it raises is its finding
        return Finding(invalid_reason="verifier_error", detail=f"{type(error).__name__}: {error}"[:500])
    return Finding(score=score)


def serve(requests: BinaryIO, replies: BinaryIO, *, timeout_s: float) -> None:
    """Answer jobs until there are no more."""
    decoder, encoder = msgspec.msgpack.Decoder(Job), msgspec.msgpack.Encoder()
    replies.write(LENGTH.pack(len(READY)) + READY)
    replies.flush()
    while (frame := read_frame(requests)) is not None:
        signal.setitimer(signal.ITIMER_REAL, timeout_s * SELF_DESTRUCTION)
        reply = encoder.encode(answer(decoder.decode(frame)))
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(LENGTH.pack(len(reply)) + reply)
        replies.flush()


def main() -> None:
    """Serve on the process' own input and output; what verifiers print goes to the error stream."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when; Ctrl-C reaches the whole foreground group
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, replies, timeout_s=float(sys.argv[1]))


if __name__ == "__main__":
    main()
