"""Task families by name. A domain is a function; adding one is a module here and a line below."""

from types import MappingProxyType

from producers.domains.interface import Domain, Item
from producers.domains.repair import draw_repair
from producers.domains.verbs import draw_verbs
from schemas.errors import ConfigError

DOMAINS: MappingProxyType[str, Domain] = MappingProxyType({"repair": draw_repair, "verbs": draw_verbs})


def get_domain(name: str) -> Domain:
    """Return the domain of that name.

    Raises:
        ConfigError: nothing is known by it.
    """
    try:
        return DOMAINS[name]
    except KeyError:
        known = ", ".join(sorted(DOMAINS))
        raise ConfigError(f"domain {name!r} is not known; known are: {known}; see producers/domains/") from None


__all__ = ["DOMAINS", "Domain", "Item", "get_domain"]
