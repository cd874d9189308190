"""Whatever is done to a tape is found, and said where."""

import random
from contextlib import closing
from pathlib import Path

import pytest

from consumers.raw import RawRecord
from consumers.tapes.file import TapeFile
from consumers.tapes.format import FRAME, HEAD, Item, TapeBlob, TapeRecord, TapeSkip, seal
from consumers.tapes.reader import TapeReader
from consumers.tapes.verify import verify
from consumers.tapes.writer import TapeWriter
from schemas.errors import DecodeError, TapeError
from tests import samples
from tests.consumers.tapes.small_tapes import BLOB, forge, raw, write_small


def ignore(raw: RawRecord, error: DecodeError) -> None:
    pass


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    path = tmp_path / "small.tape"
    write_small(path)
    return path


def test_a_tape_as_written_has_no_fault(tape: Path) -> None:
    report = verify(tape)

    assert report.faults == ()
    assert (report.num_records, report.num_blobs, report.num_undecodable) == (7, 1, 1)
    assert report.ranges == {"rewards[0]": (5, 12), "rewards[1]": (0, 0), "rollouts[0]": (0, 3)}
    assert report.num_frames > 3
    assert verify(tape, digest=report.digest).faults == ()


def test_the_same_records_make_the_same_tape(tape: Path, tmp_path: Path) -> None:
    write_small(tmp_path / "again.tape")
    assert (tmp_path / "again.tape").read_bytes() == tape.read_bytes()


def test_every_flipped_byte_is_found_where_it_is(tape: Path) -> None:
    whole = tape.read_bytes()
    opened = TapeFile(tape)
    frames = opened.index.frames
    opened.close()
    frames_end = frames[-1].at + FRAME.size + frames[-1].stored_size
    missed = []
    for at in range(len(whole)):
        tape.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        faults = verify(tape).faults
        inside = [number for number, entry in enumerate(frames) if entry.at <= at]
        wanted = inside[-1] if inside and at < frames_end else None
        named = frames[wanted].covers if wanted is not None else ""
        if not faults or faults[0].frame != wanted or faults[0].where != named:
            missed.append((at, faults))
    assert missed == []


def test_no_flipped_byte_gets_past_a_reader(tape: Path) -> None:
    whole = tape.read_bytes()
    passed = []
    for at in range(len(whole)):
        tape.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            reader = TapeReader(tape, ["rewards", "rollouts"], start="beginning", bounded=True, on_undecodable=ignore)
            with closing(reader):
                list(reader)
        except TapeError as error:
            if str(tape) not in str(error) or "byte " not in str(error):
                passed.append((at, str(error)))
        else:
            passed.append((at, "no error"))
    assert passed == []


def test_a_tape_cut_short_or_added_to_is_found(tape: Path) -> None:
    whole = tape.read_bytes()
    for size in range(len(whole)):
        tape.write_bytes(whole[:size])
        assert verify(tape).faults, size
        with pytest.raises(TapeError, match=r"byte \d+"):
            TapeFile(tape)
    tape.write_bytes(whole + b"\0")
    assert "added to" in verify(tape).faults[0].what


def test_bytes_put_in_taken_out_or_moved_are_found(tape: Path) -> None:
    whole, rng = tape.read_bytes(), random.Random(7)
    for _ in range(200):
        start, end = sorted(rng.sample(range(len(whole)), 2))
        for damaged in (
            whole[:start] + whole[end:],
            whole[:start] + rng.randbytes(1 + end % 9) + whole[start:],
            whole[:start] + whole[start:end][::-1] + whole[end:],
        ):
            if damaged != whole:
                tape.write_bytes(damaged)
                assert verify(tape).faults, (start, end)


def test_frames_after_a_damaged_one_are_looked_at_too(tape: Path) -> None:
    opened = TapeFile(tape)
    first, last = opened.index.frames[0], opened.index.frames[-1]
    opened.close()
    content = bytearray(tape.read_bytes())
    for entry in (first, last):
        content[entry.at + FRAME.size + 9] ^= 1
    tape.write_bytes(content)

    numbers = {fault.frame for fault in verify(tape).faults}
    assert numbers == {0, len(opened.index.frames) - 1}


def test_without_its_index_a_tapes_frames_are_still_looked_at(tape: Path) -> None:
    opened = TapeFile(tape)
    entry = opened.index.frames[1]
    opened.close()
    content = bytearray(tape.read_bytes()[:-1])
    content[entry.at + FRAME.size + 5] ^= 1
    tape.write_bytes(content)

    faults = verify(tape).faults
    assert faults[0].frame == 1
    assert faults[-1].frame is None
    assert all(fault.frame in (1, None) for fault in faults)


RECORDS = ["rewards[0]@5", "rewards[0]@6", "rewards[0]@9", "rewards[0]@10", "rollouts[0]@0", "rollouts[0]@2"]


def place(item: Item) -> str:
    return "" if isinstance(item, TapeBlob) else f"{item.topic}[{item.partition}]@{item.offset}"


@pytest.mark.parametrize("where", RECORDS)
def test_a_record_dropped_with_every_digest_made_to_fit_is_named(tape: Path, tmp_path: Path, where: str) -> None:
    forged = tmp_path / "forged.tape"
    forge(tape, forged, lambda item, sealed: None if place(item) == where else sealed)

    faults = verify(forged).faults
    partition, offset = where.split("@")
    assert any(partition in fault.where for fault in faults)
    assert any(
        fault.where.split("@")[1].split("..")[0] == offset or f"offset {offset}" in fault.what for fault in faults
    )


@pytest.mark.parametrize("where", RECORDS)
def test_a_record_edited_with_every_digest_of_frames_made_to_fit_is_named(
    tape: Path, tmp_path: Path, where: str
) -> None:
    def edit(item: Item, sealed: bytes) -> bytes:
        if place(item) != where:
            return sealed
        assert isinstance(item, TapeRecord)
        return sealed.replace(b"rollog/test", b"rollog/tesT")

    forged = tmp_path / "forged.tape"
    forge(tape, forged, edit)

    assert any(where in fault.what for fault in verify(forged).faults)


def test_a_tape_that_was_forged_to_the_last_digest_is_known_by_the_digest_that_was_kept(
    tape: Path, tmp_path: Path
) -> None:
    def edit(item: Item, sealed: bytes) -> bytes:
        if place(item) != "rewards[0]@6":
            return sealed
        changed = raw(samples.reward(value=1.0), "rewards", 0, 6, time_s=1006.0)
        return seal(TapeRecord("rewards", 0, 6, 1_006_000, changed.key, changed.value, changed.headers))

    kept, forged = verify(tape).digest, tmp_path / "forged.tape"
    forge(tape, forged, edit)

    assert verify(forged).faults == ()
    assert "another tape" in verify(forged, digest=kept).faults[0].what


def test_a_record_without_its_blob_is_named(tape: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged.tape"
    forge(tape, forged, lambda item, sealed: None if isinstance(item, TapeBlob) else sealed)
    assert any(fault.where == "rollouts[0]@1" for fault in verify(forged).faults)


def test_a_gap_that_the_log_had_is_no_fault_but_an_unexplained_one_is(tape: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged.tape"
    forge(tape, forged, lambda item, sealed: None if isinstance(item, TapeSkip) else sealed)
    assert verify(tape).faults == ()
    assert any(fault.where == "rewards[0]@7" and "missing" in fault.what for fault in verify(forged).faults)


def test_a_record_that_did_not_decode_when_the_tape_was_made_must_have_been_noted(tmp_path: Path) -> None:
    path = tmp_path / "bad.tape"
    with TapeWriter(path) as writer:
        writer.begin("rewards", 0, 0)
        record = raw(samples.turn(), "rewards", 0, 0)
        writer.add(record)
        writer.end(1)
        writer.finish()

    faults = verify(path).faults
    assert [fault.where for fault in faults] == ["rewards[0]@0"]
    assert "cannot be decoded" in faults[0].what


@pytest.mark.parametrize("content", [b"", b"x", b"PK\x03\x04" + bytes(400), bytes(4096)])
def test_a_foreign_file_is_no_tape(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    assert "no tape" in verify(path).faults[0].what
    with pytest.raises(TapeError, match="no tape"):
        TapeFile(path)


def test_another_format_version_is_refused_by_number(tape: Path) -> None:
    content = bytearray(tape.read_bytes())
    content[HEAD.size - 4] = 7
    tape.write_bytes(content)
    with pytest.raises(TapeError, match="format 7"):
        TapeFile(tape)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TapeError, match="no such file"):
        verify(tmp_path / "none.tape")


def test_the_blob_comes_back_whole(tape: Path) -> None:
    opened = TapeFile(tape)
    assert list(opened.blobs()) == [BLOB]
    opened.close()
