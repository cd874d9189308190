"""The root file system: the same from the same host, built once, complete, and with nothing in it that gives rights."""

import os
import stat
from pathlib import Path

import pytest

from schemas.errors import SandboxError
from schemas.executions import Action
from streams.sandbox import rootfs_contents
from streams.sandbox.bubblewrap import BubblewrapSandbox
from streams.sandbox.rootfs import open_rootfs, tree_digest

MODULES = (
    "json ssl sqlite3 ctypes lzma bz2 zlib hashlib asyncio multiprocessing decimal unittest dataclasses statistics "
    "fractions random re typing csv datetime threading subprocess socket xml.etree.ElementTree uuid heapq itertools "
    "functools collections concurrent.futures tempfile pathlib"
)


def test_it_is_the_same_wherever_it_is_built(home: Path, tmp_path: Path) -> None:
    first, second = open_rootfs(home), open_rootfs(tmp_path)
    assert first.digest == second.digest == tree_digest(second.path)
    assert first.path != second.path


def test_it_is_built_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_rootfs(home)
    monkeypatch.setattr(rootfs_contents, "lay_out", lambda root: pytest.fail(f"built again in {root}"))
    assert open_rootfs(home) == first


def test_a_builder_that_died_leaves_nothing_that_is_used(home: Path) -> None:
    first = open_rootfs(home)
    torn = home / "sandbox" / "building-torn"
    torn.mkdir()
    assert open_rootfs(home) == first
    assert [path.name for path in first.path.parent.glob("rootfs-*") if path.is_dir()] == [f"rootfs-{first.digest}"]
    torn.rmdir()


def test_the_digest_hangs_on_names_contents_and_modes_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").symlink_to("a")
    before = tree_digest(tmp_path)
    os.utime(tmp_path / "a", (1, 1))
    assert tree_digest(tmp_path) == before
    (tmp_path / "a").chmod(0o755)
    assert tree_digest(tmp_path) != before


def test_nothing_in_it_gives_rights_or_may_be_written(home: Path) -> None:
    modes = {path: path.lstat().st_mode for path in open_rootfs(home).path.rglob("*")}
    files = {path: mode for path, mode in modes.items() if not stat.S_ISLNK(mode)}
    assert len(files) > 500
    assert [path for path, mode in files.items() if mode & 0o6022] == []
    assert [path for path, mode in files.items() if not mode & 0o004] == []


def test_nothing_in_it_tells_where_the_host_keeps_things(home: Path) -> None:
    root = open_rootfs(home).path
    compiled = next((root / "usr/local").rglob("__pycache__/statistics*.pyc")).read_bytes()
    assert b"/usr/local/lib" in compiled
    assert str(root).encode() not in compiled
    links = [path for path in root.rglob("*") if path.is_symlink()]
    assert links
    assert [path for path in links if os.readlink(path).startswith(str(root))] == []


def test_the_standard_library_and_the_tools_work(sandbox: BubblewrapSandbox) -> None:
    imports = "\n".join(f"import {name}" for name in MODULES.split())
    outcome = sandbox.run(Action(code=f"{imports}\nimport sys\nprint(sys.prefix, len(ssl.OPENSSL_VERSION) > 3)"))
    assert (outcome.stdout, outcome.stderr) == (b"/usr/local True\n", b"")
    line = "seq 3 | sort -r | tr '\\n' ' '; printf '%s' a | sha256sum | cut -c1-8; date +%Y | grep -c 20; whoami"
    outcome = sandbox.run(Action(kind="command", code=line))
    assert (outcome.stdout, outcome.stderr) == (b"3 2 1 ca978112\n1\njob\n", b"")


def test_a_host_without_a_shell_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rootfs_contents.shutil, "which", lambda *_, **__: None)
    with pytest.raises(SandboxError, match="no `sh`"):
        rootfs_contents.lay_out(tmp_path)
