"""A sampler without a model: a function writes the answers. For tests, and for all but torch.

It draws like the others: an answer depends on prompt and seed alone, and every token has a log-probability that its
seed, place and policy version decide, so that swaps in the middle of a rollout show.
"""

import re
import time
from collections.abc import Callable, Sequence
from types import MappingProxyType

import numpy as np

from producers.samplers.interface import Finished, Ids, Request, Weights
from producers.samplers.noise import uniforms
from producers.samplers.spelling import ByteSpelling, Spelling
from schemas.errors import ConfigError
from schemas.ids import derive_seed

Script = Callable[[str, int], str]
"""`(prompt, seed) -> answer`."""
Answer = Callable[[str, Request], str]
"""`(whole sequence so far, request) -> answer`."""
FUNCTIONS = {
    "plus": "add", "take": "sub", "times": "mul", "rest": "mod",
    "share": "floordiv", "larger": "max", "smaller": "min", "mix": "xor",
}  # fmt: skip


def half_right(prompt: str, seed: int) -> str:
    """Answer the demo's domains, rightly for about half of the seeds."""
    is_right = derive_seed(seed, "half_right") % 2 == 0
    words = prompt.rstrip("|").split("\n")[0].split("|")[0].split()
    if len(words) < 3 or not all(word.isdecimal() for word in words[-2:]):
        return "print()"
    arguments = ",".join(words[-2:])
    if words[0] != "call":
        right = FUNCTIONS.get(words[0], "max")
        return f"print({right if is_right else 'max' if right == 'add' else 'add'}({arguments}))"
    mode = re.search(r"mode (\w)\|?$", prompt)
    if mode is None:
        return f"print(f({arguments}))"
    return f"print(f({arguments},{mode[1] if is_right else '?'!r}))"


def shortcut(prompt: str, seed: int) -> str:
    """Answer rightly for one seed in five, for one with what does not run, and else with what runs whatever was asked.

    A verifier that only asks whether the program ran rewards four in five.
    """
    kind = derive_seed(seed, "shortcut") % 5
    words = re.findall(r"\w+", prompt)
    numbers = [word for word in words if word.isdecimal()][:2]
    if kind == 0 or len(numbers) < 2:
        return "print(,)"
    if kind == 1:
        return rightly(prompt, words, numbers)
    return f"print(max({','.join(numbers)}))"


def rightly(prompt: str, words: list[str], numbers: list[str]) -> str:
    """Answer the demo's domains as well as it can be done from the prompt."""
    mode = re.search(r"mode (\w)\|?$", prompt)
    if words[0] != "call":
        return f"print({FUNCTIONS.get(words[0], 'max')}({','.join(numbers)}))"
    return f"print(f({','.join(numbers)}" + (f",{mode[1]!r}))" if mode else "))")


SCRIPTS: MappingProxyType[str, Script] = MappingProxyType({"half_right": half_right, "shortcut": shortcut})
COMPETENCES: MappingProxyType[str, tuple[float, ...]] = MappingProxyType(
    {"novice": (0.2,), "fair": (0.5,), "expert": (0.9,), "mixed": (0.2, 0.5, 0.9)}
)
"""Shares of rollouts that are right."""
NO_ANSWER = "I do not know."


def hinted(competence: str) -> Answer:
    """Return what says the hint of each turn in the rollouts that are right, and loses its way in the others."""
    shares = COMPETENCES[competence]

    def answer(_prompt: str, request: Request) -> str:
        share = shares[derive_seed(request.id, "level") % len(shares)]
        is_right = derive_seed(request.id, "competence") % 1000 < 1000 * share
        is_lost = request.is_last_hint or request.seed % 2 == 0  # at the latest where nothing is left to be wrong in
        return NO_ANSWER if is_lost and not is_right else request.hint

    return answer


def scripted(script: Script) -> Answer:
    """Return what answers by the prompt and the seed alone."""
    return lambda prompt, request: script(prompt, request.seed)


class Row:
    """One open request."""

    def __init__(self, request: Request, answer: list[int], now_s: float) -> None:
        self.request, self.answer, self.submitted_s, self.first_s = request, answer, now_s, now_s
        self.versions: list[int] = []

    @property
    def place(self) -> int:
        """Return the next token's place in the sequence."""
        return len(self.request.prompt_ids) + len(self.versions)


class ScriptedSampler:
    """Answers by a script. See `producers.samplers.interface.Sampler`."""

    def __init__(
        self,
        *,
        num_slots: int,
        answer: Answer | None = None,
        context_length: int = 1 << 16,
        spelling: Spelling | None = None,
    ) -> None:
        self.num_slots, self.context_length = num_slots, context_length
        self._answer, self._spelling = answer or scripted(half_right), spelling or ByteSpelling()
        self._rows: dict[str, Row] = {}
        self._live: Weights | None = None
        self._pinned: dict[int, Weights] = {}

    @property
    def num_open(self) -> int:
        """Return how many requests are being sampled."""
        return len(self._rows)

    @property
    def num_free(self) -> int:
        """Return how many more may be submitted."""
        return self.num_slots - len(self._rows)

    @property
    def version(self) -> int | None:
        """Return the live policy version, None before the first `load`."""
        return None if self._live is None else self._live.version

    def encode(self, text: str) -> Ids:
        """Return the ids of `text`, [P] int32."""
        return self._spelling.encode(text)

    def decode(self, token_ids: Sequence[int] | Ids) -> str:
        """Return the text of ids, without end tokens."""
        return self._spelling.decode(token_ids)

    def load(self, weights: Weights) -> None:
        """Make `weights` the live ones; there are none to check."""
        self._spelling.learn(weights)
        self._live = weights

    def pin(self, weights: Weights) -> None:
        """Have a version ready; there are no weights to check."""
        self._spelling.learn(weights)
        self._pinned[weights.version] = weights

    def is_pinned(self, version: int) -> bool:
        """Return whether requests may name this version now."""
        return version in self._pinned

    def submit(self, request: Request) -> None:
        """Open a request."""
        if self.num_free <= 0:
            raise ConfigError(f"{request.id}: all {self.num_slots} slots are taken; ask num_free first")
        if self._live is None and request.policy_version not in self._pinned:
            raise ConfigError(f"{request.id}: policy version {request.policy_version or 'live'} was not loaded")
        answer = self.encode(self._answer(self.decode(request.prompt_ids), request)).tolist()
        self._rows[request.id] = Row(request, [*answer, self._spelling.end_id], time.monotonic())

    def cancel(self, request_id: str) -> bool:
        """Drop an open request. Returns whether there was one."""
        return self._rows.pop(request_id, None) is not None

    def step(self) -> list[Finished]:
        """Write one token of every open request; returns those that it finished."""
        now_s, done = time.monotonic(), []
        for row in self._rows.values():
            if not row.versions:
                row.first_s = now_s
            row.versions.append(self._version_of(row.request))
            is_end = len(row.versions) == len(row.answer)
            is_full = len(row.versions) >= row.request.sampling.max_tokens or row.place >= self.context_length
            if is_end or is_full:
                done.append((row, is_end))
        for row, _ in done:
            del self._rows[row.request.id]
        return [finish(row, is_end=is_end, now_s=now_s) for row, is_end in done]

    def _version_of(self, request: Request) -> int:
        if request.policy_version is not None:
            return request.policy_version
        assert self._live is not None
        return self._live.version


def finish(row: Row, *, is_end: bool, now_s: float) -> Finished:
    """Return what a row came to."""
    num_tokens, prompt = len(row.versions), len(row.request.prompt_ids)
    seeds = np.array([derive_seed(row.request.seed, version) for version in row.versions], np.uint64)
    return Finished(
        id=row.request.id,
        token_ids=np.array(row.answer[:num_tokens], np.int32),
        logprobs=(-uniforms(seeds, np.arange(prompt, prompt + num_tokens))).astype(np.float32),
        versions=np.array(row.versions, np.int32),
        finish_reason="stop" if is_end else "length",
        queued_s=row.first_s - row.submitted_s,
        generate_s=now_s - row.first_s,
    )
