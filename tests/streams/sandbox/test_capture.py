"""Head, tail and count of a stream, however it comes in pieces."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.sandbox.inside.capture import Capture


def captured(pieces: list[bytes], size: int) -> Capture:
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    capture = Capture(read_fd, memoryview(bytearray(size)))
    for piece in pieces:
        os.write(write_fd, piece)
        capture.drain(1 << 30)
    os.close(write_fd)
    assert capture.read() is False
    os.close(read_fd)
    return capture


@settings(max_examples=200, deadline=None)
@given(pieces=st.lists(st.binary(max_size=40), max_size=12), size=st.integers(2, 60))
def test_it_keeps_head_and_tail_and_counts_all(pieces: list[bytes], size: int) -> None:
    whole = b"".join(pieces)
    capture = captured(pieces, size)
    kept = b"".join(capture.kept())
    half = size // 2
    assert capture.num_bytes == len(whole)
    assert kept == (whole if len(whole) <= size else whole[:half] + whole[len(whole) - (size - half) :])


def test_it_reads_on_while_writers_live_and_stops_at_a_bound() -> None:
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    capture = Capture(read_fd, memoryview(bytearray(8)))
    assert capture.read() is True
    os.write(write_fd, b"x" * 1000)
    capture.drain(100)
    assert 100 < capture.num_bytes < 200
    os.close(read_fd)
    os.close(write_fd)
