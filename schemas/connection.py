"""How the log's clients reach the cluster: one mapping of `LogSettings` to what librdkafka wants.

Client settings may be secrets: they go to the library and nowhere else.
"""

from schemas.config import LogSettings
from schemas.errors import ConfigError

Options = dict[str, str | int | float | bool]
RECONNECT_MS = 500
"""The longest between two tries to reach a broker that went away; the library's own 10 s outlast most restarts."""


def client_options(log: LogSettings) -> Options:
    """Return the librdkafka settings that every client of this log starts from. Raises ConfigError."""
    if not log.bootstrap:
        raise ConfigError("log.bootstrap is empty: set it to host:port of a broker, or start the embedded one")
    return {"log_level": 2, "reconnect.backoff.max.ms": RECONNECT_MS, **log.client, "bootstrap.servers": log.bootstrap}


def refused(log: LogSettings, why: str) -> ConfigError:
    """Return what to tell where the client library refuses its settings: their names, never what they are set to."""
    names = ", ".join(sorted(log.client)) or "none are set"
    return ConfigError(f"log.client: the client library refuses a setting ({why}); look at: {names}")


def on_cluster(log: LogSettings, topic: str) -> str:
    """Return the name that the cluster knows a topic of the catalogue by."""
    return log.namespace + topic


def in_catalogue(log: LogSettings, name: str) -> str:
    """Return the catalogue's name of a topic of the cluster."""
    return name.removeprefix(log.namespace)
