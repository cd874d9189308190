"""A broker's data directory: what lies where, who owns it, and which ports and process are recorded.

The owner holds a lock on the file `lock`. The JVM inherits that lock from whoever starts it and so holds it for exactly
as long as it lives, however it ends; a recorded pid is believed, and signalled, only while the lock is held.
"""

import fcntl
import os
import random
import shutil
import socket
import uuid
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path

import msgspec

from rollog.broker.properties import DATA, HOST, LOG, NODE_ID
from rollog.broker.waiting import wait_for
from schemas.errors import BrokerError

PORTS = range(20_000, 30_000)
"""Below the ports that systems give to outgoing connections: a client that keeps dialling a dead broker at such a port
may be given it as its own end, connect to itself, and keep the broker out."""
CLAIM_S = 1.0
HANDOVER_S = 15.0
"""How long a broker whose owner died may take to end."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What `broker.json` holds."""

    port: int
    controller_port: int
    cluster_id: str
    pid: int = 0
    """Of the JVM; 0 from claim to start."""
    owner_pid: int = 0
    """Of the process that the JVM ends with; 0 if it outlives the one that started it."""

    @property
    def bootstrap(self) -> str:
        """What clients dial."""
        return f"{HOST}:{self.port}"


class BrokerDirectory:
    """One data directory; it need not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.data = self.path / DATA
        self.log = self.path / LOG
        self.out = self.path / "broker.out"
        self.properties = self.path / "server.properties"
        self.record_path = self.path / "broker.json"
        self.lock_path = self.path / "lock"

    def record(self) -> Record | None:
        """Return what is recorded, if anything is. Raises BrokerError where it cannot be read."""
        try:
            return msgspec.json.decode(self.record_path.read_bytes(), type=Record)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise BrokerError(
                f"{self.record_path}: {error}; the file is broken: delete it, a new one will be made"
            ) from error

    def save(self, record: Record) -> Record:
        """Replace what is recorded, in one step."""
        part = self.record_path.with_suffix(".part")
        part.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        os.replace(part, self.record_path)
        return record

    def disk_bytes(self) -> int:
        """Return what the data takes on disk; what the broker deletes meanwhile counts as nothing."""
        blocks = 0
        for path in self.data.rglob("*"):
            with suppress(FileNotFoundError):
                blocks += path.lstat().st_blocks
        return 512 * blocks

    def owned(self) -> bool:
        """Say whether a broker lives here, or somebody is about to start or reset one."""
        try:
            lock = os.open(self.lock_path, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def orphaned(self) -> bool:
        """Say whether the process is gone that its broker ends with: what runs is about to end."""
        record = self.record()
        return record is not None and record.owner_pid != 0 and not alive(record.owner_pid)

    def claim(self) -> int:
        """Return the held lock as a file descriptor, to be closed by the caller. Raises BrokerError where it is owned.

        A broker that is about to end, since its owner was killed, is waited for.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        if not wait_for(lambda: try_lock(lock), deadline_s=HANDOVER_S if self.orphaned() else CLAIM_S):
            os.close(lock)
            record = self.record()
            who = f"pid {record.pid} at {record.bootstrap}" if record and record.pid else "a process that starts it"
            raise BrokerError(
                f"{self.path}: a broker owns this directory already ({who}); use it, stop it with "
                f"`rollog broker stop --dir {self.path}`, or choose another directory"
            )
        return lock

    def prepare(self, template: Path, *, keep_ports: bool) -> Record:
        """Format the directory if it is new; return a record whose ports are free: the old ones, where that will do.

        The caller holds the lock.
        """
        record = self.record() or Record(port=0, controller_port=0, cluster_id=new_id())
        port = record.port if keep_ports and free(record.port) else choose_port()
        keep_controller = keep_ports and free(record.controller_port)
        controller_port = record.controller_port if keep_controller else choose_port(taken=port)
        record = msgspec.structs.replace(record, port=port, controller_port=controller_port, pid=0, owner_pid=0)
        self.save(record)
        if not (self.data / "meta.properties").exists():
            shutil.copytree(template, self.data, dirs_exist_ok=True)
            meta = f"version=1\ncluster.id={record.cluster_id}\nnode.id={NODE_ID}\ndirectory.id={new_id()}\n"
            part = self.data / "meta.part"
            part.write_text(meta)
            os.replace(part, self.data / "meta.properties")
        return record


def try_lock(lock: int) -> bool:
    """Take the lock if nobody holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def alive(pid: int) -> bool:
    """Say whether a process has this pid."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def free(port: int) -> bool:
    """Say whether a broker could listen at this port of loopback."""
    if not port:
        return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def choose_port(*, taken: int = 0) -> int:
    """Return a free port other than `taken`. Raises BrokerError where there is none."""
    for port in random.SystemRandom().sample(PORTS, 200):
        if port != taken and free(port):
            return port
    raise BrokerError(f"{HOST}: 200 ports tried between {PORTS.start} and {PORTS.stop}, none is free")


def new_id() -> str:
    """Return a Kafka id: 16 random bytes as unpadded base64url that does not look like an option."""
    while (made := urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return made
