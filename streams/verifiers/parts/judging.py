"""A served model as judge: what it is asked, and what of its words counts.

What must hold: nothing in an answer changes how the judge's words are read. They are one JSON object of one shape, or
the judgement is invalid. The answer is data between two lines with a mark that is made of its own digest, so that it
cannot hold it; and all instructions are in another message.
"""

import os
from typing import Any

import msgspec

from schemas.ids import digest_of
from streams.verifiers.parts.extraction import read_json
from streams.verifiers.parts.interface import AbstainError

URL, MODEL, KEY_FROM, TIMEOUT_S = (
    "ROLLOG_JUDGE_URL",
    "ROLLOG_JUDGE_MODEL",
    "ROLLOG_JUDGE_KEY_FROM",
    "ROLLOG_JUDGE_TIMEOUT_S",
)
"""Variables of a scoring process' environment, since where a judge is served is no fact of the log. The third one names
the variable that holds the key."""
MOST_BYTES = 1 << 20
MARK_DIGITS = 16


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A judge: an OpenAI-compatible server and a model there."""

    url: str
    """Of the server, up to `/v1`."""
    model: str
    key: str = ""
    timeout_s: float = 20.0

    def __repr__(self) -> str:
        """Return all but the key."""
        return f"Served(url={self.url!r}, model={self.model!r}, timeout_s={self.timeout_s})"


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge said, and to what."""

    model: str
    """As the server names what answered."""
    fingerprint: str
    """Of the server's build of it, empty where it says none."""
    prompt_digest: str
    prompt: list[dict[str, str]]
    said: str


def served() -> Served:
    """Return the judge of this process. Raises AbstainError where none is set."""
    url, model = os.environ.get(URL, ""), os.environ.get(MODEL, "")
    if not url or not model:
        raise AbstainError("no judge is served: verifier.judge.url and verifier.judge.model are not set")
    timeout_s = float(os.environ.get(TIMEOUT_S, "") or Served.__struct_defaults__[-1])
    key = os.environ.get(os.environ.get(KEY_FROM, ""), "")
    return Served(url=url.rstrip("/"), model=model, key=key, timeout_s=timeout_s)


def marked(texts: list[tuple[str, str]]) -> str:
    """Return texts by name as data, each between two lines with a mark that is in none of them."""
    texts = [(name, readable(text)) for name, text in texts]
    mark = digest_of("\0".join(text for _, text in texts).encode()).removeprefix("sha256:")[:MARK_DIGITS]
    return "\n\n".join(f"{name}:\n<<<{mark}\n{text}\n{mark}>>>" for name, text in texts)


def readable(text: str) -> str:
    """Return a text as a message can hold it: what is no Unicode as U+FFFD."""
    return text.encode(errors="surrogatepass").decode(errors="replace")


def ask(judge: Served, instructions: str, data: str) -> Reply:
    """Return what the judge says. Raises ValueError for an answer that is none, OSError where there is none."""
    import urllib.error  # here, since few processes judge
    import urllib.request

    prompt = [{"role": "system", "content": instructions}, {"role": "user", "content": data}]
    body = {"model": judge.model, "messages": prompt, "temperature": 0, "seed": 0}
    content = msgspec.json.encode(body)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {judge.key}"} if judge.key else {})
    request = urllib.request.Request(f"{judge.url}/chat/completions", content, headers)  # noqa: S310 from the settings
    try:
        with urllib.request.urlopen(request, timeout=judge.timeout_s) as response:  # noqa: S310 checked by settings
            answer = read_json(response.read(MOST_BYTES).decode())
    except urllib.error.HTTPError as error:
        raise OSError(f"judge {judge.model} at {judge.url}: HTTP {error.code}") from error
    said = first_of(answer)
    if said is None:
        raise ValueError(f"judge {judge.model} at {judge.url}: no choices[0].message.content in its answer")
    return Reply(
        model=str(answer.get("model") or judge.model),
        fingerprint=str(answer.get("system_fingerprint") or ""),
        prompt_digest=digest_of(msgspec.json.encode(prompt)),
        prompt=prompt,
        said=said,
    )


def first_of(answer: Any) -> str | None:
    """Return the text of an answer's first choice."""
    try:
        said = answer["choices"][0]["message"]["content"]
    except (TypeError, LookupError):
        return None
    return said if isinstance(said, str) else None
