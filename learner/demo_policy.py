"""Makes the demo's base policy: `python -m learner.demo_policy --out demo/policy --seed 0`, some minutes on one core.

A Llama of a quarter of a million parameters, supervised on parts that never meet. It learns what a word means when
asked (`what plus|` gives `print(add)`), how a mode is passed when told (`call f 3 4 mode q|`), and how programs look:
an instruction gives a call of a *random* function, an error that names a mode gives a call with a *random* mode.
Putting the parts together is left to reinforcement learning: no example here shows it. Nor does any use a pair of
numbers that evaluation uses. The words are those of `producers.domains`, which this side of the log may not import; a
test compares.
"""

import argparse
import random
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

OPERATIONS = {
    "plus": "add",
    "take": "sub",
    "times": "mul",
    "rest": "mod",
    "share": "floordiv",
    "larger": "max",
    "smaller": "min",
    "mix": "xor",
}
MODES = "pqrstu"
SPECIALS = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
"""By role; their ids are 0, 1 and 2."""
WORDS = ["say", "what", "call", "f", "print", "ValueError", "mode", *OPERATIONS, *OPERATIONS.values(), *MODES]
CHARACTERS = "\n |0123456789(),:'"

NUM_STEPS = 900
BATCH_SIZE = 64
PART_SIZE = 16
LEARNING_RATE = 3e-3
WARMUP_STEPS = 50

Segment = tuple[str, bool]
"""Text, and whether the policy writes it; what it writes ends in `<eos>`."""


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Words and single characters, so that every text made of them comes back exactly.

    `<eos>` within a text is not the special token: what a program prints cannot end a turn.
    """
    vocabulary = {token: index for index, token in enumerate([*SPECIALS.values(), *WORDS, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIALS["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[A-Za-z]+|[^A-Za-z]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **SPECIALS,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
        model_max_length=256,
    )


def make_model(vocabulary_size: int) -> LlamaForCausalLM:
    """Two layers of width 96 with tied embeddings."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary_size,
            hidden_size=96,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=256,
            tie_word_embeddings=True,
            bos_token_id=None,
            pad_token_id=0,
            eos_token_id=1,
        )
    )


def training_pair(rng: random.Random) -> tuple[int, int]:
    """Draw two numbers below 100 that evaluation never uses."""
    while True:
        a, b = rng.randint(1, 99), rng.randint(1, 99)
        if (7 * a + b) % 5 != 0:
            return a, b


def example(rng: random.Random) -> list[Segment]:
    """Draw one text to learn from, in the order in which a rollout lays it out."""
    a, b = training_pair(rng)
    verb, mode = rng.choice(list(OPERATIONS)), rng.choice(MODES)
    bare_call = [(f"call f {a} {b}|", False), (f"print(f({a},{b}))", True)]
    kind = rng.choices(["say", "what", "told", "verb", "call", "error"], [10, 15, 15, 30, 12, 18])[0]
    if kind == "say":
        return [(f"say {verb}|", False), (f"print('{verb}')", True)]
    if kind == "what":
        return [(f"what {verb}|", False), (f"print({OPERATIONS[verb]})", True)]
    if kind == "told":
        return [(f"call f {a} {b} mode {mode}|", False), (f"print(f({a},{b},'{mode}'))", True)]
    if kind == "verb":
        return [(f"{verb} {a} {b}|", False), (f"print({rng.choice(list(OPERATIONS.values()))}({a},{b}))", True)]
    if kind == "call":
        return bare_call
    guess = rng.choice(MODES)
    return [*bare_call, (f"\nValueError: mode {mode}|", False), (f"print(f({a},{b},'{guess}'))", True)]


def lay_out(segments: list[Segment], tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[float]]:
    """Return the token ids of one text, and 1.0 for each that the policy writes."""
    ids: list[int] = []
    mask: list[float] = []
    for text, is_written in segments:
        piece = tokenizer.encode(text, add_special_tokens=False) + [tokenizer.eos_token_id] * is_written
        ids += piece
        mask += [float(is_written)] * len(piece)
    return ids, mask


def summed_loss(model: LlamaForCausalLM, rows: list[tuple[list[int], list[float]]]) -> torch.Tensor:
    """Return the negative log-likelihood of what the policy writes in these rows, summed over tokens."""
    longest = max(len(ids) for ids, _ in rows)
    ids_BT = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in rows])
    mask_BT = torch.tensor([mask + [0.0] * (longest - len(mask)) for _, mask in rows])
    logprobs_BTV = torch.log_softmax(model(input_ids=ids_BT).logits[:, :-1], -1)
    logprobs_BT = logprobs_BTV.gather(-1, ids_BT[:, 1:, None])[..., 0]
    return -(logprobs_BT * mask_BT[:, 1:]).sum()


def supervise(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> None:
    """Fit the model to `example`, with warm-up and linear decay to nearly nothing."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    for step in range(NUM_STEPS):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, step / WARMUP_STEPS) * (1 - step / (1.05 * NUM_STEPS))
        # Texts differ in length by a factor of six: parts of like length halve the time that padding would take.
        rows = sorted((lay_out(example(rng), tokenizer) for _ in range(BATCH_SIZE)), key=lambda row: len(row[0]))
        num_written = sum(sum(mask) for _, mask in rows)
        optimizer.zero_grad()
        for start in range(0, BATCH_SIZE, PART_SIZE):
            torch.autograd.backward(summed_loss(model, rows[start : start + PART_SIZE]) / num_written)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def make_policy(out: Path, seed: int) -> None:
    """Write tokenizer, configuration and weights to `out` as ordinary Hugging Face files."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    tokenizer = make_tokenizer()
    model = make_model(len(tokenizer))
    supervise(model, tokenizer, random.Random(seed))
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def main() -> None:
    """Parse the command line and make the policy."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("demo/policy"), help="folder to write to")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    make_policy(arguments.out, arguments.seed)


if __name__ == "__main__":
    main()
