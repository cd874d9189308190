"""Programs that work and are hard to keep: what is wrong with them, how they look without it, and how one can tell."""

import json
import random
from collections.abc import Callable
from string import Template
from typing import Any

import msgspec

from producers.domains.code.problem import Draw
from schemas.parts import Part

FIELDS = ("name", "email", "city", "title", "street", "country", "phone", "company")
NOUNS = ("order", "invoice", "ticket", "member", "booking", "parcel", "account", "shipment")


class Mess(msgspec.Struct, frozen=True, kw_only=True):
    """One program, in need of care."""

    ask: str
    before: str
    after: str
    functions: tuple[str, ...]
    draw: Draw
    gates: tuple[Part, ...]
    weight: float


def honest() -> Part:
    """Return a gate on programs that hide none in a text."""
    words = ["exec(", "eval(", "compile(", "__import__"]
    return Part(kind="absent", name="nothing hidden", extract="fenced", role="gate", expected=words)


def gate_on(kind: str, expected: Any = None, **options: Any) -> Part:
    """Return a gate on the program that an answer holds."""
    return Part(kind=kind, name=f"style {kind}", extract="fenced", role="gate", expected=expected, options=options)


def no_longer(program: str, slack: float = 1.0) -> Part:
    """Return a veto on programs that are longer than this share of one."""
    most = round(len(program) * slack)
    options = {"unit": "characters", "free": most, "full": most + 1}
    return Part(kind="length", name="style length", extract="fenced", role="veto", options=options)


def at_most_once(text: str) -> Part:
    """Return a gate on programs in which a text stands at most once."""
    escaped = "".join(f"\\{char}" if not char.isalnum() else char for char in text)
    pattern = rf"\A(?![\s\S]*{escaped}[\s\S]*{escaped})[\s\S]+\Z"
    return gate_on("regex", pattern)


def repeated_blocks(rng: random.Random, num: int) -> Mess:
    """Functions that clean fields, each with a copy of the same lines."""
    fields = rng.sample(FIELDS, num)
    noun = rng.choice(NOUNS)
    most, filler = rng.choice((12, 16, 20, 24)), rng.choice(("-", "unknown", "n/a"))
    body = Template("""
    text = ($noun.get("$field") or "").strip()
    while "  " in text:
        text = text.replace("  ", " ")
    if len(text) > $most:
        text = text[:$most - 1] + "~"
    if not text:
        text = "$filler"
    return text.$case()
""")
    cases = {field: rng.choice(("lower", "upper", "title")) for field in fields}
    values = {"noun": noun, "most": most, "filler": filler}
    before = "\n\n".join(
        f"def {field}_of({noun}):{body.substitute(values, field=field, case=cases[field])}" for field in fields
    )
    helper = body.substitute(values, field="FIELD", case="CASE").replace('"FIELD"', "field").replace(".CASE()", "")
    after = f"def cleaned({noun}, field):{helper}\n\n" + "\n\n".join(
        f'def {field}_of({noun}):\n    return cleaned({noun}, "{field}").{cases[field]}()\n' for field in fields
    )

    def draw(inner: random.Random) -> list[Any]:
        words = (
            "ada lovelace",
            "  new   york ",
            "",
            "x",
            "the  long road to the sea",
            "Kiel",
            " a b  c d e f g h i j ",
        )
        return [{field: inner.choice(words) + str(inner.randint(1, 999)) * inner.randint(0, 1) for field in fields}]

    return Mess(
        ask=f"The {num} functions repeat the same lines. Move what they share into one function",
        before=before.strip() + "\n",
        after=after,
        functions=tuple(f"{field}_of" for field in fields),
        draw=draw,
        gates=(no_longer(before, 0.95), at_most_once(".strip()")),
        weight=2.0 + num,
    )


def chain_of_branches(rng: random.Random, num: int) -> Mess:
    """One long chain of branches that is a table in truth."""
    noun = rng.choice(NOUNS)
    codes = rng.sample([f"{a}{b}" for a in "ABCDEFG" for b in range(1, 8)], num + 3)
    rates = {code: (rng.randint(2, 90), rng.randint(1, 9)) for code in codes}
    default = rng.randint(1, 5)
    branches = "".join(
        f'    {"el" * (place > 0)}if code == "{code}":\n        fee = {fee}\n        days = {days}\n'
        for place, (code, (fee, days)) in enumerate(rates.items())
    )
    before = (
        f"def {noun}_terms(code, amount):\n{branches}    else:\n        fee = 0\n        days = {default}\n"
        "    return [fee * amount, days + amount // 10]\n"
    )
    table = "".join(f'    "{code}": ({fee}, {days}),\n' for code, (fee, days) in rates.items())
    after = (
        f"TERMS = {{\n{table}}}\n\n\ndef {noun}_terms(code, amount):\n    fee, days = TERMS.get(code, (0, {default}))\n"
        "    return [fee * amount, days + amount // 10]\n"
    )
    return Mess(
        ask="The chain of branches grows with every new code. Turn it into a table that is looked up in; no `elif`, no "
        "`match`, and not more than two `if` may remain",
        before=before,
        after=after,
        functions=(f"{noun}_terms",),
        draw=lambda inner: [inner.choice([*codes, *codes, "Z9"]), inner.randint(1, 200)],
        gates=(no_longer(before, 0.95), gate_on("absent", ["elif", 'case "', "case '"]), few_ifs()),
        weight=1.0 + num,
    )


def few_ifs() -> Part:
    """Return a gate on programs with at most two conditions."""
    return gate_on("regex", r"\A(?!(?:[\s\S]*\bif\b){3})[\s\S]+\Z")


def pyramid(rng: random.Random, num: int) -> Mess:
    """Conditions in conditions, where early returns would do."""
    noun = rng.choice(NOUNS)
    checks = rng.sample(
        (
            ("state", "void", f"{noun} is void"),
            ("state", "closed", f"{noun} is closed"),
            ("owner", "", "no owner"),
            ("currency", "XXX", "no currency"),
            ("country", "?", "unknown country"),
            ("channel", "test", "test only"),
        ),
        num,
    )
    limit, rate = rng.randint(100, 900), rng.randint(3, 20)
    opened = "".join(
        f'{"    " * (place + 1)}if {noun}["{field}"] != "{value}":\n' for place, (field, value, _) in enumerate(checks)
    )
    inner_pad = "    " * (num + 1)
    closed = "".join(
        f'{"    " * (place + 1)}else:\n{"    " * (place + 2)}result = "{message}"\n'
        for place, (_, _, message) in reversed(list(enumerate(checks)))
    )
    before = (
        f'def judge_{noun}({noun}):\n    result = ""\n{opened}{inner_pad}if {noun}["amount"] > {limit}:\n'
        f'{inner_pad}    result = f"review {{{noun}["amount"] // {rate}}}"\n{inner_pad}else:\n'
        f'{inner_pad}    result = f"pass {{{noun}["amount"] % {rate}}}"\n{closed}    return result\n'
    ).replace('["amount"]', "['amount']")
    early = "".join(
        f'    if {noun}["{field}"] == "{value}":\n        return "{message}"\n' for field, value, message in checks
    )
    after = (
        f"def judge_{noun}({noun}):\n{early}    amount = {noun}['amount']\n    if amount > {limit}:\n"
        f'        return f"review {{amount // {rate}}}"\n    return f"pass {{amount % {rate}}}"\n'
    )
    values = {field: [value for one, value, _ in checks if one == field] for field, _, _ in checks}

    def draw(inner: random.Random) -> list[Any]:
        fields = {field: inner.choice([*bad, "fine", "fine", "fine", "fine"]) for field, bad in values.items()}
        return [fields | {"amount": inner.randint(1, 2 * limit)}]

    return Mess(
        ask="Conditions are nested too deeply. Make it flat: no line may be indented by more than 8 spaces, and none "
        "may hold two `else`",
        before=before,
        after=after,
        functions=(f"judge_{noun}",),
        draw=draw,
        gates=(
            no_longer(before, 1.2),
            gate_on("regex", r"\A(?![\s\S]*(?:^ {9}|^\t{3}|\belse\b[^\n]*\belse\b))[\s\S]+\Z"),
        ),
        weight=1.0 + num,
    )


def shared_state(rng: random.Random, num: int) -> Mess:
    """Functions that work on a module's variables."""
    noun = rng.choice(NOUNS)
    start, step = rng.randint(1, 50), rng.randint(2, 9)
    parts = rng.sample(
        (
            ("total", "total + amount", "0"),
            ("highest", "max(highest, amount)", "0"),
            ("count", "count + 1", "0"),
            ("last", "amount", "-1"),
            ("level", f"level + amount // {step}", str(start)),
            ("balance", f"balance * {step} - amount", str(start)),
        ),
        num,
    )
    names = ", ".join(name for name, _, _ in parts)
    news = "".join(f"    {name} = {code}\n" for name, code, _ in parts)
    first = "".join(f"{name} = {value}\n" for name, _, value in parts)
    before = (
        f"{first}\n\ndef add_{noun}(amount):\n    global {names}\n{news}\n\n"
        f"def report_{noun}s(amounts):\n    global {names}\n"
        + "".join(f"    {name} = {value}\n" for name, _, value in parts)
        + f"    for amount in amounts:\n        add_{noun}(amount)\n    return [{names}]\n"
    )
    after = (
        f"def report_{noun}s(amounts):\n"
        + "".join(f"    {name} = {value}\n" for name, _, value in parts)
        + "    for amount in amounts:\n"
        + news.replace("    ", "        ")
        + f"    return [{names}]\n"
    )
    return Mess(
        ask=f"The functions share variables of the module. Rewrite it without any variable outside of functions; only "
        f"report_{noun}s is called from elsewhere",
        before=before,
        after=after,
        functions=(f"report_{noun}s",),
        draw=lambda inner: [[inner.randint(1, 60) for _ in range(inner.randint(2, 7))]],
        gates=(
            no_longer(before),
            gate_on("absent", ["global ", "globals(", "nonlocal"]),
            gate_on("regex", r"\A(?![\s\S]*^\w+ *(?::[^=\n]*)?=[^=])[\s\S]+\Z"),
        ),
        weight=2.0 + num,
    )


MESSES: tuple[Callable[[random.Random, int], Mess], ...] = (chain_of_branches, pyramid, shared_state, repeated_blocks)


def call_of(rng: random.Random, mess: Mess) -> str:
    """Return a call as JSON: which function, and its arguments."""
    return json.dumps([rng.choice(mess.functions), *mess.draw(rng)])
