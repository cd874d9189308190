"""Rollouts made by hand, and for every kind of part one spec with what is right, half right and wrong by it."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from schemas.executions import ExecutionFinished, Outcome
from schemas.parts import Part
from schemas.tasks import VerifierSpec
from schemas.tools import written
from schemas.trajectory import Trajectory
from streams.verifiers import get_verifier
from streams.verifiers.parts import get_kind
from streams.verifiers.parts.checking import check_spec
from tests import samples
from tests.streams.stage_fakes import ok, read

QUESTION = "Anna has 391 apples and Ben 12; name them, and say who has more than the covenant allows."


class Turn(msgspec.Struct, frozen=True):
    """What one turn says, and what came of it."""

    text: str
    outcome: Outcome | None = None
    cases: tuple[Outcome, ...] = ()


def rollout(*turns: Turn | str, num_tokens: int = 3) -> Trajectory:
    made = Trajectory()
    for index, one in enumerate(turns):
        turn = Turn(one) if isinstance(one, str) else one
        made.turns[index] = read(samples.turn(0, index, text=turn.text))
        if turn.outcome is not None:
            finished: ExecutionFinished = samples.execution(0, index, outcome=turn.outcome, cases=turn.cases)
            made.executions[index] = read(finished)
    made.ended = {None: read(samples.ended(num_turns=len(turns), num_tokens=num_tokens))}
    return made


def failed(stdout: str | bytes = b"", status: Any = "nonzero") -> Outcome:
    return msgspec.structs.replace(ok(stdout), status=status, exit_code=1)


def printed(stdout: str | bytes) -> Trajectory:
    return rollout(Turn("print(...)", ok(stdout)))


def ran(*cases: Outcome) -> Trajectory:
    first_bad = next((one for one in cases if one.status != "ok"), cases[0] if cases else ok(""))
    return rollout(Turn("def f(): ...", first_bad, cases))


def worth(at: Any, kind: str, expected: Any = None, **options: Any) -> float:
    extract, of = options.pop("extract", ""), options.pop("of", "answer")
    spec = VerifierSpec(
        kind="parts", parts=(Part(kind=kind, expected=expected, options=options, extract=extract, of=of),)
    )
    check_spec(spec)
    return get_verifier("parts").score(spec, rollout(at) if isinstance(at, str) else at).value


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A part, by itself or beside one that gives it something to act on."""

    part: Part
    beside: tuple[Part, ...] = ()
    gold: Trajectory
    partial: Sequence[Trajectory] = ()
    """Worth more than nothing and less than all."""
    wrong: Sequence[Trajectory] = ()

    @property
    def spec(self) -> VerifierSpec:
        return VerifierSpec(kind="parts", parts=(*self.beside, self.part))


def with_text(text: str, part: Part) -> Trajectory:
    """Return a rollout in which that text stands where the part looks."""
    content, stdout = get_kind(part.kind).content, text.encode(errors="surrogatepass")
    if content == "cases":
        return ran(*[ok(stdout)] * 3)
    return printed(stdout) if content == "stream" else rollout(text)


PLATE = {
    "ops": [
        {"op": "box", "id": "slab", "size": [40, 30, 5]},
        {"op": "cylinder", "id": "drill", "radius": 3, "height": 20, "at": [10, 5, 0]},
        {"op": "subtract", "id": "plate", "of": ["slab", "drill"]},
        {"op": "material", "of": "plate", "name": "steel"},
    ]
}
SHALLOW = json.loads(json.dumps(PLATE).replace('"radius": 3', '"radius": 2').replace("steel", "wood"))
SETUP = "CREATE TABLE apples (name TEXT, num INT); INSERT INTO apples VALUES ('anna', 391), ('ben', 12), ('cleo', 7);"
SUMMARY = "anna has more apples than ben and so breaks the covenant"
ANNA = Part(kind="contains", name="anna", expected=["anna"])
FIND, READ = Turn(written("search", query="covenant"), ok("page 3")), Turn(written("read", page=3), ok("limit: 100"))

EXAMPLES: dict[str, Example] = {
    "exact": Example(
        part=Part(kind="exact", expected=["anna", "Anna R."], options={"ignore_case": True, "white_space": "runs"}),
        gold=rollout(" ANNA\n"),
        wrong=[rollout("anna or ben"), rollout("anna\u200b"), rollout("\uff41nna")],
    ),
    "numeric": Example(
        part=Part(kind="numeric", expected=391, options={"relative": 0.01, "fades_at": 0.1}),
        gold=rollout("391.5 apples"),
        partial=[rollout("410")],
        wrong=[rollout("\u0663\u0669\u0661"), rollout("391 or 12"), rollout("nan"), rollout("inf"), rollout("1e400")],
    ),
    "math": Example(
        part=Part(kind="math", extract="boxed", expected=r"\frac{391}{12}", options={"worked_out": True}),
        gold=rollout(r"so \boxed{\frac{391}{12}}"),
        wrong=[rollout(r"\boxed{32}"), rollout(r"\boxed{9^{9^{9^9}}}"), rollout(r"\boxed{\frac{391*17}{12*17}}")],
    ),
    "regex": Example(
        part=Part(kind="regex", expected=r"cleo\s+has\s+391", options={"ignore_case": True}),
        gold=rollout("Cleo has  391 apples"),
        wrong=[rollout("Cleo has 39 apples")],
    ),
    "contains": Example(
        part=Part(kind="contains", expected=["cleo", "391!"], options={"ignore_case": True}),
        gold=rollout("CLEO has 391!"),
        partial=[rollout("cleo has some")],
    ),
    "absent": Example(
        part=Part(kind="absent", role="gate", expected=["ben", "12"], options={"loose": True}),
        beside=(ANNA,),
        gold=rollout("anna"),
        wrong=[rollout("anna and B-E-N"), rollout("anna, \uff11\uff12")],
    ),
    "length": Example(
        part=Part(kind="length", role="penalty", weight=0.5, options={"unit": "words", "free": 2, "full": 6}),
        beside=(ANNA,),
        gold=rollout("anna has"),
        partial=[rollout("anna has a lot")],
    ),
    "cost": Example(
        part=Part(kind="cost", role="penalty", weight=0.5, options={"unit": "tokens", "free": 10, "full": 20}),
        beside=(ANNA,),
        gold=rollout("anna", num_tokens=10),
        partial=[rollout("anna", num_tokens=15), rollout("anna", num_tokens=1000)],
    ),
    "set_f1": Example(
        part=Part(kind="set_f1", expected=["anna", "ben"], options={"ignore_case": True}),
        gold=rollout("Ben, anna"),
        partial=[rollout('["anna"]'), rollout("anna\nben\ncleo"), rollout(",".join(["anna", "ben", *"abcdef"]))],
        wrong=[rollout("anna ben")],
    ),
    "rouge_l": Example(
        part=Part(kind="rouge_l", expected=SUMMARY, options={"floor": 0.5}),
        gold=rollout(SUMMARY.upper()),
        partial=[rollout("anna has more apples than ben")],
        wrong=[rollout(SUMMARY + " filler" * 100), rollout("anna " * 30_000)],
    ),
    "schema": Example(
        part=Part(
            kind="schema",
            extract="json",
            expected={"name": "anna", "apples": [391, 12], "more": True},
            options={"schema": {"type": "object", "required": ["name"]}, "absolute": 0.5},
        ),
        gold=rollout('It is {"more": true, "name": " anna", "apples": [391.2, 12]}.'),
        partial=[rollout('{"name": "anna", "apples": [391, 13]}'), rollout('{"name": "anna", "apples": null}')],
        wrong=[rollout('{"apples": [391, 12]}'), rollout('{"name": NaN}'), rollout('["anna"]')],
    ),
    "sql": Example(
        part=Part(kind="sql", extract="fenced", expected=[["anna", 391], ["ben", 12]], options={"setup": SETUP}),
        gold=rollout("```sql\nSELECT name, num FROM apples WHERE num > 10 ORDER BY num;\n```"),
        partial=[rollout("```sql\nSELECT name, num FROM apples\n```")],
        wrong=[rollout("```\nDROP TABLE apples\n```"), rollout("```\nSELECT 1; SELECT 2\n```")],
    ),
    "stdout": Example(
        part=Part(kind="stdout", of="stdout", expected="anna\n391", options={"partial": "lines"}),
        gold=printed("anna\n391\n"),
        partial=[printed("anna\n12"), rollout(Turn("x", failed("anna\n391")))],
        wrong=[printed("391\nanna"), rollout("anna\n391")],
    ),
    "cases": Example(
        part=Part(
            kind="cases",
            of="cases",
            expected={"right": {"ends": "ok"}, "twin": {"ends": "fails"}, "other": {"stdout": "7", "ends": "any"}},
            options={"needs": ["right"]},
        ),
        gold=ran(ok(""), failed(), ok("7\n")),
        partial=[ran(ok(""), ok(""), ok("7")), ran(ok(""), failed())],
        wrong=[ran(failed(), failed(), failed()), ran(ok(""), ok(""), ok("")), ran(), rollout("anna")],
    ),
    "reported": Example(
        part=Part(kind="reported", of="cases"),
        gold=ran(ok("2 passed\n1.0\n")),
        partial=[ran(ok("0.5"))],
        wrong=[ran(ok("none")), ran(ok("nan")), ran(ok("-3")), ran(ok("\u0661")), ran(), rollout("1")],
    ),
    "milestones": Example(
        part=Part(
            kind="milestones",
            of="calls",
            expected=[
                {"call": "search", "matches": {"query": "covenant"}},
                {"call": "read", "arguments": {"page": 3}, "prints": "limit: [0-9]+"},
                {"answers": "anna"},
            ],
        ),
        gold=rollout(FIND, "thinking aloud", READ, "Anna breaks it."),
        partial=[rollout(FIND, "anna"), rollout(FIND, READ), rollout(READ, FIND, "anna")],
        wrong=[rollout("anna"), rollout(Turn(FIND.text, failed()), READ, "anna"), rollout(FIND.text)],
    ),
    "table": Example(
        part=Part(
            kind="table",
            expected=[{"name": "anna", "num": 391}, {"name": "ben", "num": None}],
            options={"absolute": 0.5},
        ),
        gold=rollout("num,name\n,ben\n391.25,anna\n"),
        partial=[rollout('[{"name": "anna", "num": 391}]'), rollout("name,num\nanna,391\nben,12")],
        wrong=[rollout("name,num\n"), rollout("name\nanna\nben"), rollout('name,num\n"anna,391'), rollout("[1]")],
    ),
    "geometry": Example(
        part=Part(kind="geometry", expected=PLATE),
        gold=rollout(json.dumps(PLATE)),
        partial=[rollout(json.dumps(SHALLOW))],
        wrong=[
            rollout('{"ops": [{"op": "box", "id": "plate", "size": [1, 1, 1]}]}'),
            rollout(json.dumps(PLATE).replace("plate", "other")),
            rollout('{"ops": [{"op": "box", "id": "plate", "size": [1, 1, 1e999]}]}'),
        ],
    ),
    "judge": Example(
        part=Part(kind="judge", options={"question": QUESTION, "criteria": ["names anna", "says why"]}),
        gold=rollout("GOOD: anna, whose apples break the covenant"),
        partial=[rollout("HALF: anna")],
        wrong=[rollout("ben")],
    ),
}
"""By kind. A judge's words are those of tests/streams/fake_judge.py."""
