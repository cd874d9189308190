"""Kafka's jars: what the lock promises is what the class path gets, or nothing is."""

import re
import socket
from pathlib import Path

import pytest

from rollog.broker.fetching import fetch_jar
from rollog.broker.jars import LOCK, Jar, digest, ensure_jars, read_lock
from rollog.broker.properties import server_properties
from schemas.errors import BrokerError
from schemas.limits import MAX_RECORD_BYTES


class Repository:
    """A fake of where jars come from."""

    def __init__(self, served: bytes) -> None:
        self.served = served
        self.asked: list[str] = []

    def fetch(self, jar: Jar, folder: Path) -> Path:
        self.asked.append(jar.name)
        path = folder / jar.name
        path.write_bytes(self.served)
        return path


@pytest.fixture
def jar(tmp_path: Path) -> Jar:
    good = tmp_path / "good"
    good.write_bytes(b"good")
    return Jar(group="org.example", artifact="thing", version="1.0", sha256=digest(good))


def test_a_jar_that_is_not_what_the_lock_says_is_refused_and_not_kept(tmp_path: Path, jar: Jar) -> None:
    with pytest.raises(BrokerError, match=f"org.example:thing:1.0: got sha256 .*, wanted {jar.sha256}"):
        ensure_jars([jar], tmp_path / "jars", Repository(b"evil").fetch)
    assert list((tmp_path / "jars").iterdir()) == []


def test_a_kept_jar_is_not_fetched_again(tmp_path: Path, jar: Jar) -> None:
    repository = Repository(b"good")
    assert ensure_jars([jar], tmp_path / "jars", repository.fetch) == [tmp_path / "jars" / "thing-1.0.jar"]
    ensure_jars([jar], tmp_path / "jars", repository.fetch)
    assert repository.asked == ["thing-1.0.jar"]


def test_a_kept_jar_that_was_tampered_with_is_replaced(tmp_path: Path, jar: Jar) -> None:
    repository = Repository(b"good")
    (path,) = ensure_jars([jar], tmp_path / "jars", repository.fetch)
    path.write_bytes(b"evil")
    ensure_jars([jar], tmp_path / "jars", repository.fetch)
    assert path.read_bytes() == b"good"


def jgo_config(monkeypatch: pytest.MonkeyPatch, folder: Path, *, port: int) -> Path:
    """Make jgo's configuration name a repository at that port and an empty local one; returns the local one."""
    config = folder / "jgo.conf"
    config.write_text(
        f"[settings]\nrepo_cache = {folder / 'm2'}\n[repositories]\ncentral = http://127.0.0.1:{port}/maven\n"
    )
    monkeypatch.setenv("JGO_CONFIG_FILE", str(config))
    monkeypatch.delenv("M2_REPO", raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return folder / "m2"


def test_without_network_and_cache_the_error_names_the_two_other_ways(
    tmp_path: Path, jar: Jar, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        jgo_config(monkeypatch, tmp_path, port=nobody_listens.getsockname()[1])
        with pytest.raises(BrokerError) as caught:
            ensure_jars([jar], tmp_path / "jars", fetch_jar)
    message = str(caught.value)
    assert "thing-1.0.jar is not in the cache and could not be fetched" in message
    assert "log.bootstrap" in message
    assert "docker run -p 9092:9092 apache/kafka:4.3.1" in message


def test_a_jar_of_the_local_maven_repository_needs_no_network(
    tmp_path: Path, jar: Jar, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = jgo_config(monkeypatch, tmp_path, port=1) / "org/example/thing/1.0"
    local.mkdir(parents=True)
    (local / "thing-1.0.jar").write_bytes(b"good")
    (path,) = ensure_jars([jar], tmp_path / "jars", fetch_jar)
    assert path.read_bytes() == b"good"


def test_the_lock_names_one_kafka_version_and_no_host() -> None:
    jars = read_lock()
    kafka = {jar.version for jar in jars if jar.group == "org.apache.kafka"}
    assert kafka == {"4.3.1"}
    assert {"kafka_2.13", "kafka-clients", "log4j-slf4j-impl", "log4j-core"} <= {jar.artifact for jar in jars}
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert "//" not in LOCK.read_text()


def test_the_brokers_size_limits_are_the_one_constant() -> None:
    text = server_properties(port=1, controller_port=2)
    assert f"message.max.bytes={MAX_RECORD_BYTES}\n" in text
    assert f"replica.fetch.max.bytes={MAX_RECORD_BYTES}\n" in text
