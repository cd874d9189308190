from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.sandbox.inside.tree import MOST_ENTRIES, Entry, TooLargeError, lay, pack, read, unpack

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8
)
ENTRIES = st.one_of(
    st.builds(Entry, st.integers(0, 0o777), st.binary(max_size=40)),
    st.builds(Entry, st.just(0o777), st.none(), NAMES),
    st.builds(Entry, st.integers(0, 0o777)),
)


@given(st.dictionaries(NAMES.filter(lambda name: name not in {".", ".."}), ENTRIES, max_size=6))
def test_entries_come_back_whatever_they_hold_and_in_whatever_order_they_are_given(entries: dict[str, Entry]) -> None:
    tree = pack(entries)
    assert unpack(tree) == entries
    assert pack(dict(reversed(entries.items()))) == tree


@given(st.binary(max_size=200))
def test_bytes_that_are_no_directory_are_refused_and_nothing_else_happens(content: bytes) -> None:
    try:
        found = unpack(content)
    except ValueError:
        return
    assert all(".." not in path.split("/") and not path.startswith("/") for path in found)


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", ""])
def test_a_path_that_leads_out_is_refused_and_nothing_is_laid(path: str, tmp_path: Path) -> None:
    tree = pack({path: Entry(0o644, b"x")})
    with pytest.raises(ValueError, match="working directory"):
        lay(tree, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_not_laid_through_a_link(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    twice = pack({"a": Entry(0o777, target=str(outside / "x"))}) + pack({"a": Entry(0o644, b"x")})
    with pytest.raises(FileExistsError):
        lay(twice, str(root))
    assert list(outside.iterdir()) == []


def test_what_is_laid_is_read_again(tmp_path: Path) -> None:
    tree = pack(
        {"d": Entry(0o755), "d/f": Entry(0o640, b"1"), "d-x": Entry(0o600, b""), "l": Entry(0o777, target="d/f")}
    )
    lay(tree, str(tmp_path))
    assert read(str(tmp_path), 10_000) == tree
    with pytest.raises(TooLargeError):
        read(str(tmp_path), len(tree) - 1)
    assert read(str(tmp_path), len(tree)) == tree


def test_a_directory_of_very_many_empty_files_is_too_large_however_few_its_bytes(tmp_path: Path) -> None:
    for number in range(MOST_ENTRIES):
        (tmp_path / str(number)).touch()
    assert len(unpack(read(str(tmp_path), 1 << 20))) == MOST_ENTRIES
    (tmp_path / "one more").mkdir()
    with pytest.raises(TooLargeError, match="files and folders"):
        read(str(tmp_path), 1 << 20)
