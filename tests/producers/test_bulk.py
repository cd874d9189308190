from pathlib import Path

import msgspec
import pytest

from producers.bulk import MOST_WAITING, BulkPublisher
from schemas.codec import EnvelopeForm, encode_headers, encode_value, new_event
from schemas.config import LogSettings
from schemas.errors import ConfigError, LogError
from schemas.limits import INLINE_BYTES, MAX_RECORD_BYTES
from schemas.rollouts import TurnGenerated
from tests import samples
from tests.logs import new_log, read_all, task_ids


def write(publisher: BulkPublisher, key: str, *, text: str = "", time_s: float = 1.5) -> None:
    event = new_event(
        samples.turn(task_id=key, rollout_id=f"{key}/0", text=text), id=key, key=key, source="bulk", time_s=time_s
    )
    value, headers = encode_value(event.record), encode_headers(event)
    publisher.write(TurnGenerated, key.encode(), value, headers, int(time_s * 1000))


def write_all(publisher: BulkPublisher, keys: list[str]) -> None:
    for key in keys:
        write(publisher, key)


def test_more_than_the_client_holds_arrives_whole_and_in_order(broker: str, namespace: str, tmp_path: Path) -> None:
    log = new_log(broker, namespace, partitions=1)
    keys = task_ids(MOST_WAITING * 2)
    publisher = BulkPublisher(log, source="bulk", blob_dir=tmp_path)
    write_all(publisher, keys)
    publisher.flush()
    assert publisher.num_written == len(keys)
    assert [event.id for event in read_all(log, "rollouts", tmp_path, dedupe=0)] == keys
    publisher.close()
    publisher.close()


def test_what_the_broker_does_not_take_is_an_error_at_the_end_or_before(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    client = {"topic.metadata.propagation.max.ms": "200", "topic.metadata.refresh.interval.ms": "100"}
    log = LogSettings(bootstrap=broker, namespace=namespace + "none.", client=client)
    publisher = BulkPublisher(log, source="bulk", blob_dir=tmp_path)
    with pytest.raises(LogError, match="was not written"):
        write_all(publisher, task_ids(MOST_WAITING * 4))
    with pytest.raises(LogError, match="was not written"):
        publisher.flush(20)
    publisher.close()

    one = BulkPublisher(log, source="bulk", blob_dir=tmp_path)
    write(one, "k")
    with pytest.raises(LogError, match="was not written"):
        one.flush(20)
    one.close()


def test_what_a_broker_that_is_gone_did_not_confirm_is_an_error(tmp_path: Path) -> None:
    log = LogSettings(bootstrap="127.0.0.1:1", client={"delivery.timeout.ms": "300"})
    publisher = BulkPublisher(log, source="bulk", blob_dir=tmp_path)
    write(publisher, "k")
    with pytest.raises(LogError, match="1 events were not delivered"):
        publisher.flush(0.0)
    with pytest.raises(LogError, match="was not written"):
        publisher.flush(20)
    publisher.close()


def test_a_large_value_travels_as_a_claim_check_and_a_huge_one_not_at_all(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    log = new_log(broker, namespace)
    publisher = BulkPublisher(log, source="bulk", blob_dir=tmp_path)
    write(publisher, "large", text="x" * (INLINE_BYTES + 1))
    with pytest.raises(LogError, match="no reader takes more"):
        write(publisher, "huge", text="x" * (MAX_RECORD_BYTES + 1))
    publisher.flush()
    publisher.close()
    (read,) = read_all(log, "rollouts", tmp_path)
    assert len(read.record.text) == INLINE_BYTES + 1


def test_an_unknown_client_setting_is_the_users_to_mend(tmp_path: Path) -> None:
    log = LogSettings(bootstrap="127.0.0.1:1", client={"no.such.setting": "secret"})
    with pytest.raises(ConfigError, match=r"no\.such\.setting") as refused:
        BulkPublisher(log, source="bulk", blob_dir=tmp_path)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("trace", ["", "00-aa-bb-01"])
def test_a_form_makes_the_envelope_that_the_codec_makes(trace: str) -> None:
    event = new_event(samples.turn(), id="e", key="t", source="bulk", subject="t/0", time_s=1.25)
    event = msgspec.structs.replace(event, causation_id="c", correlation_id="t", traceparent=trace)
    form = EnvelopeForm(TurnGenerated, source="bulk")
    form.set_time(1.25)
    made = form.headers("e", subject="t/0", cause=b"c", correlation=b"t", trace=trace.encode())
    assert made == encode_headers(event)
