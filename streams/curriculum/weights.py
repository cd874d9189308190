"""From scores to shares of the groups: two levels, family and domain, within floors and caps. Pure.

Scores are those of DUMP (arXiv 2504.09710): mean absolute advantage and an upper confidence bound, by softmax. A family
counts once, whatever the number of its domains, so that many small ones do not drown few large ones.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from schemas.mixes import MILLION


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """What the weight of a domain is made of."""

    domain: str
    family: str
    base: float = 1.0
    """Its weight in the settings or by command, beside others' of its family."""
    score: float = 0.0
    cost: float = 1.0
    floor: float = 0.0
    """In even shares."""
    follows: bool = True
    """Whether its score counts; else it has its floor alone, while others of its pool follow theirs."""


def softmax(scores: Sequence[float], tau: float) -> list[float]:
    """Return probabilities in proportion to exp(score / tau)."""
    top = max(scores)
    powers = [math.exp((score - top) / tau) for score in scores]
    total = math.fsum(powers)
    return [power / total for power in powers]


def weigh(
    candidates: Sequence[Candidate], *, tau: float, cap: float, cost_exponent: float, quotas: Mapping[str, float]
) -> dict[str, int]:
    """Return shares in millionths, which add up to a million; nothing where there are no candidates.

    A family with a quota has that share in all; the others share the rest. Where only families with quotas are there,
    those are made larger alike.
    """
    if not candidates:
        return {}
    pools: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates, key=lambda one: one.domain):
        pools.setdefault(candidate.family if candidate.family in quotas else "", []).append(candidate)
    masses = {family: quotas[family] for family in pools if family}
    if "" in pools:
        masses[""] = max(0.0, 1.0 - math.fsum(masses.values()))
    total = math.fsum(masses[pool] for pool in sorted(masses))
    shares: dict[str, float] = {}
    for pool, members in sorted(pools.items()):
        mass = masses[pool] / total if total > 0 else 1.0 / len(pools)
        shares |= share_out(members, mass, tau=tau, cap=cap, cost_exponent=cost_exponent)
    return in_millionths(shares)


def share_out(
    members: Sequence[Candidate], mass: float, *, tau: float, cap: float, cost_exponent: float
) -> dict[str, float]:
    """Return what each of a pool's domains has of its mass: its floor, and of the rest by score, up to its cap."""
    even = even_shares(members, mass)
    floors = {one.domain: min(one.floor, cap) * even[one.domain] for one in members}
    if (over := math.fsum(floors.values())) > mass > 0:
        floors = {domain: floor * mass / over for domain, floor in floors.items()}
    wanted = scored_shares(members, even, tau=tau, cost_exponent=cost_exponent)
    caps = {domain: max(cap * share, floors[domain]) for domain, share in even.items()}
    return fill(floors, wanted, caps, mass)


def even_shares(members: Sequence[Candidate], mass: float) -> dict[str, float]:
    """Return shares without regard to scores: families by the mean weight of their domains, within them by weight."""
    families: dict[str, list[Candidate]] = {}
    for one in members:
        families.setdefault(one.family, []).append(one)
    sums = {family: math.fsum(one.base for one in group) for family, group in families.items()}
    means = {family: sums[family] / len(group) for family, group in families.items()}
    total = math.fsum(means.values())
    return {one.domain: mass * means[one.family] / total * one.base / sums[one.family] for one in members}


def scored_shares(
    members: Sequence[Candidate], even: Mapping[str, float], *, tau: float, cost_exponent: float
) -> dict[str, float]:
    """Return weights by score: softmax over families' mean scores, and over domains within each; by cost then."""
    following = [one for one in members if one.follows] or list(members)
    families: dict[str, list[Candidate]] = {}
    for one in following:
        families.setdefault(one.family, []).append(one)
    names = sorted(families)
    means = [math.fsum(one.score for one in families[name]) / len(families[name]) for name in names]
    wanted = dict.fromkeys(even, 0.0)
    for name, family_share in zip(names, softmax(means, tau), strict=True):
        group = families[name]
        for one, share in zip(group, softmax([one.score for one in group], tau), strict=True):
            # Even shares carry the weights that were asked for; their number per family is undone by the softmax.
            asked = even[one.domain] * len(group)
            wanted[one.domain] = family_share * share * asked / one.cost**cost_exponent
    return wanted


def fill(
    floors: Mapping[str, float], wanted: Mapping[str, float], caps: Mapping[str, float], mass: float
) -> dict[str, float]:
    """Return floors and, of what is left of the mass, parts in proportion to `wanted`; what a cap keeps out goes on."""
    shares, open_to = dict(floors), sorted(name for name in floors if wanted[name] > 0)
    rest = mass - math.fsum(floors.values())
    while rest > 1e-12 and open_to:
        total = math.fsum(wanted[name] for name in open_to)
        step = min(rest / total, *((caps[name] - shares[name]) / wanted[name] for name in open_to))
        for name in open_to:
            shares[name] += step * wanted[name]
        rest -= step * total
        open_to = [name for name in open_to if caps[name] - shares[name] > 1e-12]
    if rest > 1e-12:
        # All that may follow are at their caps: the others take what is left, or all alike where there are none.
        room = {name: max(caps[name] - share, 0.0) for name, share in shares.items()}
        total = math.fsum(room.values()) or 1.0
        shares = {name: share + rest * room[name] / total for name, share in shares.items()}
    return shares


def in_millionths(shares: Mapping[str, float]) -> dict[str, int]:
    """Return shares as whole numbers that add up to a million: rounded down, the largest remainders up."""
    total = math.fsum(shares.values())
    exact = {name: share / total * MILLION for name, share in shares.items()}
    whole = {name: math.floor(value) for name, value in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (whole[name] - exact[name], name))
    for name in by_remainder[: MILLION - sum(whole.values())]:
        whole[name] += 1
    return whole
