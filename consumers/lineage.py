"""The whole chain of one fact: what led to it, and what came of it, as a tree of plain values.

Positions come from the index, the records themselves from the log at those positions; one that retention removed is
said to be gone.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from consumers.bounds import Bounds
from consumers.feed import OpenReader
from consumers.index import Index
from consumers.lineage_trees import end_tree, policy_tree, rollout_tree, step_tree, task_tree
from consumers.lookup import fetch_events
from schemas.batches import Batch
from schemas.decisions import Decision
from schemas.events import Event, Position
from schemas.trajectory import Trajectory, fold

Tree = dict[str, Any]
MOST_SHOWN = 20
"""Descendants, batches and evaluations that are listed; all are counted."""
STEP_NAMES = (
    "run",
    "step",
    "policy",
    "policy_version_in",
    "policy_version_out",
    "weights_digest_in",
    "weights_digest_out",
    "restored_from",
)
DRAWN = (
    "FROM drawn d WHERE policy = ?1 AND high >= ?2 AND low <= ?2 "
    "AND EXISTS (SELECT 1 FROM tasks t WHERE t.task = d.task AND t.run = ?3)"
)
LATER = """
    WITH RECURSIVE later(version) AS (
        SELECT ?3
        UNION SELECT s.version_out FROM steps s JOIN later l ON coalesce(s.restored, s.version_in) = l.version
        WHERE s.run = ?1 AND s.policy = ?2
    ) SELECT DISTINCT version FROM policies WHERE run = ?1 AND policy = ?2 AND version IN later ORDER BY version
"""


class Lineage:
    """Asks index and log. `bounds` are those that the index was brought up to."""

    def __init__(self, index: Index, open_reader: OpenReader, bounds: Bounds) -> None:
        self._index, self._open_reader, self._bounds = index, open_reader, bounds

    def of_task(self, task: str, *, sample: int | None = None, reward_place: int | None = None) -> Tree:
        """Return a task's chain, or that of one sample, or of one of its rewards. Raises LogError."""
        # That no task is empty is what lets the index on tasks, which leaves the empty ones out, be used.
        query = (
            "SELECT place FROM events WHERE task = ?1 AND task != '' AND (?2 IS NULL OR sample IS NULL OR sample = ?2)"
        )
        positions = sorted(self._index.position(row[0]) for row in self._index.ask(query, task, sample))
        found = self._fetch(positions)
        events = list(found.values())
        group = fold(events)
        ends = list({event.id: event for event in events if isinstance(event.record, Batch | Decision)}.values())
        batches = [event.record for event in ends if isinstance(event.record, Batch)]
        batches.sort(key=lambda batch: not batch.is_rebuilt)  # stable: the task's own, where there is one, has its say
        advantages = {row.sample: float(row.advantage) for batch in batches for row in batch.rows}
        chosen = [sample] if sample is not None else sorted(group.samples)
        issued = group.tasks.get(None)
        wanted = None if reward_place is None else self._index.position(reward_place)
        steps = [step for event in ends for step in self.steps_of(event.id)]
        run = issued.record.run_id if issued else ""
        return {
            "task": task_tree(issued) if issued else {"task_id": task, "missing": "the task itself is not on the log"},
            "rollouts": [
                rollout_tree(task, number, group.sample(number), advantages.get(number), only_reward=wanted)
                for number in chosen
            ],
            "ends": [end_tree(event) for event in sorted(ends, key=lambda event: event.time_s)],
            "steps": steps,
            "policies": self.policies_of(run, [group.sample(number) for number in chosen]),
            "descendants": self.descendants([(s["run"], s["policy"], s["policy_version_out"]) for s in steps]),
            "gone": [str(where) for where in positions if where not in found],
        }

    def of_step(self, place: int) -> Tree:
        """Return a step's chain. Raises LogError."""
        row = self._index.one("SELECT run, step, policy, version_in, version_out FROM steps WHERE place = ?", place)
        assert row is not None
        run, step, policy, version_in, version_out = row
        where = self._index.position(place)
        event = self._fetch([where]).get(where)
        return {
            "step": step_tree(event) if event else {"run": run, "step": step, "gone": str(where)},
            "policy_in": self.version_tree(run, policy, version_in),
            "batches": self.batches_of(place),
            "policy_out": self.version_tree(run, policy, version_out),
            "evals": self.evals_of(run, policy, version_out),
            "descendants": self.descendants([(run, policy, version_out)]),
        }

    def of_policy(self, place: int) -> Tree:
        """Return a policy version's chain. Raises LogError."""
        row = self._index.one("SELECT run, policy, version, parent FROM policies WHERE place = ?", place)
        assert row is not None
        run, policy, version, parent = row
        where = self._index.position(place)
        event = self._fetch([where]).get(where)
        query = "SELECT place FROM steps WHERE run = ? AND policy = ? AND version_out = ? ORDER BY place"
        made_by = self._index.one(query, run, policy, version)
        return {
            "policy": policy_tree(event) if event else {"policy": policy, "version": version, "gone": str(where)},
            "parent": self.version_tree(run, policy, parent) if parent is not None else None,
            "made_by": self.brief_step(made_by[0]) if made_by else None,
            "batches": self.batches_of(made_by[0]) if made_by else counted([], 0),
            "drew": self.drawn_by(run, policy, version),
            "evals": self.evals_of(run, policy, version),
            "descendants": self.descendants([(run, policy, version)]),
        }

    def steps_of(self, batch_id: str) -> list[Tree]:
        """Return the steps that trained on a batch."""
        query = "SELECT DISTINCT step_place FROM trained WHERE batch = ? ORDER BY step_place"
        return [self.brief_step(row[0]) for row in self._index.ask(query, batch_id)]

    def brief_step(self, place: int) -> Tree:
        """Return what the index knows of a step."""
        row = self._index.one(
            "SELECT run, step, policy, version_in, version_out, weights_in, weights_out, restored FROM steps "
            "WHERE place = ?",
            place,
        )
        return {**dict(zip(STEP_NAMES, row or (), strict=True)), "position": str(self._index.position(place))}

    def batches_of(self, step_place: int) -> Tree:
        """Return the batches of a step, and whether what stands there now is what it trained on."""
        query = (
            "SELECT batch, batch_place, t.digest, b.task, b.digest FROM trained t LEFT JOIN batches b "
            "ON b.place = t.batch_place WHERE t.step_place = ? ORDER BY t.number"
        )
        rows = list(self._index.ask(query, step_place))
        shown = [
            {
                "batch_id": batch,
                "position": str(self._index.position(place)),
                "task_id": task,
                "digest": digest,
                "is_unchanged": None if there is None else there == digest,
            }
            for batch, place, digest, task, there in rows
        ]
        return counted(shown, len(rows))

    def version_tree(self, run: str, policy: str, version: int) -> Tree:
        """Return what the index knows of a policy version."""
        row = self._index.one(
            "SELECT place, digest FROM policies WHERE run = ? AND policy = ? AND version = ?", run, policy, version
        )
        found = {"position": str(self._index.position(row[0])), "digest": row[1]} if row else {"position": None}
        return {"run": run, "policy": policy, "version": version, **found}

    def policies_of(self, run: str, samples: Sequence[Trajectory]) -> list[Tree]:
        """Return the policy versions that drew the tokens of these samples."""
        drawn = {
            (turn.record.policy, int(version))
            for trajectory in samples
            for turn in trajectory.turns.values()
            for version in turn.record.versions.unpack()
        }
        return [self.version_tree(run, policy, version) for policy, version in sorted(drawn)]

    def drawn_by(self, run: str, policy: str, version: int) -> Tree:
        """Return the tasks of the run of which a version drew tokens."""
        values = (policy, version, run)
        num_turns, num_tasks = self._index.one(f"SELECT count(*), count(DISTINCT task) {DRAWN}", *values) or (0, 0)
        shown = [row[0] for row in self._index.ask(f"SELECT DISTINCT task {DRAWN} LIMIT {MOST_SHOWN}", *values)]
        return {"num_turns": num_turns, **counted(shown, num_tasks)}

    def evals_of(self, run: str, policy: str, version: int) -> list[Tree]:
        """Return the held-out results of a version."""
        query = "SELECT place FROM evals WHERE policy = ? AND version = ? AND run = ? ORDER BY domain LIMIT ?"
        positions = [self._index.position(row[0]) for row in self._index.ask(query, policy, version, run, MOST_SHOWN)]
        return [
            {"position": str(where), **msgspec.to_builtins(event.record)}
            for where, event in self._fetch(positions).items()
        ]

    def descendants(self, versions: Sequence[tuple[str, str, int]]) -> list[Tree]:
        """Return, by run and policy, the published versions that have one of these in their past or are it."""
        firsts: dict[tuple[str, str], set[int]] = {}
        for run, policy, version in versions:
            firsts.setdefault((run, policy), set()).add(version)
        found = []
        for (run, policy), starts in firsts.items():
            # From each: what went back in between is in the past of none that came after.
            later = sorted({row[0] for first in starts for row in self._index.ask(LATER, run, policy, first)})
            found.append({"run": run, "policy": policy, "from": min(starts), **counted(later, len(later))})
        return found

    def _fetch(self, positions: Sequence[Position]) -> dict[Position, Event[Any]]:
        return fetch_events(self._open_reader, positions, self._bounds) if positions else {}


def counted(shown: list[Any], count: int) -> Tree:
    """Return a list that may be cut short, with how many there are."""
    return {"count": count, "shown": shown[:MOST_SHOWN]}
