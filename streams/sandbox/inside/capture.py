"""A stream's head and tail, counted, in memory of the caller's choice: what one job printed must not reach the next."""

import os

_MAX_READ_BYTES = 1 << 16


class Capture:
    """Reads a non-blocking pipe; keeps the first and the last `len(buffer) / 2` bytes."""

    __slots__ = ("_buffer", "_half", "fd", "num_bytes")

    def __init__(self, fd: int, buffer: memoryview) -> None:
        self.fd = fd
        self.num_bytes = 0
        self._buffer = buffer
        self._half = len(buffer) // 2

    def read(self) -> bool:
        """Take what is there, at most one buffer's worth. False once all writers have closed."""
        if self.num_bytes < self._half:
            space = self._buffer[self.num_bytes : self._half]
        else:
            space = self._buffer[self._half + self._ring_position() :]
        try:
            num_read = os.readv(self.fd, [space[:_MAX_READ_BYTES]])
        except BlockingIOError:
            return True
        self.num_bytes += num_read
        return num_read > 0

    def drain(self, max_bytes: int) -> None:
        """Take all that is left, of a pipe whose writers are dead or may yet write, up to `max_bytes` in all."""
        before = -1
        while before != self.num_bytes <= max_bytes:
            before = self.num_bytes
            self.read()

    def kept(self) -> list[memoryview]:
        """Return the pieces that were kept, in order."""
        size = len(self._buffer)
        if self.num_bytes <= size:
            return [self._buffer[: self.num_bytes]]
        cut = self._half + self._ring_position()
        return [self._buffer[: self._half], self._buffer[cut:], self._buffer[self._half : cut]]

    def _ring_position(self) -> int:
        return (self.num_bytes - self._half) % (len(self._buffer) - self._half)
