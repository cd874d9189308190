"""What `rollog domains` says and does of the catalogue."""

import random
import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

import msgspec
import typer

from producers.domains.catalogue import all_domains
from producers.domains.files import file_domain
from producers.domains.interface import Domain, Item, SplitError
from rollog.admission_test import Admission, admit, drawn_elsewhere, is_drawn_elsewhere
from rollog.playing import Say
from schemas.errors import ConfigError
from schemas.taskfiles import TaskFile
from schemas.tasks import VerifierSpec
from schemas.trajectory import Generate
from streams.running import Runner

END_OF_TURN = "."


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a domain without playing it."""

    name: str
    family: str
    tier: str
    levels: int
    turns: int
    """At most."""
    tools: tuple[str, ...]
    verifier: str
    """Its kind, or the kinds of its parts."""
    source: str
    summary: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the admission test found."""

    holds: bool
    admitted: dict[str, int]
    """Domains by tier."""
    domains: tuple[Admission, ...]


def select(
    names: Iterable[str], *, family: str = "", tier: str = "", files: Mapping[str, TaskFile] | None = None
) -> list[Domain]:
    """Return the domains that are meant, in order, those of files too. Raises ConfigError where a word means none."""
    catalogue, patterns = known(files or {}), list(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in catalogue):
            raise ConfigError(f"domain {pattern!r} is not known; `rollog domains list` shows all")
    found = [
        domain
        for name, domain in catalogue.items()
        if (not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
        and family in {"", domain.family}
        and tier in {"", domain.tier}
    ]
    if not found:
        families = ", ".join(sorted({domain.family for domain in catalogue.values()}))
        raise ConfigError(f"no domain has family {family!r} and tier {tier!r}; families are: {families}")
    return found


def select_one(name: str, level: int, *, files: Mapping[str, TaskFile]) -> Domain:
    """Return the one domain of that name. Raises ConfigError where there is none, several, or no such level."""
    found = select([name], files=files)
    if len(found) > 1:
        raise ConfigError(f"domain {name!r} is {len(found)} domains, such as {found[0].name}; wanted one")
    (domain,) = found
    if not 0 <= level < domain.levels:
        raise ConfigError(f"--level {level}: {domain.name} has levels 0 to {domain.levels - 1}")
    return domain


def known(files: Mapping[str, TaskFile]) -> dict[str, Domain]:
    """Return every domain by name: the catalogue, and the files that the settings name."""
    return all_domains() | {name: file_domain(name, file) for name, file in files.items()}


def item_of(domain: Domain, rng: random.Random, level: int) -> Item:
    """Return an item to look at: one for training, or where all are held out, as of a short file, one of those."""
    try:
        return domain.item(rng, level, False)
    except SplitError:
        return domain.item(rng, level, True)


def outline(domain: Domain) -> Outline:
    """Return what is known of a domain, by one of its items."""
    item = item_of(domain, random.Random(domain.name), 0)
    tools = () if item.execution is None else tuple(tool.name for tool in item.execution.tools)
    return Outline(
        name=domain.name,
        family=domain.family,
        tier=domain.tier,
        levels=domain.levels,
        turns=item.max_turns,
        tools=tools,
        verifier=kinds_of(item.verifier),
        source=domain.source,
        summary=domain.summary,
    )


def kinds_of(spec: VerifierSpec) -> str:
    """Return the kind of a spec, or those of its parts."""
    return ", ".join(dict.fromkeys(part.kind for part in spec.parts)) or spec.kind


def check_all(
    domains: list[Domain], runner: Runner, *, num_items: int, show: Callable[[int, int], None]
) -> Report:  # fmt: skip
    """Test domains one after the other."""
    names = [domain.name for domain in domains if is_drawn_elsewhere(domain)]
    elsewhere = drawn_elsewhere(names) if names else {}
    admissions: list[Admission] = []
    for domain in domains:
        show(len(admissions), len(domains))
        admissions.append(admit(domain, runner, elsewhere=elsewhere.get(domain.name), num_items=num_items))
    admitted = [domain.tier for domain, one in zip(domains, admissions, strict=True) if one.is_admitted]
    return Report(
        holds=len(admitted) == len(domains),
        admitted={tier: admitted.count(tier) for tier in dict.fromkeys(domain.tier for domain in domains)},
        domains=tuple(admissions),
    )


def said_by_gold(item: Item, *, loud: bool) -> Say:
    """Return what says the right rollout, and shows both sides of it."""
    texts = iter(item.gold)

    def say(step: Generate) -> str:
        text = next(texts, "")
        if loud:
            typer.echo(f"{step.context}\n>>> {text}")
        return text

    return say


def said_by_a_person() -> Say:
    """Return what asks whoever sits at the terminal. A turn ends with a line that is only a dot, or with the input."""

    def say(step: Generate) -> str:
        typer.echo(f"{step.context}\n--- turn {step.turn}; end it with a line that is only a dot")
        lines: list[str] = []
        for line in sys.stdin:
            if line.rstrip("\n") == END_OF_TURN:
                break
            lines.append(line)
        return "".join(lines).removesuffix("\n")

    return say
