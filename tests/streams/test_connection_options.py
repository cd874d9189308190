from pathlib import Path

import pytest

from consumers.reader import Reader
from producers.publisher import Publisher
from schemas.config import LogSettings
from schemas.errors import ConfigError
from streams.transport import aiokafka_options


def test_plain_is_the_default_and_every_server_is_named() -> None:
    options = aiokafka_options(LogSettings(bootstrap="a:1, b:2"))
    assert options == {"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_sasl_is_carried_over_by_either_of_its_names(name: str) -> None:
    client = {
        "security.protocol": "sasl_plaintext",
        name: "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "secret",
    }
    options = aiokafka_options(LogSettings(bootstrap="a:1", client=client))
    assert options["security_protocol"] == "SASL_PLAINTEXT"
    assert options["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("u", "secret")


def test_tls_has_a_context_that_checks_whom_it_talks_to() -> None:
    context = aiokafka_options(LogSettings(bootstrap="a:1", client={"security.protocol": "SSL"}))["ssl_context"]
    assert context.check_hostname


def test_a_certificate_that_is_not_there_is_the_users_to_mend(tmp_path: Path) -> None:
    client = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "none.pem")}
    with pytest.raises(ConfigError, match=r"ssl\.\*\.location"):
        aiokafka_options(LogSettings(bootstrap="a:1", client=client))


def test_a_mechanism_that_streams_cannot_speak_is_named() -> None:
    client = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    with pytest.raises(ConfigError, match="GSSAPI"):
        aiokafka_options(LogSettings(bootstrap="a:1", client=client))


def test_a_setting_that_is_refused_is_named_and_no_value_is_told(tmp_path: Path) -> None:
    log = LogSettings(bootstrap="a:1", client={"security.protocol": "secret"})
    with pytest.raises(ConfigError, match=r"security\.protocol") as writing:
        Publisher(log, source="test", blob_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"security\.protocol") as reading:
        Reader(log, ["tasks"], blob_dir=tmp_path, start="end")
    assert "secret" not in str(writing.value) + str(reading.value)
