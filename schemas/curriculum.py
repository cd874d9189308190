"""Settings of the balance of domains."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec

from schemas.errors import ConfigError


class DomainFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the catalogue knows of a domain."""

    family: str
    levels: int = 1
    max_tokens: int = 0
    """That a turn needs, about; 0 leaves it to the settings."""


class SamplingBounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far sampling of a domain may go from what the settings say; equal ends keep it where it is."""

    num_samples: tuple[int, int] = (0, 0)
    """Rollouts of a group; (0, 0) leaves them as they are."""
    temperature: tuple[float, float] = (0.0, 0.0)
    max_tokens: tuple[int, int] = (0, 0)


class CurriculumSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of which domain is issued, at which level."""

    enabled: bool = False
    """Off: domains take turns by the weights in `tasks.domains`, all at `tasks.level`."""
    every: int = 32
    """Groups from one revision of the mix to the next."""
    window: int = 300
    """Rollouts that what is measured of a domain goes by."""
    tau: float = 0.1
    """Temperature of the softmax over scores: lower follows them more closely."""
    explore: float = 1.0
    """Weight of the upper confidence bound; 0 goes by the measured advantage alone."""
    floor: float = 0.2
    """Part of an even share that each domain has whatever its score."""
    cap: float = 4.0
    """Most that a domain has, in even shares."""
    protected_floor: float = 1.5
    """Floor of a domain whose held-out results fell, in even shares."""
    cost_exponent: float = 0.25
    """Weights are divided by cost to this power: 0 evens groups out, 1 what they cost."""
    eta: float = 0.4
    """Levels that a group moves its domain's level by, at most."""
    stride: float = 0.5
    """Levels that a revision moves it by, at most, however many groups there were."""
    alpha: float = 2.0
    """How soon a solve rate away from a half moves it as far as that."""
    smoothing: float = 0.1
    """Part of the newest group in a solve rate and a cost."""
    max_lag: int = 16
    """Revisions after which a group's rewards tell nothing of today's level."""
    refund: bool = False
    """Whether groups whose rewards are all alike are given again, up to as many again."""
    quotas: dict[str, float] = {}
    """Share of all groups by family, for those that are to have a given one."""
    levels: dict[str, int] = {}
    """Number of levels by domain, in place of the catalogue's."""
    families: dict[str, str] = {}
    """Family by domain, in place of the catalogue's until its tasks say it."""
    regress: float = 0.03
    """How far a held-out result may fall below the best one; twice its standard error where that is more."""
    abstain: float = 0.05
    """Share of rollouts that the verifier could give no value, from which a domain is not believed."""
    jump: float = 0.3
    flat: float = 0.02
    """From one held-out result to the next: training reward rose by at least, held-out by at most: not believed."""
    hold: bool = False
    """Whether new versions are marked as being for training alone while a domain's held-out results are down."""
    adapt: bool = False
    """Whether sampling of a domain adapts within `bounds`; then what was sampled is read too."""
    bounds: SamplingBounds = SamplingBounds()


def check_curriculum(settings: CurriculumSettings, domains: Mapping[str, float]) -> None:
    """Raise ConfigError where a value cannot work."""
    least = {
        "every": (settings.every, 1),
        "window": (settings.window, 2),
        "tau": (settings.tau, 1e-3),
        "cap": (settings.cap, 1),
        "max_lag": (settings.max_lag, 1),
        "explore": (settings.explore, 0),
        "protected_floor": (settings.protected_floor, 0),
        "eta": (settings.eta, 0),
        "stride": (settings.stride, 0),
        "alpha": (settings.alpha, 0),
    }
    for field, (value, wanted) in least.items():
        if not value >= wanted:
            raise ConfigError(f"curriculum.{field} = {value}: wanted at least {wanted}")
    for field in ("floor", "cost_exponent", "smoothing"):
        if not 0 <= getattr(settings, field) <= 1:
            raise ConfigError(f"curriculum.{field} = {getattr(settings, field)}: wanted 0 to 1")
    quotas = settings.quotas
    if any(share < 0 for share in quotas.values()) or sum(quotas.values()) > 1:
        raise ConfigError(f"curriculum.quotas = {quotas}: wanted shares from 0 that come to at most 1")
    for table in ("levels", "families"):
        for domain in getattr(settings, table):
            if not any(fnmatchcase(domain, name) for name in domains):
                known = ", ".join(domains)
                raise ConfigError(f"curriculum.{table}.{domain}: no such task is issued; tasks.domains are: {known}")
    if any(number < 1 for number in settings.levels.values()):
        raise ConfigError(f"curriculum.levels = {settings.levels}: wanted at least 1 level each")
    check_bounds(settings.bounds)


def check_bounds(bounds: SamplingBounds) -> None:
    """Raise ConfigError where bounds are the wrong way round, or nothing could be sampled within them."""
    for field in bounds.__struct_fields__:
        low, high = getattr(bounds, field)
        if not 0 <= low <= high:
            raise ConfigError(f"curriculum.bounds.{field} = {(low, high)}: wanted the lower one first, from 0")
    if bounds.num_samples[1] and bounds.num_samples[0] < 2:
        raise ConfigError(f"curriculum.bounds.num_samples = {bounds.num_samples}: a group has at least 2 samples")
    if bounds.max_tokens[1] and bounds.max_tokens[0] < 1:
        raise ConfigError(f"curriculum.bounds.max_tokens = {bounds.max_tokens}: wanted at least 1")
