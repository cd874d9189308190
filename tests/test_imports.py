"""Who may import whom. Parts never import what wires them, and few files touch a client library, Faust or torch."""

import ast
from fnmatch import fnmatch

from tests.source_tree import PARTS, files, imported, imported_by, within

DOORS = (
    "producers.publisher",
    "producers.bulk",
    "producers.blobs",
    "consumers.reader",
    "consumers.raw",
    "consumers.group",
    "consumers.telemetry",
)
"""The log's two doors and what goes through them: what every part may import besides schemas and itself."""
SERVICE = (
    "consumers.runtime",
    "consumers.open_tasks",
    "consumers.orphans",
    "consumers.read_back",
    "consumers.acknowledgements",
    "consumers.commands",
)
"""What every service of the loop stands on."""
SEALING = ("consumers.sealing", "consumers.bounds", "consumers.feed")
MAY_IMPORT = {
    "schemas": ("schemas",),
    "producers": ("schemas", "producers", *DOORS, *SERVICE),
    "streams": ("schemas", "streams", *DOORS, *SERVICE, "producers.tasks", "consumers.history", *SEALING),
    "consumers": ("schemas", "consumers", *DOORS),
    "learner": ("schemas", "learner", *DOORS, *SERVICE, "consumers.feed", "consumers.recorded"),
    "rollog": PARTS,
}
"""Beyond doors and service: the evaluator draws held-out tasks as the issuer does, rescoring reads history, the sealer
its seals, and the feed is the learner's."""
CLIENTS = ("confluent_kafka", "aiokafka")
MAY_USE_CLIENTS = (
    "producers/publisher.py",
    "producers/bulk.py",
    "consumers/reader.py",
    "consumers/group.py",
    "consumers/offsets.py",
    "consumers/read_back.py",
    "consumers/history/*.py",
    "streams/transport.py",
    "rollog/topics*.py",
    "rollog/broker/*.py",
)
MAY_USE_TORCH = ("learner/*.py", "producers/samplers/*.py")
MAY_USE_FAUST = ("streams/*.py",)


def breaches(packages: tuple[str, ...], allowed: tuple[str, ...]) -> list[str]:
    """Return where files other than the allowed ones import one of the packages."""
    return [
        f"{path}:{line} imports {name}"
        for path in files(*PARTS)
        if not any(fnmatch(path, pattern) for pattern in allowed)
        for line, name in imported_by(path)
        if within(name, *packages)
    ]


def test_parts_import_only_what_their_place_allows() -> None:
    wrong = [
        f"{path}:{line} imports {name}"
        for part in PARTS
        for path in files(part)
        for line, name in imported_by(path)
        if within(name, *PARTS) and not within(name, *MAY_IMPORT[part])
    ]
    assert wrong == []


def test_every_part_has_files_to_check() -> None:
    assert all(files(part) for part in PARTS)


def test_only_learner_and_samplers_import_torch() -> None:
    assert breaches(("torch", "transformers", "safetensors"), MAY_USE_TORCH) == []


def test_only_streams_import_faust() -> None:
    assert breaches(("faust", "mode"), MAY_USE_FAUST) == []


def test_only_the_doors_the_transport_and_the_administration_use_a_client_library() -> None:
    assert breaches(CLIENTS, MAY_USE_CLIENTS) == []


def test_imports_are_seen_wherever_they_stand() -> None:
    source = "import a.b\ndef f():\n    from c import d\n    from . import e\n    from ..g import h\n"
    found = list(imported(ast.parse(source), package="x.y"))
    assert found == [(1, "a.b"), (3, "c.d"), (4, "x.y.e"), (5, "x.g.h")]
