"""Long operations report their progress to Python's ``logging``, and print nothing themselves."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pcgcd.learning import sample
from pcgcd.learning.em.fit import fit
from pcgcd.lm import conversion
from tests.hmm.models import dense, sampled
from tests.learning.worlds import table
from tests.lm.examples import tiny_model, tiny_tokenizer
from tests.lm.gguf_files import write_gguf


def test_long_operations_report_their_progress_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = tiny_tokenizer()
    write_gguf(tmp_path / "small.gguf", tiny_model("llama", len(tokenizer)), tokenizer)
    _ = capsys.readouterr()
    with caplog.at_level(logging.INFO, logger="pcgcd"):
        sample(table(), [(0,)], folder=tmp_path / "shards", samples=6, length=2, shard_size=2)
        fit(dense(2, 5), sampled(dense(2, 5, seed=1), 4, 3), epochs=2)
        conversion.convert_gguf(tmp_path / "small.gguf", tmp_path / "model")
    lines = [(record.name, record.getMessage()) for record in caplog.records]
    shards = "pcgcd.learning.distillation.sampling"
    assert [line for line in lines if line[0] == shards] == [
        (shards, f"shard {number} of 3 is written") for number in (1, 2, 3)
    ]
    epochs = [text for name, text in lines if name == "pcgcd.learning.em.fit"]
    assert [text.partition(":")[0] for text in epochs] == ["epoch 1", "epoch 2"]
    [converted] = [text for name, text in lines if name == "pcgcd.lm.conversion"]
    assert converted.startswith("converting small.gguf into ")
    assert capsys.readouterr() == ("", "")
