"""What a program made of each of its cases, with credit by case.

The program never sees what is expected: its cases are inputs, run each on its own, and what they should lead to stands
here. So a program that reads, changes or deletes its tests, or ends early with status 0, gains nothing by it: a case
that printed nothing has failed, and so has one that was never run.

`expected` says by name, in the order of the execution's cases, what each should print, or how it should end: `ok`, or
`fails`, which is any end that is the program's own doing, a limit included. Where cases are the right thing and its
broken twins, name the right one in `needs`: tests that are no use, since they pass everything or nothing, earn 0.

A case counts only by what a program has to do for it: one that any program passes which ends early, or never begins,
is refused, unless it is in `needs`.

Example: `Part(kind="cases", expected={"right": {"ends": "ok"}, "off_by_one": {"ends": "fails"}},
options={"needs": ["right"]})`; a text is short for `{"stdout": text}`, and null leaves a case out.
"""

from typing import Annotated, Literal

import msgspec

from schemas.executions import Outcome
from streams.verifiers.parts.interface import Found, PartKind
from streams.verifiers.parts.stdout import Partial, share_printed


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one case should lead to."""

    stdout: str | None = None
    ends: Literal["ok", "fails", "any"] = "ok"


Expected = Annotated[dict[str, str | Wanted | None], msgspec.Meta(min_length=1)]


class CasesOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How cases add up."""

    needs: list[str] = []
    """Cases without which the others are worth nothing; they count for themselves only where there are no others."""
    partial: Partial = "none"
    """Of what one case prints."""
    all_or_nothing: bool = False


def score(outcomes: tuple[Outcome, ...], expected: Expected, options: CasesOptions) -> Found:
    """Return the share of cases that led to what they should."""
    if len(outcomes) > len(expected):
        raise ValueError(f"{len(outcomes)} cases were run and {len(expected)} are expected; wanted all, null for some")
    by_name = dict(zip(expected, outcomes, strict=False))
    wanted = {name: readable(one) for name, one in expected.items() if one is not None}
    values = {
        name: 0.0 if name not in by_name else value_of(by_name[name], one, options) for name, one in wanted.items()
    }
    return total(values, options)


def total(values: dict[str, float], options: CasesOptions) -> Found:
    """Return what the cases are worth together."""
    failed = [name for name, value in values.items() if value < 1]
    why = f"{len(values) - len(failed)} of {len(values)} cases right"
    if failed:
        why += f"; not: {', '.join(failed[:5])}"
    if set(failed) & set(options.needs) or (failed and options.all_or_nothing):
        return Found(0.0, why)
    counted = [value for name, value in values.items() if name not in options.needs] or list(values.values())
    return Found(sum(counted) / len(counted), why)


def readable(one: str | Wanted) -> Wanted:
    """Return what a case should lead to, from its short form too."""
    return Wanted(stdout=one) if isinstance(one, str) else one


def value_of(outcome: Outcome, wanted: Wanted, options: CasesOptions) -> float:
    """Return what one case is worth. Raises ValueError where nobody can know: the sandbox failed, or all was cut."""
    if outcome.status == "infra_error":
        raise ValueError(f"a case could not be run: {outcome.error}")
    if wanted.ends == "fails" and outcome.status == "ok":
        return 0.0
    if wanted.ends == "ok" and outcome.status != "ok":
        return 0.0
    return 1.0 if wanted.stdout is None else share_printed(outcome, wanted.stdout, options.partial).value


def check(expected: Expected, options: CasesOptions) -> None:
    """Refuse cases that say nothing, and names that are none."""
    wanted = {name: readable(one) for name, one in expected.items() if one is not None}
    if not wanted:
        raise ValueError("expected: got no case that counts; wanted at least one that is not null")
    for name in options.needs:
        if name not in wanted:
            raise ValueError(f"needs: got {name!r}, which is no case; cases are: {', '.join(wanted)}")
    counted = {name: one for name, one in wanted.items() if name not in options.needs} or wanted
    for name, one in counted.items():
        if one.ends != "fails" and not (one.stdout or "").strip():
            raise ValueError(
                f"expected.{name}: got a case that a program passes which does nothing; wanted a stdout, or "
                "the name in needs"
            )
        if one.ends == "fails" and not options.needs:
            raise ValueError(
                f"expected.{name}: got ends = fails, which what always fails passes; wanted a case in needs that is ok"
            )


CASES = PartKind(
    name="cases", version=1, content="cases", expects=Expected, options=CasesOptions, score=score, check=check
)
