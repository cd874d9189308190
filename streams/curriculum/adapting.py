"""How a domain is sampled, within bounds, by what its groups were like. Pure.

Rewards that are mostly all alike while few or most are right ask for more samples and more heat: the few others are to
be found. Rollouts that are cut off ask for more tokens. Both are taken back more slowly than they are given, since what
they cure is no longer seen while they cure it.
"""

import msgspec

from schemas.curriculum import CurriculumSettings
from schemas.tasks import SamplingParams
from streams.curriculum.domain import DomainState

FLAT, SIDE, CUT_OFF = 0.5, 0.25, 0.05
"""Share of zero-variance groups above which, solve rate within this of 0 or 1, and share of truncated rollouts."""
MORE, LESS = 0.25, 0.05
"""Parts of the way to the upper bound that a revision goes up or down."""


def adapt(state: DomainState) -> None:
    """Move how far a domain's sampling is from the usual, once a revision."""
    if not state.window or state.num_since_revision == 0:
        return
    rate = state.solve_rate or 0.0
    is_dull = state.zero_variance > FLAT and min(rate, 1 - rate) < SIDE
    state.need = moved(state.need, is_dull)
    state.room = moved(state.room, state.truncated > CUT_OFF)


def moved(part: float, is_wanted: bool) -> float:
    """Return the part of the way after one revision."""
    return round(min(1.0, part + MORE) if is_wanted else max(0.0, part - LESS), 6)


def sampling_of(
    state: DomainState, num_samples: int, sampling: SamplingParams, rules: CurriculumSettings
) -> tuple[int, SamplingParams | None]:
    """Return samples and sampling of a domain's next groups; 0 and None where they are as the settings say."""
    if not rules.adapt:
        return 0, None
    bounds = rules.bounds
    changed = msgspec.structs.replace(
        sampling,
        temperature=round(between(sampling.temperature, bounds.temperature, state.need), 3),
        max_tokens=round(between(sampling.max_tokens, bounds.max_tokens, state.room)),
    )
    samples = round(between(num_samples, bounds.num_samples, state.need))
    return (0 if samples == num_samples else samples), (None if changed == sampling else changed)


def between(usual: float, bounds: tuple[float, float], part: float) -> float:
    """Return what lies so far, 0 to 1, from the usual value to the upper bound; (0, 0) is no bound and no change."""
    low, high = bounds
    if high <= 0:
        return usual
    start = min(max(usual, low), high)
    return start + part * (high - start)
