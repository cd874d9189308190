"""The embedded broker: Apache Kafka itself, one node on loopback, its JRE from a wheel and its jars from a lock."""

from rollog.broker.server import BrokerStatus, EmbeddedBroker

__all__ = ["BrokerStatus", "EmbeddedBroker"]
