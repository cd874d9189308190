"""The few system calls that Python 3.11 does not offer, by ctypes. All are called from single-threaded processes."""

import ctypes
import os

_libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL: the lock stays held, which a raw clone of this thread must not lose
_libc.prctl.argtypes = (ctypes.c_int, *([ctypes.c_ulong] * 4))
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.syscall.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_libc.syscall.restype = ctypes.c_long

_CLONE = {"x86_64": 56, "aarch64": 220}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_CAPSET = {"x86_64": 126, "aarch64": 91}
_MACHINE = os.uname().machine

NEW_NAMESPACES = 0x20000000 | 0x00020000 | 0x08000000 | 0x04000000
"""CLONE_NEWPID, NEWNS, NEWIPC and NEWUTS."""
_PIDFD = 0x1000
_SIGCHLD = 17
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_SET_THP_DISABLE = 1, 4, 38, 41
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_SPEC_ALLOW = 1, 4
_OPENAT2 = 437
_AT_FDCWD, _RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH = -100, 2, 8
_CAP_VERSION_3 = 0x20080522


class _Program(ctypes.Structure):
    _fields_ = (("num_instructions", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


_pidfd = ctypes.c_int()
_no_caps_header = (ctypes.c_uint32 * 2)(_CAP_VERSION_3, 0)
_no_caps = (ctypes.c_uint32 * 6)()


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def clone_into_new_namespaces() -> tuple[int, int]:
    """Fork, as process 1 of new pid, mount, ipc and uts namespaces: `(pid, pidfd)` in the parent, `(0, -1)` in the child."""
    flags = NEW_NAMESPACES | _PIDFD | _SIGCHLD
    pid = _checked(_libc.syscall(_CLONE[_MACHINE], flags, None, ctypes.byref(_pidfd)), "clone")
    return (pid, _pidfd.value) if pid else (0, -1)


def mount_tmpfs(path: bytes, size_bytes: int, num_inodes: int) -> None:
    """A fresh file system in memory; `size=0` would mean no limit."""
    options = b"size=%d,nr_inodes=%d,mode=755" % (max(size_bytes, 4096), num_inodes)
    _checked(_libc.mount(b"tmpfs", path, b"tmpfs", _MS_NOSUID | _MS_NODEV, options), "mount tmpfs")


def mount_proc() -> None:
    """A `/proc` of this process namespace. Read-only, so that nobody lowers their `oom_score_adj`."""
    flags = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _checked(_libc.mount(b"proc", b"/proc", b"proc", flags, None), "mount proc")


def die_with_parent() -> None:
    """SIGKILL for this process once its parent's thread is gone."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl PDEATHSIG")


def set_dumpable(value: bool) -> None:
    """Whether a process of the same user may look into this one (`/proc/PID/mem`, `environ`, ptrace)."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, int(value), 0, 0, 0), "prctl DUMPABLE")


def disable_huge_pages() -> None:
    """A fork that then writes one byte must not copy two megabytes."""
    _checked(_libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0), "prctl THP_DISABLE")


def drop_capabilities() -> None:
    """No capability in any set, for good: the new user is not 0, so no exec brings one back."""
    _checked(_libc.syscall(_CAPSET[_MACHINE], _no_caps_header, _no_caps, None), "capset")


def no_new_privileges() -> None:
    """What a seccomp filter without CAP_SYS_ADMIN asks for."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl NO_NEW_PRIVS")


def open_beneath(path: str, flags: int) -> int:
    """Open below the working directory: no `..` out of it, no absolute link, no link of `/proc`. What it creates has mode 644."""
    how = (ctypes.c_uint64 * 3)(flags, 0o644 if flags & os.O_CREAT else 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    size = ctypes.c_void_p(ctypes.sizeof(how))
    return _checked(_libc.syscall(_OPENAT2, ctypes.c_void_p(_AT_FDCWD), path.encode(), how, size), path)


class Filter:
    """A seccomp program in the kernel's layout, ready to install in a child."""

    def __init__(self, instructions: bytes) -> None:
        self._program = _Program(len(instructions) // 8, instructions)

    def install(self) -> None:
        """Bind this process and all that it starts; needs `no_new_privileges` first."""
        program = ctypes.byref(self._program)
        result = _libc.syscall(_SECCOMP[_MACHINE], _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_SPEC_ALLOW, program)
        _checked(result, "seccomp")
