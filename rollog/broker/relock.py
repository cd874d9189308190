"""Writes `jars.lock` anew: `python -m rollog.broker.relock`. For a new Kafka version, edit `ENDPOINTS` and run it."""

import tempfile
from pathlib import Path

from rollog.broker.fetching import fetch_jar
from rollog.broker.jars import LOCK, Jar, digest

KAFKA = "4.3.1"
LOG4J = "2.25.4"
ENDPOINTS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA}",
    f"org.apache.kafka:kafka-clients:{KAFKA}",
    f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J}",
)
"""kafka-clients is named since log4j's parent POM would else resolve it to an older version; Kafka speaks SLF4J 1.7."""
HEAD = f"# Jars of Apache Kafka {KAFKA}: sha256, group:artifact:version. Written by `python -m rollog.broker.relock`."


def relock() -> str:
    """Resolve the endpoints, fetch what they need and return the lock's text."""
    import jgo

    lines = [HEAD]
    with tempfile.TemporaryDirectory() as scratch:
        for found in jgo.resolve("+".join(ENDPOINTS)):
            jar = Jar(group=found.groupId, artifact=found.artifactId, version=found.version, sha256="")
            path = fetch_jar(jar, Path(scratch))
            lines.append(f"{digest(path)}  {jar}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    LOCK.write_text(relock())
