"""A fork, planned and made: what the verb `fork` does, in an order that a kill anywhere leaves to be gone on with.

1. The source's end offsets are captured and its groups counted; nothing is written. 2. The fork's topics are created.
3. The command that says what the fork is goes first on its log; whoever comes back reads it and goes by it. With a
scoring of its own comes the command to use that for the tasks that it will issue. 4. The checkpoint is copied. 5. The
batches are written that are not there yet. 6. The settings are saved.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from consumers.commands import read_recalls
from consumers.history.ranges import Range, Span, find_range
from consumers.history.reader import TOPICS
from consumers.reader import Reader
from consumers.recorded import read_fork
from learner.forking import copy_checkpoint, source_checkpoint
from producers.publisher import Publisher
from rollog.following import check_follows
from rollog.options import Invocation
from rollog.rescoring import find_scoring, rewards_since
from rollog.resolve import save
from rollog.topics import describe_topics
from rollog.up import prepare_topics
from schemas.commands import CommandGiven
from schemas.config import Settings, check, lay_flag
from schemas.errors import ConfigError, LogError
from schemas.events import Event
from schemas.forks import Fork, fork_command, fork_id
from schemas.ids import digest_of
from schemas.objectives import Objective
from schemas.scorings import LIVE
from schemas.uses import Use, command_of, use_id
from streams.assembler import read_context_tokens
from streams.forking import Forking, Numbers, Sifted, num_kept, number, seed, sift
from streams.rescoring.declared import declaration, read_declared

OnProgress = Callable[[int, int], None]
Tree = dict[str, Any]
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    step: int
    run_id: str
    objective: str = "topr"
    """A type's name, or the whole as JSON."""
    scoring: str = ""
    """Empty is what the source trained on; `live` is what each task was issued under."""
    mix: str = ""
    num_steps: int = 0
    """At most; 0 is as many as there are batches for."""
    flags: tuple[str, ...] = ()
    again: bool = False


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A fork that can be made."""

    settings: Settings
    fork: Fork
    forking: Forking
    sifted: Sifted
    numbers: Numbers
    is_begun: bool
    """Whether its command is on its log already."""

    @property
    def num_steps(self) -> int:
        """Return how many steps it will train."""
        return self.settings.learner.steps - self.fork.step

    @property
    def num_left(self) -> int:
        """Return how many batches no step takes."""
        return self.fork.num_batches - self.num_steps * self.settings.learner.groups_per_step

    @property
    def kept(self) -> dict[str, int]:
        """Return the batches that are trained on, by domain."""
        counts: Counter[str] = Counter()
        for partition, codes in self.sifted.codes.items():
            counts.update(
                self.sifted.domains[code]
                for code, place in zip(codes, self.numbers[partition], strict=True)
                if place >= 0
            )
        return dict(sorted(counts.items()))


def plan_fork(source: Invocation, wanted: Wanted, on_progress: OnProgress) -> Planned:
    """Return what would be made, or goes on being made. Raises ConfigError, CheckpointError, LogError."""
    of_source = source.settings
    settings = fork_settings(of_source, wanted)
    root = source.run_dir / "checkpoints"
    state = source_checkpoint(root, of_source.run, wanted.step)
    open_reader = partial(Reader, settings.log, blob_dir=source.blob_dir)
    begun = read_fork(open_reader, wanted.run_id) if is_there(settings) else None
    if begun is None and (source.home / "runs" / wanted.run_id / "checkpoints").exists():
        raise ConfigError(f"--as {wanted.run_id}: there is a run of that name, which is no fork; choose another")
    range_ = captured(of_source, begun)
    recalls = read_recalls(
        partial(Reader, of_source.log, blob_dir=source.blob_dir), end=None if begun is None else begun.commands_end
    )
    forking = msgspec.structs.replace(forking_of(source, wanted, settings, range_), recalls=recalls)
    total = range_.num_records(range_.partitions)
    sifted = sift(forking, partial(tell, on_progress, [0], total))
    numbers = number(sifted, forking.mix)
    fork = Fork(
        run_id=wanted.run_id,
        source_run=of_source.run,
        source_namespace=of_source.log.namespace,
        step=wanted.step,
        source_policy=state.policy,
        digests=state.digests,
        scoring_id=LIVE if forking.scoring is None else forking.scoring.scoring_id,
        mix=forking.mix,
        again=wanted.again,
        ends={f"{topic}[{partition}]": end for (topic, partition), end in sorted(range_.ends.items())},
        num_batches=num_kept(numbers),
        config_digest=config_digest(settings),
        commands_end=recalls.end,
    )
    check_same(begun, fork)
    possible = fork.num_batches // settings.learner.groups_per_step
    num_steps = min(possible, wanted.num_steps) if wanted.num_steps else possible
    learner = msgspec.structs.replace(settings.learner, steps=wanted.step + num_steps)
    return Planned(
        settings=msgspec.structs.replace(settings, learner=learner),
        fork=fork,
        forking=forking,
        sifted=sifted,
        numbers=numbers,
        is_begun=begun is not None,
    )


def tell(on_progress: OnProgress, done: list[int], total: int, num: int) -> None:
    """Add to what is done and pass it on."""
    done[0] += num
    on_progress(done[0], total)


def fork_settings(source: Settings, wanted: Wanted) -> Settings:
    """Return the source's settings as the fork has them; how many steps there are is not known yet.

    Raises ConfigError.
    """
    if not RUN_NAME.fullmatch(wanted.run_id) or wanted.run_id == source.run:
        raise ConfigError(
            f"--as {wanted.run_id!r}: it names a run, its topics and its policy; wanted letters, digits, _ and -, and "
            f"not {source.run!r} again"
        )
    tree: Tree = msgspec.to_builtins(source)
    tree["run"], tree["policy"]["name"] = wanted.run_id, wanted.run_id
    tree["log"]["namespace"] = f"{wanted.run_id}."
    tree["learner"] |= {"scoring": LIVE, "offline": False, "objective": objective_of(wanted.objective)}
    mix = parse_mix(wanted.mix, source)
    if mix:
        tree["tasks"]["domains"] = mix
        chosen = tree["tasks"]["verifiers"]
        tree["tasks"]["verifiers"] = {name: chosen[name] for name in chosen if name in {*mix, "*"}}
    for flag in wanted.flags:
        tree = lay_flag(tree, flag)
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"settings of the fork: {error}; `rollog config` shows every field") from error
    own = (settings.run, settings.log.namespace, settings.policy.name)
    if own != (wanted.run_id, f"{wanted.run_id}.", wanted.run_id) or settings.seed != source.seed:
        raise ConfigError(
            "--set run, log.namespace, policy.name or seed: the first three follow from --as, and the seed decides the "
            "held-out questions, by which the fork is compared with its source"
        )
    check(settings)
    return settings


def objective_of(text: str) -> Tree:
    """Return the objective as a tree. Raises ConfigError."""
    try:
        tree = json.loads(text) if text.lstrip().startswith("{") else {"type": text}
        return dict(msgspec.to_builtins(msgspec.convert(tree, Objective)))
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigError(
            f"--objective {text!r}: {error}; wanted cispo, grpo, decoupled_ppo, topr or m2po, or JSON with its "
            'settings: {"type": "m2po", "tau": 0.04}'
        ) from error


def parse_mix(text: str, source: Settings) -> dict[str, float]:
    """Return weight by domain of `verbs=1,repair=0`; nothing for no text. Raises ConfigError."""
    mix: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        domain, _, weight = part.partition("=")
        try:
            mix[domain] = float(weight)
        except ValueError:
            mix[domain] = -1.0
        if domain not in source.tasks.domains or not 0 <= mix[domain] < float("inf"):
            known = ", ".join(source.tasks.domains)
            raise ConfigError(f"--mix {part!r}: wanted DOMAIN=WEIGHT, a weight of 0 or more and one of {known}")
    if mix and not sum(mix.values()) > 0:
        raise ConfigError(f"--mix {text!r}: all weights are 0; wanted one domain with more")
    return mix


def is_there(settings: Settings) -> bool:
    """Return whether the fork's log has been begun."""
    return all(state.partitions for state in describe_topics(settings.log))


def captured(source: Settings, begun: Fork | None) -> Range:
    """Return the part of the source's log that is asked: up to now, or to where it was begun. Raises LogError."""
    found = find_range(source.log, TOPICS, Span())
    if begun is None:
        return found
    ends = {at: begun.ends.get(f"{at[0]}[{at[1]}]", 0) for at in found.ends}
    if any(end > found.ends[at] for at, end in ends.items()):
        raise LogError(
            f"the log of {source.run!r} ends before where it ended when the fork was begun: it is another log"
        )
    return msgspec.structs.replace(found, ends=ends)


def forking_of(source: Invocation, wanted: Wanted, settings: Settings, range_: Range) -> Forking:
    """Return how groups are assembled. Raises ConfigError where the scoring cannot be trained on."""
    of_source, log = source.settings, source.settings.log
    scoring_id = wanted.scoring or of_source.learner.scoring
    scoring, known_from = None, {}
    if scoring_id != LIVE:
        declared = read_declared(log, blob_dir=source.blob_dir)
        scoring = find_scoring(declared, scoring_id)
        if declared[scoring_id].fills:
            raise ConfigError(
                f"--scoring {scoring_id!r}: it only fills what is invalid in {declared[scoring_id].fills!r}; wanted "
                "one that scores whole groups"
            )
        known_from = rewards_since(log, range_, declared[scoring_id].since_s)
    return Forking(
        log=log,
        blob_dir=source.blob_dir,
        range=range_,
        source_run=of_source.run,
        run_id=wanted.run_id,
        scoring=scoring,
        known_from=known_from,
        assembler=settings.assembler,
        context_tokens=read_context_tokens(Path(settings.policy.base)),
        mix=parse_mix(wanted.mix, of_source),
        behind=frozenset() if wanted.again else behind_step(source, wanted.step),
        trained_under="" if of_source.learner.scoring == LIVE else of_source.learner.scoring,
    )


def behind_step(source: Invocation, step: int) -> frozenset[str]:
    """Return the ids of the batches that the source's checkpoint of a step has trained on. Raises LogError."""
    reader = Reader(
        source.settings.log,
        ["steps"],
        blob_dir=source.blob_dir,
        start="beginning",
        bounded=True,
        on_undecodable=lambda _raw, _error: None,
    )
    try:
        taken = [e.record for e in reader if e.record.run_id == source.settings.run and e.record.step <= step]
    finally:
        reader.close()
    return frozenset(ref.event_id for record in taken for ref in record.batches)


def config_digest(settings: Settings) -> str:
    """Return the digest of what is the fork's alone: neither where its log is nor when it stops."""
    tree: Tree = msgspec.to_builtins(settings)
    del tree["log"], tree["learner"]["steps"]
    return digest_of(json.dumps(tree, sort_keys=True).encode())


def check_same(begun: Fork | None, fork: Fork) -> None:
    """Raise ConfigError where a fork of this name was begun as another."""
    if begun is None or begun == fork:
        return
    differing = [name for name in Fork.__struct_fields__ if getattr(begun, name) != getattr(fork, name)]
    values = "; ".join(f"{name} {getattr(begun, name)!r}, now {getattr(fork, name)!r}" for name in differing)
    raise ConfigError(f"--as {fork.run_id}: a fork of that name was begun with {values[:1000]}; choose another name")


def beginning(planned: Planned, publisher: Publisher) -> list[Event[CommandGiven]]:
    """Return what stands first on a fork's log: what it is, and that its own tasks train on the same scoring."""
    fork, scoring = planned.fork, planned.forking.scoring
    command = fork_command(fork)
    events = [publisher.event(command, id=fork_id(fork.run_id), key=command.target)]
    if scoring is not None:
        use = Use(run_id=fork.run_id, scoring=scoring)
        told = command_of(use, given_by="rollog fork")
        # Before the fork's own event: whoever finds that finds all.
        events = [
            declaration(publisher, scoring),
            publisher.event(told, id=use_id(use, 0), key=told.target, subject=use.scoring_id),
            *events,
        ]
    return events


def make_fork(
    source: Invocation, planned: Planned, on_progress: OnProgress, *, follows: bool = False
) -> tuple[int, int]:
    """Write all of it that is not there; returns how many batches were written and were there. Raises RollogError.

    A fork that follows its source may begin with too little for a step.
    """
    settings, fork = planned.settings, planned.fork
    if follows:
        check_follows(fork.mix)
    elif planned.num_steps < 1:
        raise ConfigError(
            f"{fork.num_batches} batches are not enough for a step of {settings.learner.groups_per_step} groups "
            "(learner.groups_per_step): choose another --at, --scoring or --mix, or --again"
        )
    if not planned.is_begun:
        prepare_topics(settings)
    run_dir = source.home / "runs" / settings.run
    publisher = Publisher(settings.log, source="rollog/fork", blob_dir=source.blob_dir)
    try:
        if not planned.is_begun:
            publisher.send_all(beginning(planned, publisher))
        copy_checkpoint(
            source.run_dir / "checkpoints", run_dir / "checkpoints", settings, step=fork.step, publisher=publisher
        )
        total = planned.forking.range.num_records(planned.forking.range.partitions)
        told = partial(tell, on_progress, [0], total)
        seeded = seed(planned.forking, planned.numbers, publisher, settings.log, told)
    finally:
        publisher.close()
    if not (run_dir / "settings.json").exists():  # what went on live since has its own
        save(settings, run_dir)
    return seeded.num_written, seeded.num_known
