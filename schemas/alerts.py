"""Signs that a policy is rewarded for something else than what was meant; people or a rule make quarantines of them."""

from typing import Literal

import msgspec

Signal = Literal["divergence", "disagreement", "repeated", "no_answer", "invalid"]


class AlertRaised(msgspec.Struct, frozen=True, kw_only=True):
    """One signal passed its threshold in one window of one domain."""

    run_id: str
    domain: str
    signal: Signal
    """`divergence`: training reward is up, held-out results are not. `disagreement`: a shadow verifier denies what the
    one that trains rewards. `repeated`: one answer is rewarded for different questions. `no_answer`: rollouts that ask
    for nothing to be run. `invalid`: rewards without a value."""
    about: str = ""
    """The shadow's scoring, for `disagreement`."""
    unit: Literal["task", "version"]
    """What the window counts: training tasks by index, or policy versions."""
    first: int
    last: int
    """Of the window, inclusive."""
    measured: float
    threshold: float
    num_measured: int
    """Rollouts, questions or rows that it was measured on."""
    detail: str
    """For people: what was compared with what."""
    examples: tuple[str, ...] = ()
    """A few rollout ids."""
    selection: str
    """The rollouts that it points to, as `rollog quarantine` takes them."""
    command: str
    """A command line to begin with: a dry run of that quarantine."""
