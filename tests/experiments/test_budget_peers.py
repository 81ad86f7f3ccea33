"""TruncProof beside us: it is given the budget, and knows JSON but no schema."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pcgcd.errors import MissingDependencyError
from pcgcd.experiments import budget
from pcgcd.experiments.catalogue import experiment
from pcgcd.experiments.harness.rows import Row
from pcgcd.experiments.peers import WORKERS, MaskEngine
from tests.experiments.sampled import sample_data, tiny_options, tiny_vocabulary

BUDGETS = (24, 48)
END = tiny_vocabulary().eos_ids[0]


class Scripted:
    """A stand-in for an engine's process, which allows one text and nothing after it."""

    def __init__(self, text: bytes) -> None:
        self.text, self.budgets, self.written = text, [], {}  # type: ignore[var-annotated]

    def start(self, schema: Any, rows: int, budget: int | None = None) -> None:
        self.budgets.append(budget)
        self.written = dict.fromkeys(range(rows), 0)

    def masks(self, rows: Sequence[int]) -> Any:
        masks = np.zeros((len(rows), tiny_vocabulary().logits_size), dtype=bool)
        for place, row in enumerate(rows):
            if self.written[row] < len(self.text):
                masks[place, self.text[self.written[row]]] = True
        return masks

    def advance(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        for row in rows:
            self.written[row] += 1


def rows_of(method: str, text: bytes, folder: Path, monkeypatch: Any) -> tuple[list[Row], Scripted]:
    """A peer's rows where its masks allow one text."""
    engine = Scripted(text)
    monkeypatch.setattr(budget, "_engine", lambda name, options: engine)
    options = tiny_options(
        sample_data(folder), particles=(2,), limit=1, budgets=tuple(map(str, BUDGETS)), peers="-"
    )
    jobs = experiment("budget").plan(options).jobs
    return [row for job in jobs if job.keys[0].method == method for row in job.run()], engine


def test_only_engines_with_a_limit_of_their_own_run_for_each_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in budget.PEERS:
        folder = tmp_path / method
        folder.mkdir()
        rows, engine = rows_of(method, b"{}", folder, monkeypatch)
        schemas = len({row.key.example for row in rows})
        limited = method in (budget.LIMITED, budget.TRUNCPROOF)
        assert len(rows) == schemas * len(BUDGETS)
        assert engine.budgets == (list(BUDGETS) if limited else [None]) * schemas


@pytest.mark.parametrize(("text", "complete"), [(b'"no object"', 1.0), (b'{"cut o', 0.0)])
def test_json_that_is_no_instance_is_complete_but_not_valid(
    text: bytes, complete: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = rows_of(budget.TRUNCPROOF, text, tmp_path, monkeypatch)
    assert rows
    for row in rows:
        assert (row.text, row.score) == (text.decode(), 0.0)
        assert row.measures["complete"] == complete


def test_the_report_says_what_truncproof_does_not_know() -> None:
    key = budget.Key("a", "BFCL, 24 tokens", budget.TRUNCPROOF, 2, 0)
    facts = {"particles": (2,)}
    row = Row(key, text="[]", score=0.0, measures={"complete": 1.0})
    assert any("not the schema" in str(part) for part in budget.report([row], facts).parts)
    missing = Row(key, text="not installed", measures={"missing": 1.0})
    assert not any("not the schema" in str(p) for p in budget.report([missing], facts).parts)


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The worker's module, with a stand-in for the package; each token costs what its number is."""

    class GrammarConstraint:
        def __init__(self, text: str, space: str, words: Any, ends: list[int]) -> None:
            print("constructing")
            Path("fsm.pickle").touch()
            self.width, self.texts = len(words.get_vocab()), list[str]()

        def get_vocab_mask_from_text(self, text: str) -> tuple[None, Any]:
            self.texts.append(text)
            return None, np.arange(self.width, dtype=np.int32)

    package, logits = ModuleType("truncproof"), ModuleType("truncproof.logits")
    logits.GrammarConstraint = GrammarConstraint  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "truncproof", package)
    monkeypatch.setitem(sys.modules, "truncproof.logits", logits)
    monkeypatch.syspath_prepend(str(WORKERS))
    module = importlib.import_module("budget_truncproof")
    monkeypatch.setattr(module.metadata, "version", lambda name: "1.0.0")
    return module


def test_a_token_is_allowed_if_its_cost_is_at_most_the_tokens_left(
    peer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    engine = peer.TruncProof([b"a", b"\xc3", b"\xa9", None, *[b"x"] * 40], 3, "compact", "")
    assert capfd.readouterr().out == ""  # the worker's answers go there
    assert list(tmp_path.iterdir()) == []
    text = engine.matcher(engine.compile_within({"type": "string"}, 35))
    for written, token in enumerate([0, 1, 2]):
        engine.bits.words[:] = 0
        engine.mask(text, 1)
        allowed = [engine.bits.allows(i) for i in range(44)]
        assert allowed == [i <= 35 - written for i in range(44)]
        engine.advance(text, token)
    engine.mask(text, 1)
    assert engine.constraint.texts == ["", "a", "a\ufffd", "aé"]


def test_its_tokenizer_hides_what_is_not_text(peer: ModuleType) -> None:
    words = peer._Words([b"a", None])
    assert words.decode([0, 1]) != words.decode([0, 1], skip_special_tokens=True) == "a"


def test_compact_json_has_no_space_between_tokens(peer: ModuleType) -> None:
    assert r"COMMA: /,/" in peer.grammar("compact")
    assert r"COMMA: /[ \t\n\r]*,[ \t\n\r]*/" in peer.grammar("free")


@pytest.mark.slow
@pytest.mark.parametrize("whitespace", ["compact", "free"])
def test_truncproof_itself_completes_json_within_every_budget(whitespace: str) -> None:
    python = os.environ.get("PCGCD_PEERS", sys.executable)
    try:
        engine = MaskEngine(python, "truncproof", tiny_vocabulary(), "", whitespace)
    except MissingDependencyError as error:
        pytest.skip(str(error))
    generator = np.random.default_rng(0)
    for length in [*range(1, 13), 24] * 2:
        assert engine.start({}, 1, length) is None
        text = b""
        for _ in range(length):
            (allowed,) = engine.masks([0])
            token = int(generator.choice(np.flatnonzero(allowed)))
            if token == END:
                break
            text += tiny_vocabulary().token_bytes[token] or b""
            engine.advance([0], [token])
        json.loads(text.decode("utf-8", "replace"))
    engine.close()
