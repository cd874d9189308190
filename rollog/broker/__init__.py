"""The embedded broker: Apache Kafka itself, one node on loopback, its JRE from a wheel and its jars from a lock.

Its names are imported when they are asked for: every verb mounts `rollog broker`, and few start one.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rollog.broker.server import BrokerStatus, EmbeddedBroker

__all__ = ["BrokerStatus", "EmbeddedBroker"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rollog.broker import server

    return getattr(server, name)
