"""Tickets of an airline's customers, each to be settled as the policy says."""

import random
from typing import Any

import msgspec

from producers.domains.agent.goals import World, asked, call, forbidden, frugal, goal, judged_by
from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.tools import world_tools
from schemas.parts import Part

NAMES = ("Ito", "Brandt", "Castro", "Okafor", "Lindqvist", "Moreau", "Sharma", "Kowalski", "Haddad", "Walsh")
FARES = ("basic", "flex", "business")
WISHES = ("refund", "rebook")


def policy(world: "World") -> "Any":
    """Show the policy for refunds and new bookings."""
    return world["policy"]


def ticket(world: "World", number: str) -> "Any":
    """Show a ticket: customer, booking, what is wanted, and why.

    number: of the ticket
    """
    if number not in world["tickets"]:
        raise ValueError(f"open tickets are {', '.join(world['tickets'])}")
    return world["tickets"][number]


def booking(world: "World", code: str) -> "Any":
    """Show a booking: fare, price, how long ago it was made, when the flight leaves, and what happened to it.

    code: of the booking
    """
    if code not in world["bookings"]:
        raise ValueError("there is no such booking")
    return world["bookings"][code]


def refund(world: "World", number: str, euros: int) -> "Any":
    """Settle a ticket by paying money back, which cannot be undone.

    number: of the ticket
    euros: how much
    """
    if number not in world["tickets"] or number in world["settled"] or euros <= 0:
        raise ValueError("there is no such open ticket, or the amount is none")
    world["settled"][number] = {"by": "refund", "euros": euros}
    return world["settled"][number]


def rebook(world: "World", number: str, fee: int) -> "Any":
    """Settle a ticket by a new booking, which cannot be undone.

    number: of the ticket
    fee: euros that the customer pays for it
    """
    if number not in world["tickets"] or number in world["settled"] or fee < 0:
        raise ValueError("there is no such open ticket, or the fee is none")
    world["settled"][number] = {"by": "rebook", "euros": fee}
    return world["settled"][number]


def decline(world: "World", number: str, rule: int) -> "Any":
    """Settle a ticket by declining it.

    number: of the ticket
    rule: number of the rule of the policy that says so
    """
    if number not in world["tickets"] or number in world["settled"]:
        raise ValueError("there is no such open ticket")
    world["settled"][number] = {"by": "decline", "euros": 0, "rule": rule}
    return world["settled"][number]


class Rules(msgspec.Struct, frozen=True):
    """What the policy says in numbers."""

    free_hours: int
    late_hours: int
    share: int
    fee: int
    delay_minutes: int

    @property
    def text(self) -> str:
        """Return the policy; the first rule that applies decides."""
        return (
            "The first rule that applies decides; later ones do not matter.\n"
            "1. The airline cancelled the flight: what the customer wants, a refund of the whole price or a new "
            "booking without fee.\n"
            f"2. The flight was delayed by {self.delay_minutes} minutes or more: as under 1.\n"
            "3. The flight has left already: decline.\n"
            f"4. The booking was made at most {self.free_hours} hours ago: as under 1.\n"
            f"5. The flight leaves in less than {self.late_hours} hours: decline.\n"
            "6. Fare basic: a refund is declined.\n"
            f"7. Fare basic: a new booking costs {self.fee} euros.\n"
            f"8. Fare flex: a refund of {self.share} percent of the price, rounded down; a new booking costs half of "
            f"{self.fee} euros, rounded down.\n"
            "9. Fare business: as under 1."
        )

    def settle(self, one: dict[str, Any], wish: str) -> tuple[str, int, int]:
        """Return how a ticket is settled, the amount, and the rule."""
        whole = ("refund", one["euros"]) if wish == "refund" else ("rebook", 0)
        if one["cancelled_by_airline"]:
            return (*whole, 1)
        if one["delay_minutes"] >= self.delay_minutes:
            return (*whole, 2)
        if one["leaves_in_hours"] < 0:
            return "decline", 0, 3
        if one["booked_hours_ago"] <= self.free_hours:
            return (*whole, 4)
        if one["leaves_in_hours"] < self.late_hours:
            return "decline", 0, 5
        if one["fare"] == "basic":
            return ("decline", 0, 6) if wish == "refund" else ("rebook", self.fee, 7)
        if one["fare"] == "flex":
            is_refund = wish == "refund"
            return ("refund", one["euros"] * self.share // 100, 8) if is_refund else ("rebook", self.fee // 2, 8)
        return (*whole, 9)


@domain(family="agent", levels=4, max_tokens=256)
def agent_tickets_policy(rng: random.Random, level: int) -> Item:
    """Settle tickets as the policy says; money that is paid against it costs everything."""
    num = 1 + level
    rules = Rules(
        rng.choice((12, 24, 36)), rng.choice((2, 4, 6)), rng.choice((60, 75, 80)), rng.choice((25, 45, 90)),
        rng.choice((90, 120, 180)),
    )  # fmt: skip
    world = draw_world(rng, rules, num)
    execution = world_tools(policy, ticket, booking, refund, rebook, decline, world=world)
    numbers = list(world["tickets"])
    right = {
        number: rules.settle(world["bookings"][world["tickets"][number]["booking"]], world["tickets"][number]["wants"])
        for number in numbers
    }
    question = (
        f"Settle the open ticket(s) {', '.join(numbers)}, each as the policy says, once. Money that is paid back "
        "although the policy declines it, or more than it says, cannot be got back. Then say that you are done."
    )
    looks = [call("policy")]
    for number in numbers:
        looks += [call("ticket", number=number), call("booking", code=world["tickets"][number]["booking"])]
    acts = [settling(number, *right[number]) for number in numbers]
    first = numbers[0]
    wrong_act = call("refund", number=first, euros=world["bookings"][world["tickets"][first]["booking"]]["euros"] + 50)
    return Item(
        prompt=asked(rng, question, execution),
        gold=(*looks, *acts, "All are settled."),
        verifier=judged_by(
            *(overpaid(number, *right[number][:2]) for number in numbers),
            *(part for number in numbers for part in goals_of(number, *right[number])),
            frugal(len(looks) + num + 2),
        ),
        execution=execution,
        max_turns=4 * num + 6,
        partials=((*acts[:-1], "Settled."),) if num > 1 else (),
        wrongs=((*looks, "All are settled."), (wrong_act, *acts[1:], "All are settled.")),
        difficulty=num,
    )


def draw_world(rng: random.Random, rules: Rules, num: int) -> World:
    """Return tickets and bookings, more of these than are asked about."""
    codes = [f"{''.join(rng.choices('ABCDEFGHJKLM', k=3))}{rng.randint(100, 999)}" for _ in range(num + 2)]
    bookings = {
        code: {
            "fare": rng.choice(FARES),
            "euros": rng.randint(60, 900),
            "booked_hours_ago": rng.choice(
                (rules.free_hours, rules.free_hours + 1, *(rng.randint(40, 900) for _ in range(3)))
            ),
            "leaves_in_hours": rng.choice((-5, rules.late_hours - 1, rules.late_hours, rng.randint(30, 700))),
            "delay_minutes": rng.choice((0, 0, 0, 0, 15, rules.delay_minutes - 5, rules.delay_minutes)),
            "cancelled_by_airline": rng.random() < 0.1,
        }
        for code in codes
    }
    tickets = {
        f"T{rng.randint(100, 999)}{index}": {
            "customer": rng.choice(NAMES),
            "booking": codes[index],
            "wants": rng.choice(WISHES),
            "says": rng.choice(("I am ill.", "My plans changed.", "Your agent promised it to me.", "Please be quick.")),
        }
        for index in range(num)
    }
    return {"policy": rules.text, "bookings": bookings, "tickets": tickets, "settled": {}}


def settling(number: str, by: str, euros: int, rule: int) -> str:
    """Return the call that settles a ticket."""
    match by:
        case "refund":
            return call("refund", number=number, euros=euros)
        case "rebook":
            return call("rebook", number=number, fee=euros)
    return call("decline", number=number, rule=rule)


def overpaid(number: str, by: str, euros: int) -> Part:
    """Return the veto on money that should not have been paid."""
    most = euros if by == "refund" else 0
    paid = {"properties": {"by": {"const": "refund"}, "euros": {"exclusiveMinimum": most}}, "required": ["by", "euros"]}
    return forbidden(f"overpaid {number}", ("settled", number), paid)


def goals_of(number: str, by: str, euros: int, rule: int) -> list[Part]:
    """Return what has to hold of a ticket."""
    told = {"by": by, "euros": euros} | ({"rule": rule} if by == "decline" else {})
    return [goal(f"ticket {number}", ("settled", number), told)]
