"""The filter, run by a small machine of our own: what it refuses, what it lets through, on both kinds of processor."""

import re
import struct
from pathlib import Path

import pytest

from schemas.errors import SandboxError
from streams.sandbox import seccomp
from streams.sandbox.seccomp import build_filter

ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000


def refused(errno: int) -> int:
    return 0x00050000 | errno


def judge(program: bytes, number: int, arch: int, *arguments: int) -> int:
    """Interpret classic BPF over a `struct seccomp_data`."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("<iIQ6Q", number, arch, 0, *padded)
    steps = [struct.unpack_from("<HBBI", program, 8 * index) for index in range(len(program) // 8)]
    accumulator = at = 0
    while True:
        code, if_true, if_false, operand = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif code == 0x06:
            return operand
        elif code == 0x05:
            at += operand
        else:
            holds = {0x15: accumulator == operand, 0x35: accumulator >= operand, 0x45: bool(accumulator & operand)}[
                code
            ]
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", ARCHES)
def test_it_refuses_what_is_listed_and_nothing_else(machine: str) -> None:
    program, arch = build_filter(machine), ARCHES[machine]
    index, _, clone, socket, socketpair, prlimit, ioctl = seccomp._MACHINES[machine]
    listed = {pair[index] for pair in seccomp._REFUSED.values()} - {None}
    special = {clone, socket, socketpair, prlimit, ioctl, 435}
    for number in range(600):
        if number not in special:
            assert judge(program, number, arch) == (refused(1) if number in listed else ALLOW), number
    assert len(listed) > 60


@pytest.mark.parametrize("machine", ARCHES)
def test_it_looks_into_arguments(machine: str) -> None:
    program, arch = build_filter(machine), ARCHES[machine]
    _, _, clone, socket, socketpair, prlimit, ioctl = seccomp._MACHINES[machine]
    assert judge(program, 435, arch) == refused(38)
    assert judge(program, clone, arch, 0x3D0F00) == ALLOW  # a thread, as libc makes it
    assert judge(program, clone, arch, 0x1200011) == ALLOW  # a fork
    for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x02000000, 0x04000000, 0x08000000):
        assert judge(program, clone, arch, flag | 17) == refused(1)
    for number in (socket, socketpair):
        assert [judge(program, number, arch, family) for family in (1, 2, 10)] == [ALLOW] * 3
        assert [judge(program, number, arch, family) for family in (0, 16, 17, 38, 40, 44)] == [refused(13)] * 6
    assert judge(program, prlimit, arch, 0) == ALLOW
    assert judge(program, prlimit, arch, 1) == refused(1)
    assert judge(program, ioctl, arch, 0, 0x5401) == ALLOW
    assert judge(program, ioctl, arch, 0, 0x5412) == refused(1)


def test_another_architectures_calls_end_the_process() -> None:
    assert judge(build_filter("x86_64"), 0, ARCHES["aarch64"]) == KILL
    assert judge(build_filter("x86_64"), 0, 0x40000003) == KILL
    assert judge(build_filter("x86_64"), 0x40000000 + 101, ARCHES["x86_64"]) == refused(38)


def test_a_machine_without_a_table_is_an_error() -> None:
    with pytest.raises(SandboxError, match="riscv64"):
        build_filter("riscv64")


@pytest.mark.parametrize(
    ("index", "header"),
    [(0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")],
)
def test_the_numbers_are_those_of_the_kernels_headers(index: int, header: str) -> None:
    if not Path(header).exists():
        pytest.skip("no kernel headers here")
    found = {name: int(number) for name, number in re.findall(r"__NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text())}
    ours = {name: pair[index] for name, pair in seccomp._REFUSED.items() if name in found}
    assert len(ours) > 50
    assert {name: (number, found[name]) for name, number in ours.items() if number != found[name]} == {}
