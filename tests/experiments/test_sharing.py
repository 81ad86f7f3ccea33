"""What the rows of one example have in common is made once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pcgcd.experiments.catalogue import experiment
from pcgcd.experiments.harness import runner
from pcgcd.hmm import Copying
from tests.experiments.sampled import sample_data, tiny_options


def test_rows_of_an_example_share_the_hmm_given_its_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = sample_data(tmp_path)
    [(name, hmm)] = tiny_options(data).hmms.items()
    copying = Copying(torch.full((hmm.num_hidden,), 0.3), torch.ones(hmm.vocab_size))
    options = tiny_options(
        data,
        particles=(1, 2),
        budgets=("24", "30"),
        limit=3,
        batch=2,
        methods=("P-GCD+SMC", "twisted+SMC"),
        hmms={name: hmm.with_emission(hmm.emission, copying)},
    )
    made = []
    emission = Copying.emission

    def counted(self: Copying, *given: Any) -> Any:
        made.append(given)
        return emission(self, *given)

    monkeypatch.setattr(Copying, "emission", counted)
    runner.run(experiment("commongen"), options, tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["rows"]
    assert len(rows) == 3 * 2 * 2 * 2
    assert len(made) == 3  # and not once for each row
