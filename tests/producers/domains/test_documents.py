import json
import random
import re

import pytest

from producers.domains.documents.clauses import documents_clause_lookup
from producers.domains.documents.contracts import TOPICS, Clause
from producers.domains.documents.dossiers import CHAINS, draw_dossier
from producers.domains.documents.hops import documents_long_multi_hop
from producers.domains.documents.invoices import content, draw_invoice, money
from producers.domains.documents.letters import draw_letter
from producers.domains.documents.versions import documents_diff
from producers.domains.entities import in_words
from producers.domains.interface import Item

NUMBERED = re.compile(r"^(\d\.\d|S\d) (.+?)(?:\. | applies)(.*)$", re.MULTILINE)


def tag(item: Item, name: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", item.gold[-1], re.DOTALL)
    assert found is not None
    return found[1].strip()


def figure(text: str) -> int:
    """Return the largest number in figures, which is the term of a clause."""
    return max(int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", text))


def test_both_wordings_of_every_clause_tell_its_term_and_no_other_number() -> None:
    for topic in TOPICS:
        for wording in (0, 1):
            for spelled in (False, True):
                clause = Clause(topic=topic, value=topic.values[-1], wording=wording, in_words=spelled)
                assert {int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", clause.text)} == {topic.values[-1]}


def test_numbers_are_said_in_words() -> None:
    said = {0: "zero", 14: "fourteen", 30: "thirty", 45: "forty-five", 250: "two hundred and fifty"}
    assert {number: in_words(number) for number in said} == said


@pytest.mark.parametrize("level", range(4))
def test_differences_are_those_of_the_printed_versions(level: int) -> None:
    for seed in range(20):
        item = documents_diff(random.Random(seed), level)
        first, second = item.prompt.split("VERSION 2")
        old, new = ({heading: text for _, heading, text in NUMBERED.findall(part)} for part in (first, second))
        terms = {topic.heading for topic in TOPICS}
        names = {f"removed {heading}" for heading in old.keys() - new.keys()}
        names |= {f"added {heading}" for heading in new.keys() - old.keys()}
        changed = {one for one in old.keys() & new.keys() & terms if figure(old[one]) != figure(new[one])}
        assert set(tag(item, "changes").splitlines()) == names | {f"changed {heading}" for heading in changed}
        assert json.loads(item.gold[0].split("</changes>")[1]) == {one: figure(new[one]) for one in changed}


@pytest.mark.parametrize("level", range(4))
def test_the_figure_that_applies_stands_in_the_last_clause_that_is_named(level: int) -> None:
    for seed in range(20):
        item = documents_clause_lookup(random.Random(seed), level)
        clauses = {number: f"{heading} {text}" for number, heading, text in NUMBERED.findall(item.prompt)}
        places = tag(item, "clauses").split(", ")
        text = clauses[places[-1]]
        if places[-1].startswith("S"):
            assert f"Clause {places[-2]} " in text
            text = text.split(" in place of ")[0].split(" with ")[1]
        assert figure(text) == int(tag(item, "figure").replace(",", ""))


@pytest.mark.parametrize("level", range(4))
def test_no_secret_is_left_in_a_redacted_letter_and_nothing_public_is_lost(level: int) -> None:
    for seed in range(30):
        letter = draw_letter(random.Random(seed), level)
        assert not re.search(r"\{\{|\}\}|\(\(|\)\)|%\(", letter.shown + letter.redacted)
        assert all(secret in letter.shown for secret in letter.secrets)
        assert all(piece in letter.redacted and piece in letter.shown for piece in letter.public)
        assert letter.redacted.count("[REDACTED]") == letter.marked.count("{{")


def test_what_no_longer_holds_is_never_what_holds() -> None:
    for seed in range(40):
        dossier = draw_dossier(random.Random(seed), 3)
        assert all(dossier.facts[pair] != name for pair, name in dossier.former.items())
        assert sorted(dossier.pages.values()) == list(range(1, len(dossier.kinds) + 1))


@pytest.mark.parametrize("level", range(4))
def test_each_step_of_a_chain_stands_on_its_page(level: int) -> None:
    for seed in range(10):
        item = documents_long_multi_hop(random.Random(seed), level)
        pages = dict(re.findall(r"\[Page (\d+)\]\n(.*)", item.prompt))
        steps = item.gold[0].split("\n")[0].removeprefix("Page by page: ").rstrip(".").split(" -> ")
        cited = tag(item, "pages").split(", ")
        assert len(cited) == len(CHAINS[level])
        for page, before, after in zip(cited, steps, steps[1:], strict=False):
            assert before in pages[page].split(".")[0]
            assert after in pages[page]


@pytest.mark.parametrize("level", range(4))
def test_an_invoice_adds_up(level: int) -> None:
    for seed in range(30):
        invoice = draw_invoice(random.Random(seed), level)
        values = content(invoice)
        assert values["subtotal"] == pytest.approx(sum(line["amount"] for line in values["lines"]))
        assert values["total"] == pytest.approx(values["subtotal"] - values["discount"] + values["tax"])
        before_tax = values["subtotal"] - values["discount"]
        assert values["tax"] == pytest.approx(before_tax * invoice.rate / 100, abs=0.00501)
        assert re.sub(r"\D", "", money(invoice, invoice.amounts[3])) == str(invoice.amounts[3])
