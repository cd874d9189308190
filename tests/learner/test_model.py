import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from learner.model import code_version, describe_kernels, load_model, policy_files, vocabulary_size, weights_bytes
from schemas.errors import CheckpointError
from schemas.ids import digest_of
from tests.learner.policies import VOCABULARY, make_policy


def test_equal_weights_make_equal_bytes_in_every_process(tmp_path: Path) -> None:
    folder = make_policy(tmp_path)
    program = (
        "import sys; from pathlib import Path; from learner.model import *; from schemas.ids import digest_of;"
        "print(digest_of(weights_bytes(load_model(Path(sys.argv[1])))))"
    )
    command = [sys.executable, "-c", program, str(folder)]
    there = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert there.stdout.split()[-1] == digest_of(weights_bytes(load_model(folder)))


@pytest.mark.parametrize("tied", [True, False])
def test_what_is_written_is_a_hugging_face_folder_of_the_same_model(tmp_path: Path, tied: bool) -> None:
    base = make_policy(tmp_path / "base", tie_word_embeddings=tied)
    model = load_model(base)
    written = tmp_path / "written"
    written.mkdir()
    for name, content in {**policy_files(model, base), "model.safetensors": weights_bytes(model)}.items():
        (written / name).write_bytes(content)
    assert {p.name for p in written.iterdir()} == {p.name for p in base.iterdir()}
    ids = torch.arange(12)[None]
    again = AutoModelForCausalLM.from_pretrained(written)
    assert torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits)
    assert weights_bytes(load_model(written)) == weights_bytes(model)


def test_a_base_of_lower_precision_is_trained_and_written_in_float32(tmp_path: Path) -> None:
    make_policy(tmp_path / "base")
    AutoModelForCausalLM.from_pretrained(tmp_path / "base").bfloat16().save_pretrained(tmp_path / "half")
    model = load_model(tmp_path / "half")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert json.loads(policy_files(model, tmp_path / "half")["config.json"])["dtype"] == "float32"


def test_folders_that_hold_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        load_model(tmp_path)
    (make_policy(tmp_path) / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_model(tmp_path)


def test_a_model_says_what_it_is_and_what_it_runs_on(tmp_path: Path) -> None:
    assert vocabulary_size(load_model(make_policy(tmp_path))) == VOCABULARY
    assert f"threads {torch.get_num_threads()}" in describe_kernels()
    assert torch.__version__ in describe_kernels()
    assert code_version()
