"""A service with pages, names that lead from one call to the next, and answers that have to be asked for again."""

import random
from typing import Any

from producers.domains.agent.goals import World, asked, call, frugal, goal, judged_by, only
from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.tools import world_tools
from schemas.parts import Part

CUSTOMERS = (
    "Arden Foods",
    "Blythe Motors",
    "Corvid Press",
    "Dalton Mills",
    "Eastgate Labs",
    "Farrow Toys",
    "Gale Marine",
)
STATES = ("open", "open", "paid", "disputed")
MANUAL = (
    "GET /customers?page=N, GET /customers/ID/invoices?page=N, GET /invoices/ID, POST /batches with "
    '{"customer": ID, "invoices": [IDs]}, POST /batches/ID/confirm with {"token": TOKEN of the batch}'
)


def request(world: "World", method: str, path: str, body: "dict[str, Any]" = {}) -> "Any":  # noqa: B006  a tool
    """Call the service; it answers with a status and a body. A status of 503 means: try again.

    method: GET or POST
    path: path with its query
    body: object that is sent along
    """
    place, _, query = path.partition("?")
    names = [name for name in place.split("/") if name]
    if place in world["shaky"]:
        world["shaky"].remove(place)
        return {"status": 503, "body": {"error": "busy, try again"}}
    page = int(query.removeprefix("page=") or 1) if query.startswith("page=") or not query else 1

    def paged(rows: "list[Any]") -> "Any":
        more = page * world["size"] < len(rows)
        part = rows[(page - 1) * world["size"] : page * world["size"]]
        return {"status": 200, "body": {"items": part, "next_page": page + 1 if more else None}}

    if method == "GET" and names == ["customers"]:
        return paged([{"id": one["id"], "name": one["name"]} for one in world["customers"]])
    if method == "GET" and len(names) == 3 and names[0] == "customers" and names[2] == "invoices":
        return paged([one["id"] for one in world["invoices"] if one["customer"] == names[1]])
    if method == "GET" and len(names) == 2 and names[0] == "invoices":
        found = [one for one in world["invoices"] if one["id"] == names[1]]
        return {"status": 200, "body": found[0]} if found else {"status": 404, "body": {}}
    if method == "POST" and names == ["batches"] and isinstance(body.get("invoices"), list):
        name = f"b{len(world['batches']) + 1}"
        invoices = sorted(set(map(str, body["invoices"])))
        world["batches"][name] = {"customer": body.get("customer"), "invoices": invoices, "confirmed": False}
        return {"status": 201, "body": {"id": name, "token": world["tokens"][len(world["batches"]) % 5]}}
    if method == "POST" and len(names) == 3 and names[0] == "batches" and names[2] == "confirm":
        batch = world["batches"].get(names[1])
        if batch is None or body.get("token") != world["tokens"][int(names[1][1:]) % 5]:
            return {"status": 403, "body": {"error": "wrong token"}}
        batch["confirmed"] = True
        return {"status": 200, "body": {"receipt": world["receipt"]}}
    return {"status": 404, "body": {"error": "no such path"}}


@domain(family="agent", levels=4, max_tokens=256)
def agent_api_workflow(rng: random.Random, level: int) -> Item:
    """Go through the pages of a service, and through its calls, to a receipt."""
    world, customer, chosen, day = draw_world(rng, level)
    execution = world_tools(request, world=world)
    name = customer["name"]
    question = (
        f"The service at hand has these calls: {MANUAL}. Lists come in pages. Pay all open invoices of {name} that are "
        f"due by day {day} (that day included): put exactly these into one batch, confirm it, and answer with the "
        "receipt on the last line."
    )
    pages = -(-len(world["customers"]) // world["size"])
    mine = [one["id"] for one in world["invoices"] if one["customer"] == customer["id"]]
    paths = [f"/customers?page={page}" for page in range(1, pages + 1)]
    paths += [
        f"/customers/{customer['id']}/invoices?page={page}" for page in range(1, -(-len(mine) // world["size"]) + 1)
    ]
    paths += [f"/invoices/{one}" for one in mine]
    shaky = list(world["shaky"])
    looks = []
    for path in paths:
        place = path.partition("?")[0]
        looks += [call("request", method="GET", path=path)] * (1 + (place in shaky))
        shaky = [one for one in shaky if one != place]
    body = {"customer": customer["id"], "invoices": chosen}
    posts = [call("request", method="POST", path="/batches", body=body)] * (1 + ("/batches" in shaky))
    token = {"token": world["tokens"][1]}
    confirm = call("request", method="POST", path="/batches/b1/confirm", body=token)
    confirms = [confirm] * (1 + ("/batches/b1/confirm" in shaky))
    batch = ("batches", "b1")
    answer = Part(kind="exact", name="receipt", extract="last_line", expected=world["receipt"], after=0.7)
    everything = call("request", method="POST", path="/batches", body=body | {"invoices": mine})
    return Item(
        prompt=asked(rng, question, execution),
        gold=(*looks, *posts, *confirms, world["receipt"]),
        verifier=judged_by(
            only("one batch", ("batches",), ["b1"]),
            goal("invoices", (*batch, "invoices"), chosen, weight=2.0),
            goal("customer", (*batch, "customer"), customer["id"], after=0.9),
            goal("confirmed", (*batch, "confirmed"), True, after=0.9),
            answer,
            frugal(len(looks) + len(shaky) + 8),
        ),
        execution=execution,
        max_turns=2 * len(looks) + 10,
        partials=((*posts, "The batch is made."),),
        wrongs=(
            (*looks, world["receipt"]),
            (*([everything] * len(posts)), *confirms, world["receipt"]),
            (call("request", method="GET", path="/customers"), "paid"),
        ),
        difficulty=len(looks) + level,
    )


def draw_world(rng: random.Random, level: int) -> tuple[World, dict[str, str], list[str], int]:
    """Return the service, whose customer is asked for, which invoices are to be paid, and by when they are due."""
    names = rng.sample(CUSTOMERS, 4 + level)
    numbers = iter(rng.sample(range(1000, 9999), 200))
    customers = [{"id": f"c{next(numbers)}", "name": name} for name in names]
    customer, day = customers[-1 - rng.randrange(2)], rng.randint(8, 20)
    invoices = [
        {
            "id": f"i{next(numbers)}",
            "customer": one["id"],
            "state": rng.choice(STATES),
            "due_day": rng.randint(1, 28),
            "euros": rng.randint(20, 4000),
        }
        for one in customers
        for _ in range(3 + level if one is customer else 2)
    ]
    mine = [one for one in invoices if one["customer"] == customer["id"]]
    mine[0] |= {"state": "open", "due_day": day}
    mine[1] |= {"state": "open", "due_day": day + 1}
    chosen = sorted(str(one["id"]) for one in mine if one["state"] == "open" and one["due_day"] <= day)  # type: ignore[operator]
    shaky = rng.sample(["/batches", "/batches/b1/confirm", f"/invoices/{mine[0]['id']}", "/customers"], level)
    world = {
        "size": 3,
        "customers": customers,
        "invoices": invoices,
        "shaky": sorted(shaky),
        "batches": {},
        "tokens": [f"t-{rng.randrange(16**8):08x}" for _ in range(5)],
        "receipt": f"R-{rng.randrange(10**8):08d}",
    }
    return world, customer, chosen, day
