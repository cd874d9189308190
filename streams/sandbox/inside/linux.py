"""The few system calls that Python 3.11 does not offer, by ctypes. All are called from single-threaded processes."""

import ctypes
import os

_libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL: the lock stays held, which a raw clone of this thread must not lose
_libc.prctl.argtypes = (ctypes.c_int, *([ctypes.c_ulong] * 4))
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.syscall.argtypes = (ctypes.c_long, *([ctypes.c_void_p] * 5))
_libc.syscall.restype = ctypes.c_long
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.mmap.restype = ctypes.c_void_p
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

_CLONE = {"x86_64": 56, "aarch64": 220}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_MACHINE = os.uname().machine

NEW_NAMESPACES = 0x20000000 | 0x00020000 | 0x08000000 | 0x04000000
"""CLONE_NEWPID, NEWNS, NEWIPC and NEWUTS."""
_PIDFD = 0x1000
_CHILD_CLEARTID, _CHILD_SETTID = 0x00200000, 0x01000000
_SIGCHLD = 17
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_GET_TID_ADDRESS, _PR_SET_THP_DISABLE = 1, 4, 38, 40, 41
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
SIGKILL = 9
RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_CORE, RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_AS = 0, 1, 4, 6, 7, 9
_PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, _MADV_DONTFORK = 3, 0x22, 10
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_SPEC_ALLOW = 1, 4
_OPENAT2 = 437
_AT_FDCWD, _RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = -100, 2, 8
_CAP_VERSION_3 = 0x20080522


class _Program(ctypes.Structure):
    _fields_ = (("num_instructions", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


_pidfd = ctypes.c_int()
_tid_address = ctypes.c_void_p()
if _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.addressof(_tid_address), 0, 0, 0):
    _tid_address.value = None
_no_caps_header = (ctypes.c_uint32 * 2)(_CAP_VERSION_3, 0)
_no_caps = (ctypes.c_uint32 * 6)()


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def clone_into_new_namespaces() -> tuple[int, int]:
    """Fork as process 1 of new namespaces (pid, mount, ipc, uts): `(pid, pidfd)`, in the child `(0, -1)`."""
    pid = _clone(NEW_NAMESPACES | _PIDFD)
    return (pid, _pidfd.value) if pid else (0, -1)


def fork() -> int:
    """Fork without what libc and Python do for processes with threads, which costs as much as a tenth of a job.

    Only for a child that lives on in this one thread's state. Where the kernel does not tell where libc
    keeps the thread's id, an ordinary fork.
    """
    return _clone(0) if _tid_address.value else os.fork()


def _clone(flags: int) -> int:
    """Like libc's own fork, the kernel writes the child's id to where libc keeps it."""
    keep_tid = _CHILD_SETTID | _CHILD_CLEARTID if _tid_address.value else 0
    tid = _tid_address.value or 0
    child_tid, tls = (tid, 0) if _MACHINE == "x86_64" else (0, tid)
    return _checked(
        _libc.syscall(_CLONE[_MACHINE], flags | keep_tid | _SIGCHLD, None, ctypes.byref(_pidfd), child_tid, tls),
        "clone",
    )


def mount_tmpfs(path: bytes, size_bytes: int, num_inodes: int) -> None:
    """Mount a fresh file system in memory; `size=0` would mean no limit."""
    options = b"size=%d,nr_inodes=%d,mode=755" % (max(size_bytes, 4096), num_inodes)
    _checked(_libc.mount(b"tmpfs", path, b"tmpfs", _MS_NOSUID | _MS_NODEV, options), "mount tmpfs")


def mount_proc() -> None:
    """Mount a `/proc` of this process namespace. Read-only, so that nobody lowers their `oom_score_adj`."""
    flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _checked(_libc.mount(b"proc", b"/proc", b"proc", flags, None), "mount proc")


def die_with_parent() -> None:
    """Have this process killed once its parent's thread is gone."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl PDEATHSIG")


def set_dumpable(value: bool) -> None:
    """Set whether a process of the same user may look into this one (`/proc/PID/mem`, `environ`, ptrace)."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, int(value), 0, 0, 0), "prctl DUMPABLE")


def disable_huge_pages() -> None:
    """See to it that a fork that then writes one byte does not copy two megabytes."""
    _checked(_libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0), "prctl THP_DISABLE")


def drop_capabilities() -> None:
    """Have no capability in any set, for good: the user is not 0, so no exec brings one back."""
    _checked(_libc.syscall(_CAPSET[_MACHINE], _no_caps_header, _no_caps, None, None, None), "capset")


def no_new_privileges() -> None:
    """Give up set-user-id programs, which a seccomp filter without CAP_SYS_ADMIN asks for."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl NO_NEW_PRIVS")


def open_beneath(path: str, flags: int) -> int:
    """Open below the working directory: no `..` out of it, no absolute link, no link of `/proc`. Creates 0644."""
    how = (ctypes.c_uint64 * 3)(flags, 0o644 if flags & os.O_CREAT else 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    return _checked(_libc.syscall(_OPENAT2, _AT_FDCWD, path.encode(), how, ctypes.sizeof(how), None), path)


def set_limit(number: int, soft: int, hard: int) -> None:
    """Set a resource limit of this process, by its `RLIMIT_` number."""
    _checked(_libc.setrlimit(number, ctypes.byref((ctypes.c_uint64 * 2)(soft, hard))), "setrlimit")


def private_memory(num_bytes: int) -> memoryview:
    """Map zeroed memory, never given back, that a forked child does not have."""
    address = _libc.mmap(None, num_bytes, _PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS, -1, 0)
    if address == ctypes.c_void_p(-1).value:
        raise MemoryError
    _checked(_libc.madvise(address, num_bytes, _MADV_DONTFORK), "madvise")
    return memoryview((ctypes.c_char * num_bytes).from_address(address)).cast("B")


class Filter:
    """A seccomp program in the kernel's layout, ready to install in a child."""

    def __init__(self, instructions: bytes) -> None:
        self._program = _Program(len(instructions) // 8, instructions)

    def install(self) -> None:
        """Bind this process and all that it starts; needs `no_new_privileges` first."""
        program = ctypes.byref(self._program)
        result = _libc.syscall(
            _SECCOMP[_MACHINE], _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_SPEC_ALLOW, program, None, None
        )
        _checked(result, "seccomp")
