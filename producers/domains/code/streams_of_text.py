"""Values as lines of text, for programs that read stdin: how they are written, read, and described."""

from typing import Any

READ = {
    "int": "int(input())",
    "str": "input()",
    "ints": "[int(word) for word in input().split()]",
    "words": "input().split()",
    "lines": "[input() for _ in range(int(input()))]",
    "rows": "[[int(word) for word in input().split()] for _ in range(int(input()))]",
    "records": "[[int(word) if word.lstrip('-').isdigit() else word for word in input().split()]"
    " for _ in range(int(input()))]",
}
READ_AS = {
    "int": "a whole number",
    "str": "a text, the whole line",
    "ints": "whole numbers, with spaces between them, on one line",
    "words": "words, with spaces between them, on one line",
    "lines": "a line with the number of lines that follow, then these lines",
    "rows": "a line with the number of rows, then each row on a line, numbers with spaces between them",
    "records": "a line with the number of entries, then each entry on a line, its fields with spaces between them",
}
PRINT = {
    "int": "print({value})",
    "str": "print({value})",
    "ints": "print(*{value})",
    "words": "print(*{value})",
    "lines": "for line in {value}:\n    print(line)",
    "rows": "for row in {value}:\n    print(*row)",
    "records": "for row in {value}:\n    print(*row)",
}
PRINT_AS = {
    "int": "the number",
    "str": "the text",
    "ints": "the numbers on one line, with spaces between them",
    "words": "the words on one line, with spaces between them",
    "lines": "each on a line",
    "rows": "each row on a line, its numbers with spaces between them",
    "records": "each entry on a line, its fields with spaces between them",
}


def written(value: Any, kind: str) -> str:
    """Return a value as lines; those of a list of lines or rows come after a line with their number."""
    match kind:
        case "int" | "str":
            return f"{value}\n"
        case "ints" | "words":
            return " ".join(map(str, value)) + "\n"
        case "lines":
            return "".join(f"{line}\n" for line in [len(value), *value])
    return f"{len(value)}\n" + "".join(" ".join(map(str, row)) + "\n" for row in value)


def printed(value: Any, kind: str) -> str:
    """Return a value as a program prints it, without the number of lines."""
    text = written(value, kind)
    return text.partition("\n")[2] if kind in ("lines", "rows", "records") else text
