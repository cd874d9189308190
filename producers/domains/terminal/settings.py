"""A service's settings that its checker refuses; what is right follows from the papers beside them."""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

from producers.domains.catalogue import domain
from producers.domains.interface import Item
from producers.domains.terminal.checker import CHECKER
from producers.domains.terminal.verdicts import asked, bash, heredoc, machine, untouched
from schemas.parts import Part
from schemas.tasks import VerifierSpec

SERVICES = ("billing", "search", "users", "images", "mail", "ledger", "reports", "tickets")
REGIONS = ("eu-1", "eu-2", "us-1", "ap-1")
Config = dict[str, Any]
Fault = tuple[tuple[str, ...], Callable[[random.Random, Config], Any]]
FAULTS: tuple[Fault, ...] = (
    (("port",), lambda rng, config: config["port"] + rng.choice((-1, 1, 10))),
    (("port",), lambda rng, config: str(config["port"])),
    (("region",), lambda rng, config: config["region"].replace("-", "_")),
    (("region",), lambda rng, config: rng.choice([one for one in REGIONS if one != config["region"]])),
    (("upstream", "url"), lambda rng, config: config["upstream"]["url"].replace("http:", "htp:")),
    (("upstream", "url"), lambda rng, config: config["upstream"]["url"].replace(".internal", "")),
    (("upstream", "timeout_ms"), lambda rng, config: config["upstream"]["timeout_ms"] * 10),
    (("limits", "memory_mb"), lambda rng, config: config["limits"]["memory_mb"] * 2),
    (("limits", "workers"), lambda rng, config: -config["limits"]["workers"]),
    (("limits", "workers"), lambda rng, config: config["limits"]["workers"] + 5),
    (("log", "level"), lambda rng, config: rng.choice(("verbose", "INFO ", "warn"))),
    (("log", "file"), lambda rng, config: "/var/lib/log/" + config["log"]["file"].rpartition("/")[2]),
    (("owner",), lambda rng, config: config["owner"].replace("team-", "")),
)


@domain(family="terminal", levels=4, max_tokens=1024)
def terminal_config_fix(rng: random.Random, level: int) -> Item:
    """Repair settings so that the checker accepts them and they agree with the papers."""
    config, papers = draw_service(rng)
    faults = draw_faults(rng, level + 2)
    broken = copy.deepcopy(config)
    for path, spoil in faults:
        put(broken, path, spoil(rng, config))
    name = config["name"]
    target = f"conf/{name}.json"
    files = {target: json.dumps(broken, indent=2) + "\n", "check.py": CHECKER, **papers}
    execution = machine(files)
    question = (
        f"The settings of the service {name} were edited by hand and have {len(faults)} faults. Repair {target}, by "
        "what registry.csv, limits.csv and POLICY.md say, and leave what is right as it is. `python3 check.py FILE` "
        "tells of one fault at a time, and finds only some of those that disagree with the papers. Say when it is "
        "done."
    )
    goals = tuple(holds(target, path, config) for path in dict.fromkeys(path for path, _ in faults))
    rest = set(all_paths(config)) - {path for path, _ in faults}
    gates = (untouched("check.py", CHECKER), kept(target, sorted(rest), config))
    half = copy.deepcopy(broken)
    put(half, faults[0][0], value_at(config, faults[0][0]))
    return Item(
        prompt=asked(rng, question, execution),
        gold=(
            bash(f"python3 check.py {target}; cat {target} *.csv POLICY.md"),
            bash(f"{heredoc(target, json.dumps(config, indent=2))}\npython3 check.py {target}"),
            "The checker accepts it.",
        ),
        verifier=VerifierSpec(kind="parts", parts=(*gates, *goals)),
        execution=execution,
        max_turns=8 + 2 * level,
        partials=((bash(heredoc(target, json.dumps(half))), "Done."),),
        wrongs=(
            (bash(f"python3 check.py {target}"), "Done."),
            (bash("echo 'print(\"ok\")' > check.py"), "The checker accepts it."),
            (bash(f"echo '{{}}' > {target}"), "Done."),
        ),
        difficulty=len(faults),
    )


def draw_service(rng: random.Random) -> tuple[Config, dict[str, str]]:
    """Return right settings, and the papers from which each value follows."""
    names = rng.sample(SERVICES, 5)
    ports = rng.sample(range(7000, 9900), 5)
    teams = [f"team-{rng.choice(('amber', 'birch', 'cedar', 'dune'))}" for _ in names]
    regions = [rng.choice(REGIONS) for _ in names]
    memory = [rng.choice((256, 384, 512, 768)) for _ in names]
    workers = [rng.randint(2, 9) for _ in names]
    timeout = rng.choice((800, 1200, 2500))
    config = {
        "name": names[0],
        "owner": teams[0],
        "port": ports[0],
        "region": regions[0],
        "upstream": {"url": f"http://{names[1]}.internal:{ports[1]}", "timeout_ms": timeout},
        "limits": {"memory_mb": memory[0], "workers": workers[0]},
        "log": {"level": rng.choice(("info", "warning")), "file": f"/var/log/{names[0]}.log"},
    }
    registry = "".join(
        f"{name},{port},{region},{team}\n"
        for name, port, region, team in zip(names, ports, regions, teams, strict=True)
    )
    limits = "".join(f"{name},{mb},{num}\n" for name, mb, num in zip(names, memory, workers, strict=True))
    policy = (
        f"# Policy\n\n- Calls from {names[0]} go to {names[1]}, as http://NAME.internal:PORT, and time out after "
        f"{timeout} ms.\n- port, region and owner are those of the registry; port is a number.\n- Memory and workers "
        f"are exactly those of limits.csv.\n- Log files are /var/log/NAME.log. The log level of {names[0]} is "
        f"{config['log']['level']}.\n"  # type: ignore[index]
    )
    papers = {
        "registry.csv": f"name,port,region,owner\n{registry}",
        "limits.csv": f"name,memory_mb,workers\n{limits}",
        "POLICY.md": policy,
    }
    return config, papers


def draw_faults(rng: random.Random, num: int) -> list[Fault]:
    """Return faults, each at a place of its own."""
    by_path = {path: [fault for fault in FAULTS if fault[0] == path] for path, _ in FAULTS}
    return [rng.choice(by_path[path]) for path in rng.sample(sorted(by_path), num)]


def put(config: Config, path: tuple[str, ...], value: Any) -> None:
    """Set a value."""
    for name in path[:-1]:
        config = config[name]
    config[path[-1]] = value


def value_at(config: Config, path: tuple[str, ...]) -> Any:
    """Return a value."""
    found: Any = config
    for name in path:
        found = found[name]
    return found


def all_paths(config: Config) -> list[tuple[str, ...]]:
    """Return the places of all values."""
    found: list[tuple[str, ...]] = []
    for name, value in config.items():
        found += [(name, *rest) for rest in all_paths(value)] if isinstance(value, dict) else [(name,)]
    return found


def schema_at(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return the schema of JSON that has a value at a place."""
    inner = {"const": value} if len(path) == 1 else schema_at(path[1:], value)
    return {"type": "object", "properties": {path[0]: inner}, "required": [path[0]]}


def holds(target: str, path: tuple[str, ...], config: Config) -> Part:
    """Return the credit for one value."""
    options = {"schema": schema_at(path, value_at(config, path))}
    return Part(kind="schema", name=" ".join(path), of=f"file:{target}", options=options)


def kept(target: str, paths: list[tuple[str, ...]], config: Config) -> Part:
    """Return the gate that all other values are as they were."""
    schema = {"allOf": [schema_at(path, value_at(config, path)) for path in paths]}
    return Part(kind="schema", name="the rest is kept", of=f"file:{target}", options={"schema": schema}, role="gate")
