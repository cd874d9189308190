"""The parts of verifiers that many domains ask for, and how their prompts say so."""

from typing import Any, Literal

from schemas.parts import Part
from schemas.tasks import VerifierSpec

Unit = Literal["", "%", "bp", "k", "m", "bn", "tn"]


def verdict(*parts: Part) -> VerifierSpec:
    """Return the verifier that is made of parts."""
    return VerifierSpec(kind="parts", parts=parts)


def last_number(
    expected: float, *, unit: Unit = "", absolute: float = 0.0, relative: float = 0.0, name: str = "number"
) -> Part:
    """Return what wants a number as the last one of the last line."""
    options: dict[str, Any] = {"unit": unit, "absolute": absolute, "relative": relative, "pick": "last"}
    return Part(kind="numeric", name=name, extract="last_line", expected=expected, options=options)


def tagged_number(  # noqa: PLR0917  as they are read
    tag: str, expected: float, weight: float = 1.0, absolute: float = 0.0, relative: float = 0.0, unit: Unit = ""
) -> Part:
    """Return what wants the one number between `<tag>` and `</tag>`."""
    options: dict[str, Any] = {"unit": unit, "absolute": absolute, "relative": relative, "accounting": True}
    return Part(kind="numeric", name=tag, extract=f"tag:{tag}", expected=expected, weight=weight, options=options)


def tagged_word(tag: str, expected: str | list[str], weight: float = 1.0, *, gate: bool = False) -> Part:
    """Return what wants a word, or one of several, between `<tag>` and `</tag>`."""
    return Part(
        kind="exact",
        name=tag,
        extract=f"tag:{tag}",
        expected=expected,
        weight=weight,
        options={"ignore_case": True, "white_space": "runs"},
        role="gate" if gate else "credit",
    )


def tagged_set(tag: str, expected: list[str], weight: float = 1.0, *, written: str = "commas") -> Part:
    """Return what wants these things between `<tag>` and `</tag>`, in any order."""
    options: dict[str, Any] = {"written": written, "ignore_case": True}
    return Part(kind="set_f1", name=tag, extract=f"tag:{tag}", expected=expected, weight=weight, options=options)


def not_longer(tag: str, free: int, full: int) -> Part:
    """Return what takes credit away from an answer that names everything: up to all, from so many characters on."""
    options: dict[str, Any] = {"free": free, "full": full}
    return Part(kind="length", name=f"{tag} too long", role="penalty", extract=f"tag:{tag}", options=options)


def json_values(expected: Any, schema: dict[str, Any], *, name: str = "values", **options: Any) -> Part:
    """Return what wants JSON by a schema, with credit for each value."""
    return Part(kind="schema", name=name, extract="json", expected=expected, options={"schema": schema} | options)


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has these properties, all of them and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def shape(**tags: str) -> str:
    """Return what a prompt says of an answer in tags; by tag, what is to stand in it."""
    return "End your answer with\n" + "\n".join(f"<{tag}>{what}</{tag}>" for tag, what in tags.items())


def in_tags(**values: object) -> str:
    """Return an answer in tags."""
    return "\n".join(f"<{tag}>{value}</{tag}>" for tag, value in values.items())
