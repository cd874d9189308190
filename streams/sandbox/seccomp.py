"""The system calls that a program in the sandbox may not make, as a classic BPF program.

A list of what is refused, not of what is allowed: programs are arbitrary, and namespaces, dropped capabilities and the
read-only root are the walls. The filter takes away what is reachable in spite of those: new namespaces, kernel
interfaces with a record of holes (io_uring, userfaultfd, perf, bpf, keyrings), System V and POSIX message objects,
sockets of families that no network namespace holds back (vsock), looking into other processes.

The kernel runs a new filter once for every call number to cache its answer, so the refused numbers form a search tree
rather than a chain: installing takes microseconds.
"""

import os
import struct

from schemas.errors import SandboxError

_REFUSED = {
    # name: (x86_64, aarch64), None where the machine has no such call
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "shmget": (29, 194),
    "shmctl": (31, 195),
    "shmat": (30, 196),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "semop": (65, 193),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "syslog": (103, 116),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "set_mempolicy_home_node": (450, 450),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "lookup_dcookie": (212, 18),
    "map_shadow_stack": (453, None),
}
_MACHINES = {
    # name: (index in the pairs above, AUDIT_ARCH, clone, socket, socketpair, prlimit64, ioctl)
    "x86_64": (0, 0xC000003E, 56, 41, 53, 302, 16),
    "aarch64": (1, 0xC00000B7, 220, 198, 199, 261, 29),
}
_CLONE3 = 435
_NEW_NAMESPACE_FLAGS = 0x7E020000
"""CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET; NEWTIME is not among the flags that `clone` takes."""
_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET, AF_INET6: their reach ends at the network namespace."""
_TERMINAL_INJECTION = (0x5412, 0x541C)
"""TIOCSTI, TIOCLINUX."""
_LEAF_SIZE = 6
_X32_BIT = 0x40000000

_EPERM, _EACCES, _ENOSYS = 1, 13, 38
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _RETURN, _JUMP = 0x20, 0x06, 0x05
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand, as `struct sock_filter`."""


def build_filter(machine: str | None = None) -> bytes:
    """Return the program for this machine, eight bytes an instruction.

    Raises:
        SandboxError: no table for this machine.
    """
    machine = machine or os.uname().machine
    if machine not in _MACHINES:
        msg = f"seccomp: no system call table for machine {machine!r}; have {sorted(_MACHINES)}"
        raise SandboxError(msg)
    index, arch, clone, socket, socketpair, prlimit, ioctl = _MACHINES[machine]
    looked_into: dict[int, list[Instruction]] = {
        _CLONE3: [_refuse(_ENOSYS)],  # its flags lie in memory that a filter cannot read: libc then uses clone
        clone: [(_LOAD, 0, 0, _ARG0), (_IF_ANY_BIT, 0, 1, _NEW_NAMESPACE_FLAGS), _refuse(_EPERM), _allow()],
        socket: _only(_ARG0, _FAMILIES, _EACCES),
        socketpair: _only(_ARG0, _FAMILIES, _EACCES),
        prlimit: _only(_ARG0, (0,), _EPERM),
        ioctl: [(_LOAD, 0, 0, _ARG1), *_equal(_TERMINAL_INJECTION, _refuse(_EPERM)), _allow()],
    }
    refused = sorted(number for pair in _REFUSED.values() if (number := pair[index]) is not None)
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_IF_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NR),
        (_IF_AT_LEAST, 0, 1, _X32_BIT),
        _refuse(_ENOSYS),
        *_branch(looked_into),
        *_tree(refused),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _refuse(errno: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | errno)


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)


def _equal(values: tuple[int, ...], then: Instruction) -> list[Instruction]:
    return [step for value in values for step in ((_IF_EQUAL, 0, 1, value), then)]


def _only(argument: int, allowed: tuple[int, ...], errno: int) -> list[Instruction]:
    return [(_LOAD, 0, 0, argument), *_equal(allowed, _allow()), _refuse(errno)]


def _branch(looked_into: dict[int, list[Instruction]]) -> list[Instruction]:
    """Look into the arguments of some calls; each body ends in a return."""
    return [step for number, body in looked_into.items() for step in ((_IF_EQUAL, 0, len(body), number), *body)]


def _tree(refused: list[int]) -> list[Instruction]:
    """Halve by call number down to a few, which share one refusal. A jump holds 8 bits, hence the long one."""
    if len(refused) <= _LEAF_SIZE:
        tests = [(_IF_EQUAL, len(refused) - place, 0, number) for place, number in enumerate(refused)]
        return [*tests, _allow(), _refuse(_EPERM)]
    middle = len(refused) // 2
    low, high = _tree(refused[:middle]), _tree(refused[middle:])
    return [(_IF_AT_LEAST, 0, 1, refused[middle]), (_JUMP, 0, 0, len(low)), *low, *high]
