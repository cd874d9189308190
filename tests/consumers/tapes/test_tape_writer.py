"""A tape has its name once all of it is there, and writing it takes no more memory the longer it is."""

import tracemalloc
from pathlib import Path

import msgpack
import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from consumers.raw import RawRecord
from consumers.tapes.file import TapeFile
from consumers.tapes.format import FRAME, TapeRecord
from consumers.tapes.writer import TapeWriter
from schemas.errors import ConfigError, TapeError
from schemas.events import Position
from tests import samples
from tests.consumers.tapes.small_tapes import raw, write_small


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def export() -> None:
        with TapeWriter(tmp_path / "a.tape") as writer:
            writer.begin("rewards", 0, 0)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        export()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_does_not_get_into_the_next_tape(tmp_path: Path) -> None:
    write_small(tmp_path / "wanted.tape")
    (tmp_path / ".a.tape.partial").write_bytes(b"half a tape" * 1000)
    write_small(tmp_path / "a.tape")
    assert (tmp_path / "a.tape").read_bytes() == (tmp_path / "wanted.tape").read_bytes()


def test_a_tape_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    write_small(tmp_path / "a.tape")
    with pytest.raises(ConfigError, match="there already"):
        TapeWriter(tmp_path / "a.tape")


def test_two_writers_of_one_tape_are_one_too_many(tmp_path: Path) -> None:
    with TapeWriter(tmp_path / "a.tape"):
        with pytest.raises(ConfigError, match="another process"):
            TapeWriter(tmp_path / "a.tape")
        assert (tmp_path / ".a.tape.partial").exists()


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        TapeWriter(tmp_path / "none" / "a.tape")


def test_offsets_that_do_not_ascend_are_refused(tmp_path: Path) -> None:
    with TapeWriter(tmp_path / "a.tape") as writer:
        writer.begin("rewards", 0, 4)
        writer.add(raw(samples.reward(), "rewards", 0, 6))
        with pytest.raises(TapeError, match=r"rewards\[0\]@6 comes after offset 6"):
            writer.add(raw(samples.reward(), "rewards", 0, 6))


BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), BYTES), max_size=4)


@given(contents=st.lists(st.tuples(BYTES, BYTES, HEADERS, st.integers(-1, 1 << 62)), max_size=20))
def test_any_record_comes_back_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, contents: list[tuple[bytes | None, bytes | None, list[object], int]]
) -> None:
    path = tmp_path_factory.mktemp("tape") / "any.tape"
    records = [
        RawRecord(position=Position("rewards", 3, 2 * n), key=k, value=v, headers=h, timestamp_ms=t)  # type: ignore[arg-type]
        for n, (k, v, h, t) in enumerate(contents)
    ]
    with TapeWriter(path, frame_bytes=100) as writer:
        writer.begin("rewards", 3, 0)
        for record in records:
            writer.add(record)
        writer.end(2 * len(records))
        writer.finish()
    tape = TapeFile(path)
    assert [record.raw() for record in tape.records(("rewards", 3), 0)] == records
    assert [record.raw() for record in tape.records(("rewards", 3), 7)] == records[4:]
    tape.close()


def test_any_messagepack_reader_reads_a_frame(tmp_path: Path) -> None:
    path = tmp_path / "a.tape"
    write_small(path)
    tape = TapeFile(path)
    entry = tape.index.frames[0]
    stored = path.read_bytes()[entry.at + FRAME.size :][: entry.stored_size]
    (first, _), *_ = msgpack.unpackb(zstandard.decompress(stored))
    record = raw(samples.reward(), "rewards", 0, 5, time_s=1005.0)
    assert first[:7] == ["record", "rewards", 0, 5, 1_005_000, record.key, record.value]
    tape.close()


def test_a_long_tape_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    def peak(num: int) -> int:
        tracemalloc.start()
        with TapeWriter(tmp_path / f"{num}.tape") as writer:
            writer.begin("rewards", 0, 0)
            for offset in range(num):
                writer.add(msgspec.structs.replace(template, position=Position("rewards", 0, offset)))
            writer.end(num)
            writer.finish()
        tape = TapeFile(tmp_path / f"{num}.tape")
        assert sum(isinstance(record, TapeRecord) for record in tape.records(("rewards", 0), 0)) == num
        tape.close()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    template = raw(samples.reward(), "rewards", 0, 0)
    assert peak(20_000) < 1.2 * peak(4_000)
