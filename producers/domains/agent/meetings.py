"""Meetings to be arranged in full calendars."""

import random
from typing import Any

import msgspec

from producers.domains.agent.goals import World, asked, call, frugal, goal, judged_by, only
from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.tools import world_tools

PEOPLE = ("amira", "bruno", "chen", "dora", "emil", "farah", "goran", "hana")
ROOMS = {"Aspen": 4, "Birch": 6, "Cedar": 8, "Elm": 12}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
TOPICS = ("Budget review", "Roadmap", "Incident review", "Hiring panel", "Design critique", "Kick-off", "Retro")
FIRST, LAST, GRID = 9 * 60, 17 * 60, 30
Span = tuple[int, int]


def agenda(world: "World", person: str, day: str) -> "Any":
    """Show what is in a person's calendar on a day.

    person: first name in small letters
    day: monday to friday
    """
    if person not in world["agendas"] or day not in world["agendas"][person]:
        raise ValueError("there is no such person or day")
    return world["agendas"][person][day]


def rooms(world: "World", day: str) -> "Any":
    """Show all rooms, their seats, and when they are taken on a day.

    day: monday to friday
    """
    found = world["rooms"].items()
    return [{"room": name, "seats": one["seats"], "taken": one["taken"].get(day, [])} for name, one in found]


def book(world: "World", title: str, day: str, time: str, people: "list[str]", room: str) -> "Any":  # noqa: PLR0917  a tool
    """Book a meeting and invite people.

    title: what it is called
    day: monday to friday
    time: HH:MM-HH:MM
    people: first names in small letters
    room: name of the room
    """
    if room not in world["rooms"] or any(person not in world["agendas"] for person in people):
        raise ValueError("there is no such room or person")
    if len(time) != 11 or time[5] != "-" or not time[:5] < time[6:]:
        raise ValueError("time is not HH:MM-HH:MM")
    name = f"meeting-{len(world['booked']) + 1}"
    world["booked"][name] = {"title": title, "when": f"{day} {time}", "people": sorted(people), "room": room}
    return name


def cancel(world: "World", meeting: str) -> "Any":
    """Cancel a meeting that you booked.

    meeting: as book returned it
    """
    if world["booked"].pop(meeting, None) is None:
        raise ValueError("there is no such meeting")
    return "cancelled"


class Found(msgspec.Struct, frozen=True):
    """When and where."""

    day: str
    start: int
    end: int
    room: str

    @property
    def time(self) -> str:
        """Return the time of day."""
        return f"{clock(self.start)}-{clock(self.end)}"

    @property
    def when(self) -> str:
        """Return the time as the world holds it."""
        return f"{self.day} {self.time}"


@domain(family="agent", levels=4, max_tokens=256)
def agent_calendar(rng: random.Random, level: int) -> Item:
    """Find the first time at which all can meet, and a room, and book it."""
    num = 2 + level
    people, days = sorted(rng.sample(PEOPLE, num)), list(DAYS[: 1 + level])
    minutes = rng.choice((30, 60, 90))
    found = None
    while found is None:
        world = draw_world(rng, level, days)
        for day in days[:-1]:
            if rng.random() < 0.75:
                world["agendas"][rng.choice(people)][day] = [
                    {"time": "09:00-17:00", "what": "away", "tentative": False}
                ]
        found = first_time(world, people, days, minutes, seats_for=num)
    title = rng.choice(TOPICS)
    execution = world_tools(agenda, rooms, book, cancel, world=world)
    tentative = " Entries that are tentative do not count as busy." if level > 0 else ""
    question = (
        f'Book "{title}", {minutes} minutes, for {", ".join(people)}: the first time from {days[0]} to {days[-1]} '
        "between 09:00 and 17:00, beginning on the full or half hour, at which all of them are free and there is a "
        f"room with a seat for each; take the smallest such room.{tentative} Book it once, and tell me when and where "
        "it is."
    )
    looks = [call("agenda", person=person, day=found.day) for person in people] + [call("rooms", day=found.day)]
    fields = {"title": title, "day": found.day, "people": people}
    booking = call("book", **fields, time=found.time, room=found.room)
    other = call("book", **fields, time=found.time, room=other_room(found.room))
    untitled = call("book", **fields | {"title": "Meeting"}, time=found.time, room=found.room)
    late = call("book", **fields, time="16:40-17:50", room=found.room)
    place = ("booked", "meeting-1")
    return Item(
        prompt=asked(rng, question, execution),
        gold=(*looks, booking, f"{found.when}, {found.room}"),
        verifier=judged_by(
            only("one meeting", ("booked",), ["meeting-1"]),
            goal("when", (*place, "when"), found.when, weight=2.0),
            goal("people", (*place, "people"), people, after=1.0),
            goal("room", (*place, "room"), found.room, after=1.0),
            goal("title", (*place, "title"), title, after=1.0),
            frugal(len(days) * (num + 1) + 3),
        ),
        execution=execution,
        max_turns=6 + len(days) * (num + 1),
        partials=((other, "It is booked."), (untitled, "It is booked.")),
        wrongs=((*looks, "It is booked."), (late, "It is booked."), (booking, booking, "It is booked twice.")),
        difficulty=num * len(days),
    )


def draw_world(rng: random.Random, level: int, days: list[str]) -> World:
    """Return calendars and rooms that are full at times."""
    agendas = {
        person: {day: draw_day(rng, rng.randint(2, 3 + level // 2), level > 0) for day in days} for person in PEOPLE
    }
    taken = {room: {day: [one["time"] for one in draw_day(rng, 2 + level, False)] for day in days} for room in ROOMS}
    return {
        "agendas": agendas,
        "rooms": {room: {"seats": seats, "taken": taken[room]} for room, seats in ROOMS.items()},
        "booked": {},
    }


def draw_day(rng: random.Random, num: int, has_tentative: bool) -> list[dict[str, Any]]:
    """Return entries of a day in order, which do not overlap."""
    entries: list[Span] = []
    for _ in range(num):
        start = rng.randrange(FIRST, LAST - GRID, GRID)
        span = (start, min(LAST, start + rng.choice((30, 60, 90, 120))))
        if all(span[1] <= one[0] or one[1] <= span[0] for one in entries):
            entries.append(span)
    return [
        {
            "time": f"{clock(start)}-{clock(end)}",
            "what": rng.choice(("call", "1:1", "focus", "customer", "lunch", "training")),
            "tentative": has_tentative and rng.random() < 0.25,
        }
        for start, end in sorted(entries)
    ]


def first_time(world: World, people: list[str], days: list[str], minutes: int, *, seats_for: int) -> Found | None:
    """Return the first time at which all are free and a room is, None where there is none."""
    for day in days:
        busy = [
            span_of(one["time"]) for person in people for one in world["agendas"][person][day] if not one["tentative"]
        ]
        for start in range(FIRST, LAST - minutes + 1, GRID):
            end = start + minutes
            if any(start < stop and begin < end for begin, stop in busy):
                continue
            for room, seats in sorted(ROOMS.items(), key=lambda one: one[1]):
                taken = map(span_of, world["rooms"][room]["taken"][day])
                if seats >= seats_for and not any(start < stop and begin < end for begin, stop in taken):
                    return Found(day, start, end, room)
    return None


def span_of(text: str) -> Span:
    """Return HH:MM-HH:MM in minutes."""
    first, last = ((int(one[:2]) * 60 + int(one[3:])) for one in text.split("-"))
    return first, last


def clock(minutes: int) -> str:
    """Return minutes as HH:MM."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def other_room(room: str) -> str:
    """Return another room."""
    return next(one for one in ROOMS if one != room)
