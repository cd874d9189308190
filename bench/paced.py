"""Services as on an accelerator: sampling and steps take the time that a clock says, whatever the processor can do.

`python -m bench.paced run generator ...` is `rollog run generator ...` but for this: a token of all rows takes
`STEP_S`, however many rows there are, and a step of the learner at least `POSITION_S` for each token of its batches.
What the host does beside it is hidden behind it up to one step, as where kernels are launched ahead. So how busy a
service is says what it waits for, also where ten processes share two cores.
"""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from consumers.feed import BatchEvent
from producers.samplers.interface import Finished
from producers.samplers.scripted import ScriptedSampler, hinted
from schemas.config import GeneratorSettings

STEP_S = 0.01
"""One token for every open row: 100 tokens a second and row."""
POSITION_S = 40e-6
"""Of the learner, each token of its rows: 25,000 a second."""


class Accelerator:
    """What is asked of it one thing after the other, each taking its time."""

    def __init__(self) -> None:
        self._free_s = 0.0
        self._never = threading.Event()

    def work(self, seconds: float) -> None:
        """Return once it would have done this, begun at most its own length ago."""
        now_s = time.monotonic()
        self._free_s = max(self._free_s, now_s - seconds) + seconds
        if self._free_s > now_s:
            self._never.wait(self._free_s - now_s)


class PacedSampler(ScriptedSampler):
    """The scripted sampler on an accelerator."""

    def __init__(self, settings: GeneratorSettings) -> None:
        super().__init__(num_slots=settings.num_slots, answer=hinted(settings.script))
        self._accelerator = Accelerator()

    def step(self) -> list[Finished]:
        """Write one token of every open request; returns those that it finished, once the time is over."""
        finished = super().step()
        self._accelerator.work(STEP_S)
        return finished


def paced(advance: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step of the learner that takes at least its time."""

    def advance_slowly(self: Any, batches: Sequence[BatchEvent], *arguments: Any, **named: Any) -> Any:
        end_s = time.monotonic() + POSITION_S * num_positions(batches)
        result = advance(self, batches, *arguments, **named)
        threading.Event().wait(max(0.0, end_s - time.monotonic()))
        return result

    return advance_slowly


def num_positions(batches: Sequence[BatchEvent]) -> int:
    """Return how many tokens the rows of the batches have, prompts included."""
    return sum(len(row.token_ids) for event in batches for row in event.record.rows)


def pace(service: str) -> None:
    """Give the service that this process becomes a paced sampler, or paced steps."""
    if service == "generator":
        import producers.generator  # here, as the next one: each service loads what it needs, and torch is much

        producers.generator.make_sampler = PacedSampler  # type: ignore[attr-defined]
    elif service == "learner":
        from learner.training import Training

        Training.advance = paced(Training.advance)  # type: ignore[method-assign]


if __name__ == "__main__":
    from rollog.cli import app

    pace(sys.argv[2])
    app()
