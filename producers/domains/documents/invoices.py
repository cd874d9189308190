"""Invoices as people send them, to be written as JSON by a schema."""

import json
import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import msgspec

from producers.domains.catalogue import domain
from producers.domains.entities import GOODS, MONTHS, address, companies, person, table
from producers.domains.interface import Item
from producers.domains.verdicts import closed, json_values, verdict

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
LINE = closed({"description": TEXT, "quantity": {"type": "integer"}, "unit_price": NUMBER, "amount": NUMBER})
SCHEMA = closed({
    "invoice_number": TEXT, "issue_date": TEXT, "due_date": TEXT, "seller": TEXT, "buyer": TEXT, "currency": TEXT,
    "lines": {"type": "array", "items": LINE, "minItems": 1},
    "subtotal": NUMBER, "discount": NUMBER, "tax": NUMBER, "total": NUMBER,
})  # fmt: skip
SIGNS = {"EUR": "€", "USD": "$", "GBP": "£"}
OPENERS = (
    "Extract this invoice as JSON by the schema.",
    "Our accounting takes invoices as JSON only. Turn this one into an object by the schema below.",
    "Read the invoice above into the fields of the schema; where a later message corrects it, the correction counts.",
    "What does this invoice say, as a JSON object by the schema?",
)
RULES = (
    "Dates as YYYY-MM-DD; currency as its ISO code; amounts as plain numbers without tax unless the name says "
    "otherwise; `amount` is quantity times unit price; `subtotal` is their sum; `discount` is what is taken off the "
    "subtotal (0 where nothing is); `total` is what has to be paid. Reply with the JSON object, and with nothing "
    "after it."
)


class Invoice(msgspec.Struct, frozen=True, kw_only=True):
    """An invoice."""

    number: str
    issued: date
    terms: int
    """Days until it is due."""
    seller: str
    buyer: str
    currency: str
    lines: tuple[tuple[str, int, int], ...]
    """Description, quantity, unit price in cents."""
    discount: int
    """In per cent."""
    rate: int
    """Of tax, in per cent."""
    is_european: bool
    """How numbers are written: 1.234,50."""

    @property
    def amounts(self) -> tuple[int, int, int, int]:
        """Return subtotal, discount, tax and total in cents, each rounded."""
        subtotal = sum(quantity * price for _, quantity, price in self.lines)
        less = (subtotal * self.discount + 50) // 100
        tax = ((subtotal - less) * self.rate + 50) // 100
        return subtotal, less, tax, subtotal - less + tax


def content(one: Invoice) -> dict[str, Any]:
    """Return an invoice by the schema."""
    subtotal, discount, tax, total = (cents / 100 for cents in one.amounts)
    lines = [
        {"description": what, "quantity": num, "unit_price": price / 100, "amount": num * price / 100}
        for what, num, price in one.lines
    ]
    return {
        "invoice_number": one.number,
        "issue_date": one.issued.isoformat(),
        "due_date": (one.issued + timedelta(days=one.terms)).isoformat(),
        "seller": one.seller,
        "buyer": one.buyer,
        "currency": one.currency,
        "lines": lines,
        "subtotal": subtotal,
        "discount": discount,
        "tax": tax,
        "total": total,
    }


def draw_invoice(rng: random.Random, level: int) -> Invoice:
    """Draw an invoice."""
    seller, buyer = companies(rng, 2)
    num = rng.randint(1, 2) if level == 0 else rng.randint(3, 4 + level)
    year = rng.randint(2023, 2026)
    return Invoice(
        number=rng.choice((f"INV-{year}-{rng.randint(100, 9999):04}", f"{rng.randint(10**6, 10**7)}",
                           f"R{rng.randint(10, 99)}/{rng.randint(1000, 9999)}")),
        issued=date(year, rng.randint(1, 12), rng.randint(1, 28)),
        terms=rng.choice((7, 10, 14, 30, 45, 60)),
        seller=seller,
        buyer=buyer,
        currency=rng.choice(("EUR", "EUR", "USD", "GBP")),
        lines=tuple((what, rng.randint(2, 60), rng.randint(150, 60_000)) for what in rng.sample(GOODS, num)),
        discount=rng.choice((3, 5, 8, 10)) if level >= 2 else 0,
        rate=rng.choice((7, 19, 20, 21, 25)),
        is_european=level >= 1 and rng.random() < 0.5,
    )  # fmt: skip


def money(one: Invoice, cents: int) -> str:
    """Return an amount as the invoice writes it."""
    text = f"{cents / 100:,.2f}"
    return text.translate(str.maketrans(",.", ".,")) if one.is_european else text


def day(rng: random.Random, when: date) -> str:
    """Return a date as people write it, month by name."""
    month = MONTHS[when.month - 1]
    return rng.choice((f"{when.day} {month} {when.year}", f"{month} {when.day}, {when.year}",
                       f"{when.day}-{month[:3]}-{when.year}"))  # fmt: skip


def dates(rng: random.Random, one: Invoice, level: int) -> str:
    """Return both dates; on higher levels the due date is to be worked out."""
    if level == 0:
        return f"Date: {day(rng, one.issued)}\nDue: {day(rng, one.issued + timedelta(days=one.terms))}"
    return f"Date of invoice: {day(rng, one.issued)}\nTerms: net {one.terms} days from date of invoice"


def as_form(rng: random.Random, one: Invoice, level: int) -> str:
    """Return an invoice as a form with a table."""
    rows = [
        [what, str(num), money(one, price), money(one, num * price)] for what, num, price in one.lines
    ]  # fmt: skip
    subtotal, discount, tax, total = one.amounts
    sums = [("Subtotal", subtotal), *([(f"Discount {one.discount}%", -discount)] if discount else [])]
    sums += [(f"VAT {one.rate}%", tax), ("Total due", total)]
    noise = (
        f"Order: PO-{rng.randint(10_000, 99_999)}   Quote: Q{rng.randint(1000, 9999)}\n"
        f"Previous balance (settled): {money(one, rng.randint(10_000, 900_000))}\n"
        if level >= 2
        else ""
    )
    total_lines = "\n".join(f"{name}: {money(one, cents)}" for name, cents in sums)
    return (
        f"{one.seller}\n{address(rng)}\n\nINVOICE {one.number}\n{dates(rng, one, level)}\n{noise}Bill to: {one.buyer}, "
        f"{address(rng)}\nShip to: {address(rng)}\n\n{table(['Item', 'Qty', f'Unit {one.currency}', 'Amount'], rows)}"
        f"\n\n{total_lines}\nVAT no. {one.currency[:2]}{rng.randint(10**8, 10**9)}"
    )


def as_letter(rng: random.Random, one: Invoice, level: int) -> str:
    """Return an invoice as an e-mail; on higher levels without amounts that can be worked out."""
    lines = "\n".join(
        f"- {num} x {what} at {SIGNS[one.currency]}{money(one, price)}"
        + (f" = {money(one, num * price)}" if level == 0 else " each")
        for what, num, price in one.lines
    )
    subtotal, _, tax, total = one.amounts
    off = f"As agreed we take {one.discount}% off the sum. " if one.discount else ""
    sums = (
        f"That makes {money(one, subtotal)} before tax, {money(one, tax)} VAT ({one.rate}%), {money(one, total)} in "
        f"all."
        if level < 2
        else f"{off}VAT of {one.rate}% comes on top."
    )
    return (
        f"From: accounts at {one.seller}\nTo: {one.buyer}, attn. {person(rng)}\nSubject: our invoice {one.number}\n\n"
        f"{dates(rng, one, level)}\n\nDear customer,\nfor the goods that left our warehouse last week we charge, in "
        f"{one.currency}:\n{lines}\n{sums}\nKind regards\n{person(rng)}"
    )


def corrected(rng: random.Random, one: Invoice) -> tuple[str, Invoice]:
    """Return a message that changes an invoice, and the invoice that then counts."""
    place = rng.randrange(len(one.lines))
    what, num, price = one.lines[place]
    new_num, dropped = num + rng.randint(1, 9), (place + 1) % len(one.lines)
    number = f"{one.number}-C{rng.randint(1, 9)}"
    lines = [*one.lines]
    lines[place] = (what, new_num, price)
    gone = lines.pop(dropped)[0]
    message = (
        f"\n\n--- later message ---\nSorry, two mistakes on the above. We delivered {new_num} of the {what}, not "
        f"{num}, and the {gone} never left the house, so please drop that line. Discount and VAT rates stay. The "
        f"corrected invoice has number {number}; date and terms are those of the first."
    )
    return message, msgspec.structs.replace(one, lines=tuple(lines), number=number)


@domain(family="documents", levels=4, max_tokens=1200)
def documents_invoice_json(rng: random.Random, level: int) -> Item:
    """Write an invoice as JSON by a schema."""
    one = draw_invoice(rng, level)
    layouts: tuple[Callable[[random.Random, Invoice, int], str], ...] = (as_form, as_letter)
    text = layouts[rng.random() < 0.4](rng, one, level)
    if level == 3:
        message, one = corrected(rng, one)
        text += message
    # Where nothing can be taken off, there is nothing to be guessed right either.
    schema = SCHEMA if level >= 2 else closed({k: v for k, v in SCHEMA["properties"].items() if k != "discount"})
    values = {name: value for name, value in content(one).items() if name in schema["properties"]}
    part = json_values(values, schema, absolute=0.011)
    blank = {"description": "x", "quantity": 0, "unit_price": -1, "amount": -1}
    none = {name: "" if SCHEMA["properties"][name] == TEXT else -1 for name in values} | {"lines": [blank]}
    shown = json.dumps(values, indent=1, ensure_ascii=False)
    return Item(
        prompt=f"{text}\n\n{rng.choice(OPENERS)} {RULES}\nSchema: {json.dumps(schema)}",
        gold=(f"```json\n{shown}\n```",),
        verifier=verdict(part),
        partials=((json.dumps(values | {"total": 0.0, "invoice_number": "?"}),),),
        wrongs=((json.dumps(none),), (json.dumps({"invoice_number": one.number}),), (shown[: len(shown) // 2],)),
        difficulty=11 + 4 * len(one.lines) + 8 * level,
    )
