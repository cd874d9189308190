"""Trips to be booked within a budget."""

import random
from itertools import pairwise
from typing import Any

import msgspec

from producers.domains.agent.goals import World, asked, call, forbidden, frugal, goal, judged_by, only
from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.tools import world_tools

CITIES = ("Lisbon", "Vienna", "Tallinn", "Athens", "Dublin", "Krakow", "Bergen", "Malta", "Zagreb")
HOTELS = ("Central", "Riverside", "Garden", "Old Mill", "Park", "Station", "Harbour", "Lion")


def flights(world: "World", origin: str, destination: str, day: int) -> "Any":
    """List flights: id, departure and arrival (HH:MM), stops, price in euros.

    origin: city
    destination: city
    day: day of the month
    """
    wanted = (origin, destination, day)
    found = [one for one in world["flights"] if (one["origin"], one["destination"], one["day"]) == wanted]
    return [{name: one[name] for name in ("id", "departs", "arrives", "stops", "euros")} for one in found]


def hotels(world: "World", city: str) -> "Any":
    """List hotels of a city: id, name, stars, metres from the centre, price in euros a night.

    city: the city
    """
    found = [one for one in world["hotels"] if one["city"] == city]
    return [{name: one[name] for name in ("id", "name", "stars", "metres", "euros")} for one in found]


def book_flight(world: "World", flight: str) -> "Any":
    """Book a flight.

    flight: id of the flight
    """
    found = [one for one in world["flights"] if one["id"] == flight]
    if not found or flight in world["booked"]:
        raise ValueError("there is no such flight, or it is booked already")
    world["booked"][flight] = 1
    world["spent"] += found[0]["euros"]
    return {"booked": flight, "spent": world["spent"]}


def book_hotel(world: "World", hotel: str, nights: int) -> "Any":
    """Book a hotel from the day of arrival.

    hotel: id of the hotel
    nights: how many
    """
    found = [one for one in world["hotels"] if one["id"] == hotel]
    if not found or hotel in world["booked"] or nights < 1:
        raise ValueError("there is no such hotel, or it is booked already")
    world["booked"][hotel] = nights
    world["spent"] += nights * found[0]["euros"]
    return {"booked": hotel, "spent": world["spent"]}


class Stay(msgspec.Struct, frozen=True):
    """A city of the trip, when one arrives there, and for how long."""

    city: str
    day: int
    nights: int


@domain(family="agent", levels=4, max_tokens=256)
def agent_travel_budget(rng: random.Random, level: int) -> Item:
    """Book flights and hotels that fit what is asked for, as cheaply as possible."""
    num = 1 + (level + 1) // 2
    home, *cities = rng.sample(CITIES, num + 1)
    stays, day = [], rng.randint(2, 9)
    for city in cities:
        stays.append(Stay(city, day, rng.randint(2, 4)))
        day += stays[-1].nights
    legs = [(*pair, one.day) for pair, one in zip(pairwise([home, *cities]), stays, strict=False)]
    legs += [(cities[-1], home, day)]
    latest, stops, stars = rng.choice(("14:00", "17:00", "20:00")), rng.choice((0, 1)), rng.choice((3, 4))
    far = rng.choice((800, 1500))
    world = draw_world(rng, legs, cities, 4 + level)
    chosen = choose(rng, world, legs, cities, (latest, stops, stars, far))
    cost = sum(one["euros"] for one in chosen[: len(legs)])
    cost += sum(one["euros"] * stay.nights for one, stay in zip(chosen[len(legs) :], stays, strict=True))
    budget = cost + rng.randint(1, 30)
    route = ", ".join(f"{one.nights} nights in {one.city} from day {one.day}" for one in stays)
    question = (
        f"Book a trip from {home}: {route}; then back to {home} on day {day}. Of each flight the cheapest that "
        f"arrives by {latest} with at most {stops} stop(s); of each city the cheapest hotel with at least {stars} "
        f"stars that is at most {far} metres from the centre. All of it may cost {budget} euros at most. Bookings "
        "cannot be taken back. Tell me what it costs."
    )
    execution = world_tools(flights, hotels, book_flight, book_hotel, world=world)
    looks = [call("flights", origin=a, destination=b, day=when) for a, b, when in legs]
    looks += [call("hotels", city=city) for city in cities]
    nights = [0] * len(legs) + [one.nights for one in stays]
    books = [
        call("book_hotel", hotel=one["id"], nights=many) if many else call("book_flight", flight=one["id"])
        for one, many in zip(chosen, nights, strict=True)
    ]
    ids = [one["id"] for one in chosen]
    goals = [goal(name, ("booked", name), max(many, 1)) for name, many in zip(ids, nights, strict=True)]
    other = next(one["id"] for one in world["flights"] if one["id"] not in ids)
    return Item(
        prompt=asked(rng, question, execution),
        gold=(*looks, *books, f"It costs {cost} euros."),
        verifier=judged_by(
            forbidden("over budget", ("spent",), {"exclusiveMinimum": budget}),
            only("nothing else", ("booked",), ids),
            *goals,
            frugal(len(looks) + 2 * len(books)),
        ),
        execution=execution,
        max_turns=2 * (len(looks) + len(books)) + 2,
        partials=((*books[:-1], "Nearly all is booked."),),
        wrongs=((*looks, f"It costs {cost} euros."), (call("book_flight", flight=other), *books, "Done.")),
        difficulty=len(goals) + level,
    )


def draw_world(rng: random.Random, legs: list[tuple[str, str, int]], cities: list[str], num: int) -> World:
    """Return flights and hotels, those of other days and cities among them."""
    numbers = iter(rng.sample(range(100, 999), 300))
    prices = rng.sample(range(40, 420), 200)
    found: World = {"flights": [], "hotels": [], "booked": {}, "spent": 0}
    for origin, destination, day in legs:
        for _ in range(num):
            departs = rng.randrange(6 * 60, 18 * 60, 5)
            stops = rng.choice((0, 0, 1, 2))
            arrives = departs + 90 + 70 * stops + rng.randrange(0, 60, 5)
            found["flights"].append(
                {
                    "id": f"F{next(numbers)}",
                    "origin": origin,
                    "destination": destination,
                    "day": day + (rng.random() < 0.15),
                    "departs": f"{departs // 60:02d}:{departs % 60:02d}",
                    "arrives": f"{arrives // 60:02d}:{arrives % 60:02d}",
                    "stops": stops,
                    "euros": prices.pop(),
                }
            )
    for city in cities:
        found["hotels"] += [
            {
                "id": f"H{next(numbers)}",
                "city": city,
                "name": f"{rng.choice(HOTELS)} {city}",
                "stars": rng.choice((2, 3, 3, 4, 5)),
                "metres": rng.randrange(100, 3000, 50),
                "euros": prices.pop(),
            }
            for _ in range(num)
        ]
    return found


def choose(
    rng: random.Random,
    world: World,
    legs: list[tuple[str, str, int]],
    cities: list[str],
    limits: tuple[str, int, int, int],
) -> list[dict[str, Any]]:
    """Return what is to be booked, flights first; where nothing fits, something is made to fit."""
    latest, stops, stars, far = limits
    chosen = []
    for origin, destination, day in legs:
        of_leg = [one for one in world["flights"] if (one["origin"], one["destination"]) == (origin, destination)]
        if not any(one["day"] == day and one["arrives"] <= latest and one["stops"] <= stops for one in of_leg):
            rng.choice(of_leg).update(day=day, departs="08:10", arrives="11:40", stops=0)
        fitting = [one for one in of_leg if one["day"] == day and one["arrives"] <= latest and one["stops"] <= stops]
        chosen.append(min(fitting, key=lambda one: int(one["euros"])))
    for city in cities:
        of_city = [one for one in world["hotels"] if one["city"] == city]
        if not any(one["stars"] >= stars and one["metres"] <= far for one in of_city):
            rng.choice(of_city).update(stars=stars, metres=far - 100)
        fitting = [one for one in of_city if one["stars"] >= stars and one["metres"] <= far]
        chosen.append(min(fitting, key=lambda one: int(one["euros"])))
    return chosen
