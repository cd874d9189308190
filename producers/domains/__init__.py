"""Task families. A domain is a decorated function; `producers.domains.catalogue` says where they are looked for."""

from producers.domains.catalogue import all_domains, domain, get_domain
from producers.domains.interface import Domain, Item

__all__ = ["Domain", "Item", "all_domains", "domain", "get_domain"]
