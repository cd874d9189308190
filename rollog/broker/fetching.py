"""Gets jars from the Maven repositories of the user's jgo configuration (Maven Central where it names none).

A jar that the local Maven repository already holds is taken from there; nothing is written into it.
"""

from pathlib import Path

from rollog.broker.jars import Jar, matches
from schemas.errors import BrokerError

TIMEOUT_S = 60
OTHER_WAYS = """\
Two other ways to a log:
  - a Kafka cluster:       set log.bootstrap = "HOST:PORT" in the settings (log.client takes SASL and TLS)
  - the official image:    docker run -p 9092:9092 apache/kafka:4.3.1
                           and then log.bootstrap = "127.0.0.1:9092\""""


def fetch_jar(jar: Jar, folder: Path) -> Path:
    """Return where `jar` lies: in the local Maven repository, or downloaded below `folder`. Raises BrokerError."""
    try:
        import requests
        from jgo.config import GlobalSettings
        from jgo.maven import MavenContext
    except ImportError as error:
        raise BrokerError(f"the embedded broker needs the `broker` extra: {error}.\n{OTHER_WAYS}") from error
    settings = GlobalSettings.load()
    local = MavenContext(repo_cache=settings.repo_cache)
    remote = MavenContext(repo_cache=folder, timeout=TIMEOUT_S)
    remote.remote_repos.update(settings.repositories)
    cached = local.project(jar.group, jar.artifact).at_version(jar.version).artifact().cached_path
    if cached is not None and matches(jar, cached):
        return Path(cached)
    try:
        return Path(remote.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve())
    except (requests.RequestException, OSError, RuntimeError) as error:
        raise BrokerError(
            f"{jar.name} is not in the cache and could not be fetched: {error}\n"
            f"The embedded broker needs the network once.\n{OTHER_WAYS}"
        ) from error
