"""Problems on grids and graphs: islands, paths, shifts, build orders, groups, expressions."""

import random
from typing import Any

from producers.domains.code.problem import Plan

NODES = ("api", "auth", "cart", "core", "docs", "mail", "pay", "ui")


def draw_map(rng: random.Random) -> list[Any]:
    """Draw a grid of 0 and 1."""
    width, share = rng.randint(3, 6), rng.uniform(0.35, 0.65)
    return [[[int(rng.random() < share) for _ in range(width)] for _ in range(rng.randint(3, 5))]]


def draw_costs(rng: random.Random) -> list[Any]:
    """Draw a grid of costs."""
    width = rng.randint(2, 5)
    return [[[rng.randint(1, 9) for _ in range(width)] for _ in range(rng.randint(2, 5))]]


def draw_needs(rng: random.Random) -> list[Any]:
    """Draw pairs of parts of which the first needs the second, mostly without a cycle."""
    nodes = rng.sample(NODES, rng.randint(4, 7))
    pairs = []
    for place, node in enumerate(nodes[1:], start=1):
        pairs += [[node, other] for other in rng.sample(nodes[:place], min(place, rng.randint(1, 2)))]
    if rng.random() < 0.2:
        pairs.append([nodes[0], nodes[-1]])
    rng.shuffle(pairs)
    return [pairs]


def draw_roads(rng: random.Random) -> list[Any]:
    """Draw roads with lengths, and two towns."""
    nodes = NODES[: rng.randint(4, 7)]
    roads = []
    for place, node in enumerate(nodes[1:], start=1):
        roads.append([node, rng.choice(nodes[:place]), rng.randint(1, 12)])
        if rng.random() < 0.8:
            roads.append([*rng.sample(nodes, 2), rng.randint(1, 12)])
    first, last = rng.sample(nodes, 2)
    return [roads, first, last]


def draw_links(rng: random.Random) -> list[Any]:
    """Draw pairs of numbers that belong together."""
    return [[rng.sample(range(1, 12), 2) for _ in range(rng.randint(3, 8))]]


def draw_expression(rng: random.Random) -> list[Any]:
    """Draw an expression in reverse order."""
    tokens: list[str] = []
    depth = 0
    for _ in range(rng.randint(5, 11)):
        if depth >= 2 and rng.random() < 0.5:
            tokens.append(rng.choice("+-*~"))
            depth -= 1
        else:
            tokens.append(str(rng.randint(1, 12)))
            depth += 1
    return [tokens + [rng.choice("+-*~") for _ in range(depth - 1)]]


PLANS = (
    Plan(
        name="island_sizes",
        params=(("grid", "rows"),),
        returns="ints",
        statement="""The grid holds 0 (water) and 1 (land). Cells of land belong to one island where they touch $touch.
Return $what.""",
        source="""
def island_sizes(grid):
    steps = [(0, 1), (1, 0), (0, -1), (-1, 0)$more]
    left = {(y, x) for y, row in enumerate(grid) for x, cell in enumerate(row) if cell == 1}
    sizes = []
    while left:
        todo = [min(left)]
        left.remove(todo[0])
        size = 0
        while todo:
            y, x = todo.pop()
            size += 1
            for down, right in steps:
                near = (y + down, x + right)
                if near in left:
                    left.remove(near)
                    todo.append(near)
        sizes.append(size)
    return $result
""",
        draw=draw_map,
        choices=(
            (
                {"touch": "at a side", "more": ""},
                {"touch": "at a side or a corner", "more": ", (1, 1), (1, -1), (-1, 1), (-1, -1)"},
            ),
            (
                {"what": "the sizes of all islands, largest first", "result": "sorted(sizes, reverse=True)"},
                {
                    "what": "[number of islands, size of the largest], [0, 0] where there is no land",
                    "result": "[len(sizes), max(sizes, default=0)]",
                },
                {
                    "what": "the sizes of islands of more than one cell, smallest first",
                    "result": "sorted(size for size in sizes if size > 1)",
                },
            ),
        ),
        level=3,
    ),
    Plan(
        name="cheapest_path",
        params=(("grid", "rows"),),
        returns="int",
        statement="""Each cell of the grid costs what it says to enter; the first cell is $first. Return the least cost
of a way from the top left to the bottom right that only goes $moves.""",
        source="""
def cheapest_path(grid):
    best = {}
    for y, row in enumerate(grid):
        for x, cost in enumerate(row):
            before = [best[y - down, x - right] for down, right in $steps if (y - down, x - right) in best]
            if y == 0 and x == 0:
                best[0, 0] = $start
            elif before:
                best[y, x] = min(before) + cost
    return best.get((len(grid) - 1, len(grid[0]) - 1), -1)
""",
        draw=draw_costs,
        choices=(
            ({"first": "free", "start": "0"}, {"first": "paid for too", "start": "cost"}),
            (
                {"moves": "right or down", "steps": "((0, 1), (1, 0))"},
                {"moves": "right, down, or diagonally right and down", "steps": "((0, 1), (1, 0), (1, 1))"},
                {
                    "moves": "down or diagonally right and down (-1 where there is no way)",
                    "steps": "((1, 0), (1, 1))",
                },
            ),
        ),
        level=2,
    ),
    Plan(
        name="turn_table",
        params=(("grid", "rows"),),
        returns="rows",
        statement="""Return the table $turn$then.""",
        source="""
def turn_table(grid):
    turned = $code
    return $after
""",
        draw=draw_costs,
        choices=(
            (
                {
                    "turn": "turned by a quarter clockwise",
                    "code": "[list(column) for column in zip(*reversed(grid))]",
                },
                {
                    "turn": "turned by a quarter counter-clockwise",
                    "code": "[list(column) for column in reversed(list(zip(*grid)))]",
                },
                {
                    "turn": "mirrored left to right",
                    "code": "[row[::-1] for row in grid]",
                },
                {
                    "turn": "with each row shifted to the right by its index (from 0), what falls out coming in again",
                    "code": "[row[-y % len(row):] + row[:-y % len(row)] for y, row in enumerate(grid)]",
                },
            ),
            (
                {"then": "", "after": "turned"},
                {
                    "then": ", and with the sum of each row appended to it",
                    "after": "[row + [sum(row)] for row in turned]",
                },
                {
                    "then": ", its rows then sorted by their largest number, from low to high (equal ones stay)",
                    "after": "sorted(turned, key=max)",
                },
            ),
        ),
        level=0,
    ),
    Plan(
        name="build_order",
        params=(("needs", "records"),),
        returns="words",
        statement="""Each pair [part, other] says that `part` needs `other` to be built before it. Return an order in
which all parts that occur can be built; where several are ready, the $which in the alphabet comes first. Where there
is a cycle, return $cycle.""",
        source="""
def build_order(needs):
    parts = {name for pair in needs for name in pair}
    waits = {part: {other for one, other in needs if one == part} for part in parts}
    order = []
    while waits:
        ready = [part for part, others in waits.items() if not others - set(order)]
        if not ready:
            return $result
        chosen = $pick(ready)
        order.append(chosen)
        del waits[chosen]
    return order
""",
        draw=draw_needs,
        choices=(
            ({"which": "first", "pick": "min"}, {"which": "last", "pick": "max"}),
            (
                {"cycle": "an empty list", "result": "[]"},
                {"cycle": "the parts that cannot be built, in alphabetical order", "result": "sorted(waits)"},
            ),
        ),
        level=3,
    ),
    Plan(
        name="shortest_way",
        params=(("roads", "records"), ("start", "str"), ("goal", "str")),
        returns="int",
        statement="""Roads are [town, town, length] and can be driven $ways. Passing through a town (neither the first
nor the last) costs $toll more. Return the least cost from `start` to `goal`, -1 where there is no way.""",
        source="""
def shortest_way(roads, start, goal):
    cost = {start: 0}
    done = set()
    while len(done) < len(cost):
        town = min((one for one in cost if one not in done), key=lambda one: (cost[one], one))
        done.add(town)
        if town == goal:
            break
        for one, other, length in roads:
            for here, there in $pairs:
                if here == town:
                    new = cost[town] + length + (0 if town == start else $toll)
                    if new < cost.get(there, new + 1):
                        cost[there] = new
    return cost.get(goal, -1)
""",
        draw=draw_roads,
        choices=(
            (
                {"ways": "both ways", "pairs": "((one, other), (other, one))"},
                {"ways": "from the first town to the second only", "pairs": "((one, other),)"},
            ),
            tuple({"toll": toll} for toll in (0, 1, 3)),
        ),
        level=3,
    ),
    Plan(
        name="grouped_accounts",
        params=(("links", "rows"),),
        returns="rows",
        statement="""Each pair of numbers says that two accounts belong to one owner; that goes on from one to the next.
Return the accounts of each owner in ascending order, owners $order.""",
        source="""
def grouped_accounts(links):
    groups = []
    for pair in links:
        joined = set(pair)
        others = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                others.append(group)
        groups = others + [joined]
    return sorted((sorted(group) for group in groups), key=lambda group: $key)
""",
        draw=draw_links,
        choices=(
            (
                {"order": "by their smallest account", "key": "group[0]"},
                {"order": "with more accounts first, else by their smallest", "key": "(-len(group), group[0])"},
                {"order": "by the sum of their accounts, else by their smallest", "key": "(sum(group), group[0])"},
            ),
        ),
        level=2,
    ),
    Plan(
        name="stack_machine",
        params=(("tokens", "words"),),
        returns="int",
        statement="""Tokens are whole numbers and signs. A number is put on a stack; a sign takes the two topmost (b on
top, a below) and puts back: + is a + b, - is $minus, * is a * b, and ~ is $tilde. A result $bound is put back as
$value instead. Return what is on top at the end.""",
        source="""
def stack_machine(tokens):
    stack = []
    for token in tokens:
        if token.isdigit():
            stack.append(int(token))
            continue
        b, a = stack.pop(), stack.pop()
        if token == "+":
            result = a + b
        elif token == "-":
            result = $minus
        elif token == "*":
            result = a * b
        else:
            result = $code
        stack.append($value if result $test else result)
    return stack[-1]
""",
        draw=draw_expression,
        choices=(
            ({"minus": "a - b"}, {"minus": "b - a"}),
            (
                {"tilde": "the larger one", "code": "max(a, b)"},
                {"tilde": "the smaller one", "code": "min(a, b)"},
                {"tilde": "the distance between them", "code": "abs(a - b)"},
            ),
            (
                {"bound": "above 500", "test": "> 500", "value": 500},
                {"bound": "below 0", "test": "< 0", "value": 0},
                {"bound": "of 100 or more", "test": ">= 100", "value": 99},
            ),
        ),
        level=2,
    ),
)
