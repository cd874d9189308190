"""Finding a place for groups: both versions, as /proc tells of them, and what is set there."""

from pathlib import Path

import pytest

from streams.sandbox.cgroups import SlotCgroup, find_parent, remove_groups


def make_proc(folder: Path, mounts: list[tuple[str, str, Path, str]], own: str) -> Path:
    """Write a `/proc/self` with these mounts (root, kind, mount point, options)."""
    proc = folder / "proc"
    proc.mkdir()
    lines = [
        f"31 23 0:28 {root} {point} rw,relatime - {kind} {kind} {options}" for root, kind, point, options in mounts
    ]
    (proc / "mountinfo").write_text("\n".join(lines))
    (proc / "cgroup").write_text(own)
    return proc


def delegate(path: Path, controllers: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.subtree_control").write_text(controllers)
    (path / "cgroup.procs").write_text("")


@pytest.fixture(autouse=True)
def kernel_makes_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do as the kernel does: a new group comes with its files, and is removed although it has some."""
    make, remove = Path.mkdir, Path.rmdir

    def mkdir(self: Path, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        make(self, mode, parents, exist_ok)
        if self.name.startswith("rollog-"):
            for name in ("cgroup.procs", "pids.max", "memory.max", "memory.swap.max", "memory.limit_in_bytes"):
                (self / name).write_text("")
            (self / "memory.limit_in_bytes").write_text("9223372036854771712")
            for name in ("memory.current", "memory.usage_in_bytes", "pids.current"):
                (self / name).write_text("3")
            (self / "memory.events").write_text("low 0\noom 2\noom_kill 2\noom_group_kill 0\n")
            (self / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")

    def rmdir(self: Path) -> None:
        if self.name.startswith("rollog-"):
            for path in self.iterdir():
                path.unlink()
        remove(self)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)


def test_version_2_takes_the_nearest_group_that_gives_both_controllers_on(tmp_path: Path) -> None:
    top = tmp_path / "fs"
    delegate(top / "user.slice", "cpu memory pids")
    delegate(top / "user.slice/app.slice", "memory pids")
    delegate(top / "user.slice/app.slice/own.scope", "")
    proc = make_proc(tmp_path, [("/", "cgroup2", top, "rw")], "0::/user.slice/app.slice/own.scope\n")
    parent = find_parent(proc)
    assert parent is not None
    assert (parent.version, parent.memory, parent.pids) == (
        2,
        top / "user.slice/app.slice",
        top / "user.slice/app.slice",
    )


def test_a_group_that_gives_nothing_on_is_no_place(tmp_path: Path) -> None:
    top = tmp_path / "fs"
    delegate(top / "own.scope", "cpu")
    proc = make_proc(tmp_path, [("/", "cgroup2", top, "rw")], "0::/own.scope\n")
    assert find_parent(proc) is None


def test_a_containers_view_is_relative_to_its_root(tmp_path: Path) -> None:
    memory, pids = tmp_path / "memory", tmp_path / "pids"
    for path in (memory / "inner", pids):
        path.mkdir(parents=True)
        (path / "cgroup.procs").write_text("")
    mounts = [("/docker/c1", "cgroup", memory, "rw,memory"), ("/docker/c1", "cgroup", pids, "rw,pids")]
    proc = make_proc(tmp_path, mounts, "4:memory:/docker/c1/inner\n8:pids:/docker/c1\n1:cpu:/\n0::/\n")
    parent = find_parent(proc)
    assert parent is not None
    assert (parent.version, parent.memory, parent.pids) == (1, memory / "inner", pids)


def test_a_host_without_groups_has_no_place(tmp_path: Path) -> None:
    assert find_parent(make_proc(tmp_path, [], "0::/\n")) is None


@pytest.mark.parametrize("version", [1, 2])
def test_limits_come_on_top_of_the_fork_servers_own(version: int, tmp_path: Path) -> None:
    top = tmp_path / "fs"
    delegate(top, "memory pids")
    if version == 2:
        proc = make_proc(tmp_path, [("/", "cgroup2", top, "rw")], "0::/\n")
    else:
        proc = make_proc(tmp_path, [("/", "cgroup", top, "rw,memory,pids")], "1:memory,pids:/\n")
    parent = find_parent(proc)
    assert parent is not None
    group = SlotCgroup(parent, "pool", 7)
    folder = top / "rollog-pool-7"
    assert group.procs_files == [str(folder / "cgroup.procs")]
    group.measure_base()
    group.limit(1 << 20, 10)
    set_bytes = int((folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")).read_text())
    assert 1 << 20 < set_bytes <= (1 << 20) + (8 << 20)
    assert int((folder / "pids.max").read_text()) == 10 + 3 + 1
    assert group.num_oom_kills() == (2 if version == 2 else 5)
    (folder / "pids.max").write_text("untouched")
    group.limit(1 << 20, 10)
    assert (folder / "pids.max").read_text() == "untouched"
    group.close()
    assert not folder.exists()


def test_a_sweep_takes_one_pools_groups_only(tmp_path: Path) -> None:
    top = tmp_path / "fs"
    delegate(top, "memory pids")
    parent = find_parent(make_proc(tmp_path, [("/", "cgroup2", top, "rw")], "0::/\n"))
    assert parent is not None
    for pool in ("gone", "alive"):
        SlotCgroup(parent, pool, 0)
    remove_groups(parent, "gone")
    assert [path.name for path in top.glob("rollog-*")] == ["rollog-alive-0"]
