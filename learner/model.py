"""The policy as a torch model: from a Hugging Face folder, to log-probabilities, and back to bytes.

Weights are float32 in memory and on disk. The same weights always make the same bytes, whose digest names them.

Shapes: N packed rows, T positions, K sampled tokens, V vocabulary.
"""

import importlib.metadata
import platform
import subprocess
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from learner.packing import Pass
from schemas.errors import CheckpointError

CONFIG_FILE = "config.json"
WEIGHT_SUFFIXES = (
    ".safetensors",
    ".safetensors.index.json",
    ".bin",
    ".bin.index.json",
    ".pt",
    ".pth",
    ".h5",
    ".msgpack",
)


def set_determinism(num_threads: int) -> None:
    """Make torch repeat itself to the bit: no kernel whose order of summation varies, a fixed number of threads."""
    torch.set_num_threads(num_threads)
    torch.use_deterministic_algorithms(True)


def describe_kernels() -> str:
    """Return what the arithmetic of this process depends on; equal texts mean that equal bits are due."""
    has_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    has_mkldnn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return (
        f"torch {torch.__version__}, {processor()} {torch.backends.cpu.get_cpu_capability()}, "
        f"mkl {has_mkl}, mkldnn {has_mkldnn}, "
        f"transformers {importlib.metadata.version('transformers')}, threads {torch.get_num_threads()}"
    )


def processor() -> str:
    """Return the processor's model, as far as the system says: libraries choose kernels by it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def code_version() -> str:
    """Return the package's version, and the commit where the code lies in a git checkout."""
    try:
        version = importlib.metadata.version("rollog")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return version
    return f"{version}+{found.stdout.strip()}" if found.returncode == 0 else version


def load_model(folder: Path) -> nn.Module:
    """Return a Hugging Face folder's causal language model, in float32, without dropout. Raises CheckpointError."""
    if not (folder / CONFIG_FILE).is_file():
        raise CheckpointError(f"{folder}: no {CONFIG_FILE}; wanted a folder of Hugging Face files (policy.base, say)")
    disable_progress_bar()
    try:
        model: nn.Module = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True
        )
    except (OSError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{folder}: cannot be loaded as a causal language model: {error}") from error
    return model.eval()


def vocabulary_size(model: nn.Module) -> int:
    """Return how many token ids the model knows."""
    return int(model.get_input_embeddings().num_embeddings)  # type: ignore[operator]


def token_logprobs(model: nn.Module, packed: Pass) -> Tensor:
    """Return [K] float32 log-probabilities of the sampled tokens, logits divided by each rollout's temperature."""
    logits_NTV = model(
        input_ids=packed.token_ids_NT,
        position_ids=packed.position_ids_NT,
        attention_mask=packed.attention_mask(),
        use_cache=False,
    ).logits
    logits_KV = logits_NTV.flatten(0, 1).index_select(0, packed.sampled_K - 1).float()
    logprobs_KV = torch.log_softmax(logits_KV / packed.temperature_K[:, None], -1)
    targets_K = packed.token_ids_NT.flatten().index_select(0, packed.sampled_K)
    return logprobs_KV.gather(-1, targets_K[:, None])[:, 0]


def weights_bytes(model: nn.Module) -> bytes:
    """Return `model.safetensors`; a tensor that two names share is written under the first."""
    tensors = {name: parameter.detach().contiguous() for name, parameter in model.named_parameters()}
    persistent = model.state_dict().keys()
    tensors |= {name: buffer.contiguous() for name, buffer in model.named_buffers() if name in persistent}
    content: bytes = safetensors.torch.save(tensors, metadata={"format": "pt"})
    return content


def policy_files(model: nn.Module, base: Path) -> dict[str, bytes]:
    """Return what belongs beside the weights: the model's configuration, and the base's tokenizer and other files."""
    kept = sorted(p for p in base.iterdir() if p.is_file() and not p.name.endswith(WEIGHT_SUFFIXES))
    files = {path.name: path.read_bytes() for path in kept if not path.name.startswith(".")}
    files[CONFIG_FILE] = model.config.to_json_string().encode()  # type: ignore[operator, union-attr]
    return files
