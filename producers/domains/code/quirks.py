"""Small programs that turn on a rule of Python: what is shared, what is bound when, how numbers and slices go."""

import random

from producers.domains.code.problem import compiled

VALUES = range(2, 20)
SNIPPETS = (
    """def add(item, seen{n}=[]):
    seen{n}.append(item * {a})
    return seen{n}

add({b})
first{n} = add({c})
out.append(len(first{n}) + add({d})[0])""",
    """rows{n} = [[{a}, {b}]] * {k}
rows{n}[0][1] += {c}
out.append(sum(row[1] for row in rows{n}))""",
    """calls{n} = [lambda x: x * i for i in range({k})]
out.append([call({a}) for call in calls{n}][0] + {b})""",
    """out.append((-{a} // {b}, -{a} % {b}, int(-{a} / {b})))""",
    """numbers{n} = [{a}, {b}, {c}, {d}, {e}]
out.append(numbers{n}[-{k}:] + numbers{n}[::-2])""",
    """text{n} = "{word}"
out.append(text{n}[1:-1].replace(text{n}[{k}], text{n}[0]).title())""",
    """total{n} = 0
for i in range({a}, {a} + {k}):
    if i % 3 == 0:
        continue
    total{n} += i
else:
    total{n} *= 2
out.append(total{n})""",
    """left{n} = {{"a": {a}, "b": {b}}}
right{n} = left{n}
left{n} = left{n} | {{"b": {c}}}
right{n}["a"] -= {d}
out.append([left{n}["a"], left{n}["b"], right{n}["a"], right{n}["b"]])""",
    """def steps{n}():
    for i in range({k}):
        got = yield i * {a}
source{n} = steps{n}()
next(source{n})
out.append(next(source{n}) + sum(source{n}))""",
    """try:
    out.append({a} // ({b} - {b}))
except ZeroDivisionError:
    out.append("{word}"[:{k}])
finally:
    out.append({c})""",
    """x{n} = {a}
def outer{n}():
    x{n} = {b}
    def inner():
        nonlocal x{n}
        x{n} += {c}
        return x{n}
    return inner() + x{n}
out.append((outer{n}(), x{n}))""",
    """a, *b, c = range({a}, {a} + {k} + 2)
out.append([c, b[-1], len(b)])""",
    """out.append(bool({a} and 0 or []) + ({b} or {c}) + (0 and {d}))""",
    """pairs{n} = sorted([({a}, "{word}"), ({b}, "b"), ({a}, "c")], key=lambda pair: -pair[0])
out.append([name for _, name in pairs{n}])""",
    """counts{n} = {{}}
for char in "{word}{word2}":
    counts{n}[char] = counts{n}.get(char, 0) + 1
out.append(max(counts{n}, key=counts{n}.get) + str(len(counts{n})))""",
    """items{n} = [{a}, {b}, {c}, {d}, {e}]
for item in items{n}:
    if item % 2 == 0:
        items{n}.remove(item)
out.append(items{n})""",
    """class Base{n}:
    size = {a}
    def area(self):
        return self.size * {b}

class Sub{n}(Base{n}):
    size = {c}

sub{n} = Sub{n}()
Base{n}.size = {d}
sub{n}.size += 1
out.append([sub{n}.area(), Sub{n}.size, Base{n}().area()])""",
)
WORDS = ("banana", "python", "letters", "sorted", "program", "mirror", "silver", "lantern")


def draw_quirk(rng: random.Random, num: int) -> tuple[str, str, list[str], float]:
    """Return a program of `num` snippets, what it prints, wrong guesses at that, and how much has to be got right."""
    parts = []
    for number, snippet in enumerate(rng.sample(SNIPPETS, num)):
        a, b, c, d, e = rng.sample(VALUES, 5)
        word, word2 = rng.sample(WORDS, 2)
        parts.append(snippet.format(n=number, a=a, b=b, c=c, d=d, e=e, k=rng.randint(2, 4), word=word, word2=word2))
    program = "out = []\n\n" + "\n\n".join(parts) + "\n\nprint(out)\n"
    space: dict[str, object] = {"_tick": lambda: None, "print": lambda *_: None}
    exec(compiled(program), space)  # noqa: S102  this package's own program
    out = space["out"]
    assert isinstance(out, list)
    return program, str(out), ["[]", str(out[:-1]), str(list(reversed(out)))], 3.0 * num
