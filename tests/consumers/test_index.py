import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers import index as module
from consumers.bounds import LogState
from consumers.index import Index, open_index, path_of
from consumers.index_rows import INDEXES, TABLES, place_of, split_place
from consumers.lookup import fetch_events
from schemas.errors import ConfigError, LogError
from schemas.events import Position
from tests.history import MemoryLog, policy, write_history


@pytest.fixture
def log(tmp_path: Path) -> MemoryLog:
    log = MemoryLog(tmp_path / "blobs")
    write_history(log.send_all)
    return log


def made(path: Path, log: MemoryLog) -> Index:
    index = Index(path)
    catch_up(index, log)
    return index


def catch_up(index: Index, log: MemoryLog, **options: Any) -> module.CaughtUp:
    return index.catch_up(log.open_reader, log.bounds, **options)  # type: ignore[arg-type]


def content(index: Index) -> dict[str, list[Any]]:
    tables = [*TABLES, "offsets"]
    return {table: sorted(index.ask(f"SELECT * FROM {table}"), key=repr) for table in tables}


def num_records(log: MemoryLog) -> int:
    return sum(map(len, log.records.values()))


def test_every_record_of_the_log_has_its_place(log: MemoryLog, tmp_path: Path) -> None:
    index = made(tmp_path / "i", log)
    for topic in ("tasks", "rollouts", "steps", "policies"):
        for event in log.events(topic):
            row = index.one("SELECT place, kind, cause FROM events WHERE id = ?", event.id)
            assert row is not None
            assert index.position(row[0]) == event.position
            assert row[2] == event.causation_id
    assert index.one("SELECT count(*) FROM events") == (num_records(log),)
    assert index.offsets == {at: end for at, (_, end) in log.bounds.items()}


def test_an_index_that_is_up_to_date_takes_nothing_twice(log: MemoryLog, tmp_path: Path) -> None:
    index = made(tmp_path / "i", log)
    before = content(index)
    changes = index.db.total_changes
    assert catch_up(index, log).num_events == 0
    assert content(index) == before
    assert index.db.total_changes == changes


def test_what_comes_later_is_added_and_gives_what_a_rebuild_gives(log: MemoryLog, tmp_path: Path) -> None:
    index = made(tmp_path / "i", log)
    write_history(log.send_all, run="second")
    assert catch_up(index, log).num_events == num_records(log) // 2
    assert content(index) == content(made(tmp_path / "j", log))


def indexes_of(index: Index) -> set[str]:
    return {name for (name,) in index.ask("SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOTNULL")}


def test_a_large_first_filling_has_its_indexes_at_its_end_and_a_killed_one_when_it_is_opened_again(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = made(tmp_path / "small", log)
    monkeypatch.setattr(module, "MANY", 10)
    monkeypatch.setattr(module, "CHUNK", 5)
    index, seen = Index(tmp_path / "i"), set[str]()
    assert indexes_of(index) == set(INDEXES)

    def look(_done: int, _total: int) -> None:
        seen.update(indexes_of(index) if index.offsets and _done < _total else ())

    catch_up(index, log, on_progress=look)
    assert seen == set()
    assert indexes_of(index) == set(INDEXES)
    assert content(index) == content(small)

    killed = Index(tmp_path / "k")

    def kill(done: int, _total: int) -> None:
        if done > 10:
            raise KilledError

    with pytest.raises(KilledError):
        catch_up(killed, log, on_progress=kill)
    assert indexes_of(killed) == set()
    killed.close()
    assert indexes_of(Index(tmp_path / "k")) == set(INDEXES)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("after", [1, 7, 8, 50])
def test_cut_short_anywhere_it_goes_on_to_the_same_index(
    log: MemoryLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(module, "CHUNK", 8)
    taken = 0

    def reader(*arguments: Any, **options: Any) -> Any:
        opened = log.open_reader(*arguments, **options)
        events = iter(opened)

        class CutShort:
            positions = opened.positions
            close = opened.close

            def __iter__(self) -> Any:
                nonlocal taken
                for event in events:
                    taken += 1
                    if taken == after:
                        raise KilledError
                    yield event

        return CutShort()

    index = Index(tmp_path / "i")
    with pytest.raises(KilledError):
        index.catch_up(reader, log.bounds)
    assert index.one("SELECT count(*) FROM events") == ((after - 1) // 8 * 8,)
    index.close()
    assert content(made(tmp_path / "i", log)) == content(made(tmp_path / "j", log))


KILLED_IN_A_TRANSACTION = """
import os, signal, sys
from pathlib import Path
from consumers import index
from tests.history import MemoryLog, write_history
log = MemoryLog(Path(sys.argv[1]) / "blobs")
write_history(log.send_all)
index.CHUNK = 16
found = index.Index(Path(sys.argv[1]) / "i")
add, num = found.add, 0
def die_late(event):
    global num
    num += 1
    if num == 40:
        found.db.execute("BEGIN IMMEDIATE")
        found.db.execute("INSERT INTO events (place, id) VALUES (1, 'half')")
        os.kill(os.getpid(), signal.SIGKILL)
    add(event)
found.add = die_late
found.catch_up(log.open_reader, log.bounds)
"""


def test_killed_within_a_transaction_it_has_all_before_and_nothing_of_it(log: MemoryLog, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED_IN_A_TRANSACTION, str(tmp_path)], check=False, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    index = Index(tmp_path / "i")
    assert index.one("SELECT count(*) FROM events WHERE id = 'half'") == (0,)
    assert index.one("SELECT count(*) FROM events") == (32,)
    catch_up(index, log)
    assert content(index) == content(made(tmp_path / "j", log))


def test_a_log_that_ends_earlier_is_another_log(log: MemoryLog, tmp_path: Path) -> None:
    index = made(tmp_path / "i", log)
    fresh = MemoryLog(tmp_path / "blobs")
    write_history(fresh.send_all, num_tasks=1)
    with pytest.raises(LogError, match=r"belongs to another log: .* the log ends at"):
        catch_up(index, fresh)


def test_another_id_at_a_known_position_is_another_log(log: MemoryLog, tmp_path: Path) -> None:
    index = made(tmp_path / "i", log)
    fresh = MemoryLog(tmp_path / "blobs")
    write_history(fresh.send_all, run="other", num_tasks=20)
    with pytest.raises(LogError, match=r"belongs to another log: it knows .* was there, now"):
        catch_up(index, fresh)


def test_a_known_record_that_is_gone_is_another_log(log: MemoryLog, tmp_path: Path) -> None:
    index = made(tmp_path / "i", log)
    last = log.events("steps")[-1]
    log.drop(last.position)
    with pytest.raises(LogError, match="another log"):
        index.catch_up(log.open_reader, {**log.bounds, ("steps", 0): (0, len(log.events("steps")) + 1)})  # type: ignore[arg-type]


def test_what_retention_removed_is_kept_and_not_missed(log: MemoryLog, tmp_path: Path) -> None:
    index = made(tmp_path / "i", log)
    before = index.one("SELECT count(*) FROM batches")
    bounds = {at: ((end, end) if at[0] == "batches" else (first, end)) for at, (first, end) in log.bounds.items()}
    index.catch_up(log.open_reader, bounds)  # type: ignore[arg-type]
    assert index.one("SELECT count(*) FROM batches") == before


def test_what_is_no_event_is_noted_and_compared_like_the_rest(log: MemoryLog, tmp_path: Path) -> None:
    last = log.events("policies")[-1]
    log.put(last.position, msgspec.structs.replace(log.raw(last.position), value=b"\xc1"))
    index = Index(tmp_path / "i")
    assert catch_up(index, log).num_undecodable == 1
    row = index.one("SELECT place, error FROM undecodable")
    assert row is not None
    assert index.position(row[0]) == last.position
    assert catch_up(index, log).num_undecodable == 0


def test_an_index_is_of_one_cluster_and_namespace(tmp_path: Path) -> None:
    paths = {path_of(tmp_path, cluster, name) for cluster in ("a", "b") for name in ("", "x.", "y.")}
    assert len(paths) == 6


def test_an_index_of_another_format_is_made_anew_and_a_torn_one_is_refused(log: MemoryLog, tmp_path: Path) -> None:
    state = LogState(cluster_id="c", bounds=log.bounds)
    index = open_index(tmp_path, state, "n.")
    catch_up(index, log)
    index.db.execute("PRAGMA user_version = 99")
    index.close()
    again = open_index(tmp_path, state, "n.")
    assert again.one("SELECT count(*) FROM events") == (0,)
    again.close()
    path_of(tmp_path, "c", "n.").write_bytes(b"no database at all" * 1000)
    with pytest.raises(ConfigError, match="rebuild"):
        open_index(tmp_path, state, "n.")
    assert open_index(tmp_path, state, "n.", rebuild=True).one("SELECT count(*) FROM events") == (0,)


@pytest.mark.parametrize("position", [(0, 0, 0), (13, 5, 1), (60, 65_535, (1 << 40) - 1)])
def test_a_place_and_its_position_are_the_same(position: tuple[int, int, int]) -> None:
    assert split_place(place_of(*position)) == position


def test_single_records_are_fetched_from_where_they_stand(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumers.lookup.GAP", 1)
    wanted = [event for topic in ("tasks", "rollouts", "steps") for event in log.events(topic)][::2]
    places = [event.position for event in wanted if event.position is not None]
    found = fetch_events(log.open_reader, places, log.bounds)  # type: ignore[arg-type]
    assert [found[place] for place in places] == wanted


def test_a_record_that_is_no_longer_there_is_left_out(log: MemoryLog) -> None:
    gone, kept = (event.position for event in log.events("tasks")[:2])
    assert gone is not None
    assert kept is not None
    log.drop(gone)
    assert set(fetch_events(log.open_reader, [gone, kept, Position("tasks", 0, 999)], log.bounds)) == {kept}  # type: ignore[arg-type]


def test_a_policy_of_another_name_is_told_apart(log: MemoryLog, tmp_path: Path) -> None:
    log.send(policy("golden", 77))
    index = made(tmp_path / "i", log)
    assert index.one("SELECT count(*) FROM policies WHERE version = 77") == (1,)
