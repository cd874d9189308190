"""What a sampled token costs on the broker's disk, all in, with 1,000-token turns.

Counted are the segment files of the topic `rollouts` of a real broker: TurnGenerated with its 64-token context, text,
the text again as the action that runs, per-token logprobs and versions; RolloutEnded; keys, CloudEvents headers and the
batches' own headers; zstd as the publisher sets it. Divided by sampled tokens alone. Text and ids are real: windows of
Python's standard library under a byte-level BPE of 32,000 tokens that is trained on it first. Logprobs are random with
full mantissas. The turns are written as fast as the publisher takes them, so in full batches; one turn a batch, as on a
quiet log, takes about half a byte more. The same records as JSON, numbers as lists, go to a topic with the same
settings, for comparison.
"""

import json
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import Producer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from producers.publisher import Publisher, producer_options
from rollog.broker import EmbeddedBroker
from rollog.disk import segment_bytes
from rollog.tap import plain
from rollog.topics import create_topics
from schemas.arrays import Dtype, PackedArray
from schemas.codec import encode_headers
from schemas.config import LogSettings
from schemas.connection import on_cluster
from schemas.events import Event
from schemas.executions import Action
from schemas.ids import derive_id, rollout_id, task_id
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.tasks import SamplingParams

NUM_TURNS, NUM_TOKENS, NUM_CONTEXT, VOCABULARY = 512, 1000, 64, 32_000
CORPUS_BYTES = 6 << 20
BARS: dict[Dtype, float] = {"f4": 7.0, "f2": 5.0}
NAMES: dict[Dtype, str] = {"f4": "float32", "f2": "float16"}


def corpus() -> list[str]:
    """Modules of the standard library, whole, in a fixed order."""
    texts, num_bytes = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(errors="replace")
        texts.append(text)
        num_bytes += len(text)
        if num_bytes > CORPUS_BYTES:
            break
    return texts


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False))
    return tokenizer


def turns(tokenizer: Tokenizer, texts: Iterable[str], *, dtype: Dtype) -> Iterator[TurnGenerated]:
    rng = np.random.default_rng(0)
    ids = np.concatenate([np.array(encoded.ids, np.int32) for encoded in tokenizer.encode_batch(list(texts))])
    for index in range(NUM_TURNS):
        task = task_id("bench", "train", index // 8)
        start = int(rng.integers(0, len(ids) - NUM_CONTEXT - NUM_TOKENS))
        context, sampled = np.split(ids[start : start + NUM_CONTEXT + NUM_TOKENS], [NUM_CONTEXT])
        text = tokenizer.decode(sampled.tolist())
        certainty = rng.beta(0.6, 0.3, NUM_TOKENS)
        yield TurnGenerated(
            task_id=task,
            rollout_id=rollout_id(task, index % 8),
            sample=index % 8,
            turn=0,
            domain="code",
            policy="policy",
            context_ids=PackedArray.pack(context, dtype="i4"),
            token_ids=PackedArray.pack(sampled, dtype="i4"),
            logprobs=PackedArray.pack(np.log(np.maximum(certainty, 1e-9)), dtype=dtype),
            versions=PackedArray.pack(np.where(np.arange(NUM_TOKENS) < 600, 41, 42), dtype="i4"),
            text=text,
            finish_reason="stop",
            sampling=SamplingParams(max_tokens=NUM_TOKENS),
            seed=int(rng.integers(0, 1 << 62)),
            action=Action(code=text),
            queued_s=float(rng.random()),
            generate_s=float(rng.random()),
        )


def events(publisher: Publisher, found: Iterable[TurnGenerated]) -> Iterator[Event[Any]]:
    for turn in found:
        key = turn.task_id
        turn_id = derive_id(turn.rollout_id, "turn_generated", turn.turn)
        yield publisher.event(turn, id=turn_id, key=key, subject=turn.rollout_id, correlation_id=key)
        end = RolloutEnded(
            task_id=key,
            rollout_id=turn.rollout_id,
            sample=turn.sample,
            domain=turn.domain,
            why="finished",
            num_turns=1,
            num_tokens=NUM_TOKENS,
        )
        end_id = derive_id(turn.rollout_id, "rollout_ended", 0)
        yield publisher.event(end, id=end_id, key=key, subject=turn.rollout_id, correlation_id=key)


def write_json(log: LogSettings, found: Iterable[Event[Any]]) -> None:
    """Write the same facts with values as JSON, everything else the same."""
    producer = Producer(producer_options(log))
    for event in found:
        value = json.dumps(plain(event.record, brief=False)).encode()
        producer.produce(on_cluster(log, "rollouts"), value, event.key, headers=encode_headers(event))
    assert producer.flush(60) == 0


def measure() -> list[dict[str, Any]]:
    """Return the figures, each with `name`, `value`, `unit`, `bar` and `holds`."""
    texts = corpus()
    tokenizer = train_tokenizer(texts)
    tokens, figures = NUM_TURNS * NUM_TOKENS, []
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:

        def on_disk(namespace: str) -> float:
            return segment_bytes(broker.directory.data, namespace)["rollouts"] / tokens

        log = LogSettings(bootstrap=broker.bootstrap)
        for dtype, bar in BARS.items():
            packed = msgspec.structs.replace(log, namespace=f"{dtype}.")
            as_json = msgspec.structs.replace(log, namespace=f"{dtype}-json.")
            publisher = Publisher(packed, source="rollog/bench", blob_dir=Path(folder) / "blobs")
            written = list(events(publisher, turns(tokenizer, texts, dtype=dtype)))
            create_topics(packed)
            create_topics(as_json)
            publisher.send_all(written)
            publisher.close()
            write_json(as_json, written)
            value, other, name = on_disk(packed.namespace), on_disk(as_json.namespace), f"log_{NAMES[dtype]}"
            unit = "bytes/token"
            figures += [
                {"name": name, "value": round(value, 2), "unit": unit, "bar": bar, "holds": value <= bar},
                {"name": f"{name}_as_json", "value": round(other, 2), "unit": unit, "bar": None, "holds": True},
            ]
    return figures


if __name__ == "__main__":
    for figure in measure():
        print(json.dumps(figure))
