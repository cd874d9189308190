"""When a broker is ready: not when its port is open, but when it names a controller and itself."""

import logging
import subprocess
import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from rollog.broker.directory import BrokerDirectory
from schemas.errors import BrokerError

PORT_TAKEN = "Address already in use"
ASK_S = 0.5
TAIL_BYTES = 4000

silent = logging.getLogger("rollog.broker.readiness")
"""Takes the client's complaints about a broker that is not there yet."""
silent.addHandler(logging.NullHandler())
silent.propagate = False


class PortTakenError(BrokerError):
    """Somebody took a port of ours between its choice and the broker's start; another choice helps."""


def answers(client: AdminClient) -> bool:
    """Say whether the cluster's metadata names a controller and a broker."""
    try:
        metadata = client.list_topics(timeout=ASK_S)
    except KafkaException:
        return False
    return bool(metadata.brokers) and metadata.controller_id >= 0


def admin(bootstrap: str) -> AdminClient:
    """Return a client that dials again quickly and quietly."""
    settings = {"bootstrap.servers": bootstrap, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
    return AdminClient(settings, logger=silent)


def tail(directory: BrokerDirectory, num_bytes: int = TAIL_BYTES) -> str:
    """Return the end of what the broker logged and printed since its start."""
    files = [path for path in (directory.log, directory.out) if path.exists()]
    parts = [path.read_bytes()[-num_bytes:].decode(errors="replace") for path in files]
    return "\n".join(part.rstrip() for part in parts if part.strip())


def await_ready(
    directory: BrokerDirectory, bootstrap: str, process: subprocess.Popen[bytes], *, deadline_s: float
) -> None:
    """Return once the broker answers. Raises BrokerError, with its log's end, where it ends or is not in time."""
    client = admin(bootstrap)
    end = time.monotonic() + deadline_s
    while not answers(client):
        if process.poll() is not None:
            seen = tail(directory)
            raise (PortTakenError if PORT_TAKEN in seen else BrokerError)(
                f"{directory.path}: the broker ended with status {process.returncode} before it was ready. "
                f"The end of {directory.log.name}:\n{seen}"
            )
        if time.monotonic() > end:
            raise BrokerError(
                f"{directory.path}: the broker did not answer at {bootstrap} within {deadline_s:g} s. "
                f"The end of {directory.log.name}:\n{tail(directory)}"
            )
