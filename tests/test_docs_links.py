"""Relative links in the documentation lead somewhere, anchors included."""

import re
from pathlib import Path

import pytest

from tests.source_tree import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def links(text: str) -> list[str]:
    """Return the targets of a page's links that lead into this repository."""
    found = LINK.findall(CODE.sub("", FENCE.sub("", text)))
    return [target for target in found if not ELSEWHERE.match(target)]


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    made: list[str] = []
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        repeats = sum(1 for one in made if one == slug or re.fullmatch(re.escape(slug) + r"-\d+", one))
        made.append(f"{slug}-{repeats}" if repeats else slug)
    return set(made)


def broken(page: Path) -> list[str]:
    """Return what is wrong with a page's links."""
    wrong = []
    for target in links(page.read_text()):
        path, _, anchor = target.partition("#")
        aimed = (ROOT / path.lstrip("/") if path.startswith("/") else page.parent / path) if path else page
        if not aimed.exists():
            wrong.append(f"{target}: there is no {path}")
        elif anchor and aimed.suffix == ".md" and anchor not in anchors(aimed.read_text()):
            wrong.append(f"{target}: there is no heading for #{anchor}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_the_readme_is_among_the_pages() -> None:
    assert ROOT / "README.md" in PAGES


def test_broken_links_and_anchors_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `title`, twice\n\n# A title, twice\n\n```\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](other.md) [b](other.md#a-title-twice) [c](other.md#a-title-twice-1) [d](#here) [e](https://x.y/z)\n"
        "`[f](gone.md)` [g](gone.md) [h](other.md#no-heading) [i](#there)\n"
    )
    assert broken(page) == [
        "gone.md: there is no gone.md",
        "other.md#no-heading: there is no heading for #no-heading",
        "#there: there is no heading for #there",
    ]
