"""The harness: every experiment runs end to end, resumes, and is shared between machines."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pcgcd import Vocabulary
from pcgcd.cli.experiment import _EXPERIMENTS, command_of
from pcgcd.cli.main import main, make_parser
from pcgcd.errors import CheckpointError, InvalidParameterError, MissingDependencyError
from pcgcd.experiments import bias, budget, runtime
from pcgcd.experiments.catalogue import EXPERIMENTS, experiment
from pcgcd.experiments.harness import runner
from pcgcd.experiments.harness.agreement import agreement
from pcgcd.experiments.harness.facts import MEASURED, described_hmm
from pcgcd.experiments.harness.journal import Journal, read_journal
from pcgcd.experiments.harness.methods import METHODS
from pcgcd.experiments.harness.options import Options, part_of, tokens_of
from pcgcd.experiments.harness.reports import log_evidence, models_text
from pcgcd.experiments.harness.rows import Job, Key, Plan, Row
from pcgcd.experiments.harness.statistics import bootstrap, estimate, measure, variance_over_seeds
from pcgcd.experiments.peers import MaskEngine
from pcgcd.hmm.default import DEFAULT_FOLDER
from pcgcd.lm import TableLM
from tests.experiments.sampled import sample_data, tiny_options, tiny_vocabulary

FAST: dict[str, dict[str, Any]] = {
    "function-calling": {"particles": (2,), "budgets": ("+4",), "limit": 1},
    "commongen": {"particles": (2,), "budgets": ("24",), "limit": 2},
    "spider": {"particles": (2,), "budgets": ("40",), "limit": 2},
    "runtime": {"seeds": 2, "limit": 2, "budgets": ("60",)},
    "hmm-size": {"particles": (2,), "budgets": ("+4",), "limit": 1},
    "nfa-dfa": {"limit": 3},
    "bias": {"particles": (1, 4), "limit": 1},
    "budget": {"particles": (2,), "limit": 2, "budgets": ("24", "48")},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_data(tmp_path_factory.mktemp("experiments"))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bias, "POOLED", 64)
    monkeypatch.setattr(bias, "_FEWEST_RUNS", 8)
    monkeypatch.setattr(runtime, "SIZES", (4, 8))
    monkeypatch.setattr(runtime, "_DENSE", 4)
    monkeypatch.delenv("PCGCD_DATA", raising=False)


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return found


def without_times(found: dict[str, Any]) -> dict[str, Any]:
    rows = [{name: row[name] for name in row if name != "seconds"} for row in found["rows"]]
    return {**found, "rows": rows}


def test_the_command_line_knows_every_experiment() -> None:
    assert list(EXPERIMENTS) == list(_EXPERIMENTS)
    for name in EXPERIMENTS:
        assert name == experiment(name).NAME


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_runs_end_to_end(name: str, data: Path, tmp_path: Path) -> None:
    options = tiny_options(data, batch=2, **FAST[name])
    report = runner.run(experiment(name), options, tmp_path, command="pcgcd experiment")
    assert report is not None
    found = results(tmp_path)
    assert found["complete"]
    assert found["experiment"] == name
    assert found["planned"] == len(found["rows"]) > 0
    for row in found["rows"]:
        assert {"example", "setting", "method", "k", "seed", "text", "score"} <= row.keys()
        assert {"log_evidence", "ess", "seconds"} <= row.keys()
    assert found["versions"]["pcgcd"]
    assert found["machine"]["cores"]
    table = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| --- |" in table
    assert str(data) not in table
    assert str(data) not in (tmp_path / "results.json").read_text(encoding="utf-8")
    for figure in report.figures:
        assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")


def test_gcd_satisfies_always_and_the_model_alone_hardly_ever(data: Path, tmp_path: Path) -> None:
    options = tiny_options(
        data, particles=(2,), budgets=("+4",), limit=2, methods=("LM", "GCD+SMC", "P-GCD+SMC")
    )
    runner.run(experiment("function-calling"), options, tmp_path)
    satisfied = {
        (row["example"], row["setting"], row["method"]): row["measures"]["satisfied"]
        for row in results(tmp_path)["rows"]
    }
    assert len(satisfied) == 2 * 2 * 3
    for (_, _, method), share in satisfied.items():
        assert share == pytest.approx(0.0 if method == "LM" else 1.0)


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in one go."""
    folder = tmp_path_factory.mktemp("whole")
    runner.run(experiment("commongen"), commongen_options(data), folder, command="c")
    return folder


def commongen_options(data: Path) -> Options:
    return tiny_options(
        data,
        particles=(1, 2),
        budgets=("24",),
        limit=3,
        batch=2,
        methods=("LCD+SMC", "GCD+SMC", "P-GCD+SMC"),
    )


@pytest.mark.parametrize("share", [0.0, 0.37, 0.9])
def test_killed_and_resumed_ends_with_the_same_file(
    share: float, whole: Path, data: Path, tmp_path: Path
) -> None:
    """Killed at any moment, the journal is a beginning of what it would have been."""
    journal = (whole / "journal.jsonl").read_bytes()
    (tmp_path / "journal.jsonl").write_bytes(journal[: int(share * len(journal))])
    runner.run(experiment("commongen"), commongen_options(data), tmp_path, command="c")
    assert without_times(results(tmp_path)) == without_times(results(whole))
    kept = read_journal(tmp_path / "journal.jsonl")[1]
    before = read_journal(whole / "journal.jsonl")[1]
    unchanged = [key for key in kept if kept[key] == before[key]]
    assert len(unchanged) >= int(share * len(before)) - 1


def test_what_is_done_is_not_done_again(
    whole: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "journal.jsonl").write_bytes((whole / "journal.jsonl").read_bytes())

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is left to generate")

    monkeypatch.setattr(type(METHODS["GCD"]), "run", never)
    runner.run(experiment("commongen"), commongen_options(data), tmp_path, command="c")
    assert results(tmp_path) == results(whole)


def test_shards_make_the_same_table(whole: Path, data: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    chosen, options = experiment("commongen"), commongen_options(data)
    for i, folder in enumerate(folders):
        shard = runner.Shard(i + 1, 3)
        assert runner.run(chosen, options, folder, command="c", shard=shard) is None
        if i == 0:
            with pytest.raises(CheckpointError, match="rows are there"):
                runner.merge(chosen, folders[:1], tmp_path / "early")
            runner.merge(chosen, folders[:1], tmp_path / "early", partial=True)
            assert not results(tmp_path / "early")["complete"]
            assert "ended early" in (tmp_path / "early" / "table.md").read_text(encoding="utf-8")
    assert main(["experiment", "merge", *map(str, folders), "--out", str(tmp_path / "all")]) == 0
    assert without_times(results(tmp_path / "all")) == without_times(results(whole))
    names = {path.name for folder in folders for path in folder.glob("journal*")}
    assert names == {"journal-1-of-3.jsonl", "journal-2-of-3.jsonl", "journal-3-of-3.jsonl"}


def test_other_options_are_refused(whole: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes((whole / "journal.jsonl").read_bytes())
    options = tiny_options(data, particles=(3,), budgets=("24",), limit=3, batch=2)
    with pytest.raises(CheckpointError, match="other options"):
        runner.run(experiment("commongen"), options, tmp_path, command="c")
    shards = [tmp_path / "x", tmp_path / "y"]
    for folder, planned in zip(shards, (1, 2), strict=True):
        Journal(folder / "journal.jsonl", {"experiment": "bias", "planned": planned})
    with pytest.raises(CheckpointError, match="does not belong"):
        runner.merge(experiment("bias"), shards, tmp_path)


def test_a_larger_limit_adds_examples_to_what_is_there(
    whole: Path, data: Path, tmp_path: Path
) -> None:
    chosen = experiment("commongen")
    fewer = replace(commongen_options(data), limit=2)  # one batch of the three examples
    runner.run(chosen, fewer, tmp_path, command="fewer")
    before = results(tmp_path)
    with (tmp_path / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"example": "torn')
    runner.run(chosen, commongen_options(data), tmp_path, command="c")
    after = results(tmp_path)
    assert without_times(after) == without_times(results(whole))
    assert len(before["rows"]) < len(after["rows"])
    assert all(row in after["rows"] for row in before["rows"])  # to the second: not made again
    with pytest.raises(CheckpointError, match="other options"):
        runner.run(chosen, fewer, tmp_path, command="fewer")
    other = replace(commongen_options(data), limit=4, batch=3)
    with pytest.raises(CheckpointError, match="other options"):
        runner.run(chosen, other, tmp_path, command="c")


def test_more_numbers_of_particles_add_rows_to_published_ones(
    whole: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, options = experiment("commongen"), commongen_options(data)
    more = replace(options, particles=(1, 2, 3))
    runner.run(chosen, more, tmp_path / "at once", command="c")
    before = results(whole)

    def made(*_: Any, **given: Any) -> Any:
        assert given["k"] == 3, "what is published is not made again"
        return run(*_, **given)

    run = type(METHODS["GCD"]).run
    monkeypatch.setattr(type(METHODS["GCD"]), "run", made)
    for i in (1, 2):
        shard = runner.Shard(i, 2)
        runner.run(chosen, more, tmp_path / "more", command="c", shard=shard, earlier=whole)
    runner.merge(chosen, [tmp_path / "more"], tmp_path / "more")
    after = results(tmp_path / "more")
    assert without_times(after) == without_times(results(tmp_path / "at once"))
    assert all(row in after["rows"] for row in before["rows"])  # to the second
    for other in (replace(options, particles=(1, 5)), replace(more, seeds=2)):
        with pytest.raises(CheckpointError, match="other options"):
            runner.run(chosen, other, tmp_path / "other", command="c", earlier=whole)
    for text in ("{", "[]", '{"rows": []}'):
        (tmp_path / "results.json").write_text(text, encoding="utf-8")
        with pytest.raises(CheckpointError, match=r"results\.json"):
            runner.run(chosen, more, tmp_path / "other", command="c", earlier=tmp_path)


def test_what_each_machine_measures_does_not_divide_journals(tmp_path: Path) -> None:
    shards = [tmp_path / "x", tmp_path / "y"]
    for place, folder in enumerate(shards):
        facts = {"model": {"name": "m", MEASURED: {"largest": 0.1 * place}}, "pooled": 1}
        head = {"experiment": "bias", "planned": 1, "command": "c", "facts": facts}
        Journal(folder / "journal.jsonl", head)
        Journal(folder / "journal.jsonl", {**head, "facts": {"model": {"name": "m"}, "pooled": 1}})
        with pytest.raises(CheckpointError, match="other options"):
            Journal(folder / "journal.jsonl", {**head, "facts": {"model": {}, "pooled": 1}})
    with pytest.raises(CheckpointError, match="0 of 1 rows are there"):
        runner.merge(experiment("bias"), shards, tmp_path)


def test_the_agreement_of_two_models_is_that_of_their_rows() -> None:
    class Fixed(TableLM):
        def encode(self, prompt: Any, *, tools: Any = ()) -> tuple[int, ...]:
            return ()

    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", None], eos_ids=3)
    one, other = [0.5, 0.25, 0.25 - 1e-9, 1e-9], [0.4, 0.3, 0.2, 0.1]
    first, second = (Fixed(vocabulary, {}, default=row) for row in (one, other))
    found = agreement(first, second, ["x", "y"], steps=3)
    logs = [math.log(p / q) for p, q in zip(one, other, strict=True)]
    assert found.largest == pytest.approx(max(map(abs, logs[:3])))
    assert found.kl == pytest.approx(math.fsum(p * log for p, log in zip(one, logs, strict=True)))
    assert found.rows == 6
    assert agreement(first, first, ["x"], steps=1) == (0.0, 0.0, 1)


def test_hmms_are_described_with_their_bits() -> None:
    facts = described_hmm(DEFAULT_FOLDER)
    assert facts["bits a token"]["language model"] < facts["bits a token"]["hmm"]
    assert len(facts["sha256"]) == 64
    shown = models_text({"hmms": {"default": {"hidden": 256, **facts}}})
    assert "held-out bits a token: hmm" in shown[0]


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("hello\n")
    with pytest.raises(CheckpointError, match="no journal"):
        Journal(tmp_path / "journal.jsonl", {"experiment": "x"})
    with pytest.raises(CheckpointError, match="no journal to merge"):
        runner.merge(experiment("bias"), [tmp_path / "nowhere"], tmp_path)
    assert main(["experiment", "merge", str(tmp_path / "nowhere")]) == 2


def test_a_job_that_makes_other_rows_is_an_error(tmp_path: Path) -> None:
    class Wrong:
        NAME = "wrong"
        SUMMARY = ""

        def __init__(self, keys: Sequence[Key]) -> None:
            self.keys = tuple(keys)

        def plan(self, options: Options) -> Plan:
            return Plan({}, [Job(self.keys, lambda: [Row(Key("b", "", "m", 1, 0))])])

        def report(self, rows: Any, facts: Any) -> Any:
            raise AssertionError

    key = Key("a", "", "m", 1, 0)
    with pytest.raises(InvalidParameterError, match="made others"):
        runner.run(Wrong([key]), Options(), tmp_path)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="two rows"):
        runner.run(Wrong([key, key]), Options(), tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"particles": (0,)},
        {"limit": 0},
        {"seeds": 0},
        {"methods": ("GCD", "magic")},
        {"budgets": ("+x",)},
        {"part": "train"},
        {"batch": 0},
    ],
)
def test_bad_options_are_errors_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError):
        Options(**given)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_bad_shards_are_errors(text: str) -> None:
    with pytest.raises(InvalidParameterError, match="i/n"):
        runner.Shard.parse(text)


def test_budgets_count_from_the_shortest_text() -> None:
    assert [tokens_of(text, 10) for text in ("5", "+0", "+7")] == [5, 10, 17]
    with pytest.raises(InvalidParameterError):
        tokens_of("0", 10)


def test_parts_share_nothing_and_do_not_depend_on_the_order() -> None:
    names = [f"example {i}" for i in range(200)]
    test, development = (part_of(names, names, part) for part in ("test", "development"))  # type: ignore[arg-type]
    assert not set(test) & set(development)
    assert sorted([*test, *development]) == sorted(names)
    assert 30 <= len(development) <= 70
    assert part_of(names[::-1], names[::-1], "test") == test


def test_the_bootstrap_agrees_with_the_normal_interval() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=400)
    found = bootstrap(list(values))
    half = 1.96 * values.std() / math.sqrt(len(values))
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.03)
    assert found.high == pytest.approx(values.mean() + half, abs=0.03)


def test_examples_count_equally_however_many_seeds_they_have() -> None:
    rows = [
        Row(Key(example, "", "m", 1, seed), score=score)
        for example, seed, score in (("a", 0, 0.0), ("a", 1, 1.0), ("b", 0, 1.0))
    ]
    found = estimate(rows, measure("score"))
    assert found is not None
    assert (found.mean, found.examples) == (0.75, 2)
    spread = variance_over_seeds(rows, measure("score"))
    assert spread is not None
    assert spread.mean == 0.5


def test_log_evidence_is_not_averaged_over_the_runs_that_survived() -> None:
    rows = [Row(Key(name, "", "LCD+SMC", 1, 0), log_evidence=-2.0) for name in "ab"]
    found = log_evidence(rows)
    assert found is not None
    assert (found.mean, found.examples) == (-2.0, 2)
    assert log_evidence([*rows, Row(Key("c", "", "LCD+SMC", 1, 0))]) is None


def test_the_model_alone_runs_once_with_few_texts(data: Path) -> None:
    options = tiny_options(
        data, particles=(2, 16), budgets=("24",), limit=1, methods=("LM", "GCD", "GCD+SMC")
    )
    keys = [key for job in experiment("commongen").plan(options).jobs for key in job.keys]
    found = [(key.method, key.k) for key in keys]
    assert found == [("LM", 4), ("GCD", 16), ("GCD+SMC", 2), ("GCD+SMC", 16)]


def test_missing_peers_are_reported_and_not_made_up(data: Path, tmp_path: Path) -> None:
    options = tiny_options(
        data, particles=(1,), limit=1, budgets=("24",), peers=str(tmp_path / "no-python")
    )
    runner.run(experiment("budget"), options, tmp_path)
    rows = results(tmp_path)["rows"]
    missing = {row["method"] for row in rows if "missing" in row["measures"]}
    assert missing == set(budget.PEERS)
    assert all(row["score"] is None for row in rows if row["method"] in missing)
    assert "Not measured: XGrammar" in (tmp_path / "table.md").read_text(encoding="utf-8")


@pytest.mark.skipif(find_spec("xgrammar") is not None, reason="xgrammar is installed here")
def test_an_engine_that_is_not_installed_says_so() -> None:
    with pytest.raises(MissingDependencyError, match="xgrammar"):
        MaskEngine(sys.executable, "xgrammar", tiny_vocabulary(), "", "compact")


def test_the_command_in_the_results_names_no_path(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.touch()
    words = ["experiment", "bias", "--model", str(model), "--hmm", f"{tmp_path},org/name"]
    words += ["--particles", "1,4", "--w", "0.5", "--peers", str(tmp_path), "--out", str(tmp_path)]
    command = command_of(make_parser().parse_args(words))
    assert command == (
        f"pcgcd experiment bias --model model.gguf --hmm {tmp_path.name},org/name "
        "--particles 1,4 --w 0.5 --peers <python>"
    )


@pytest.mark.slow
def test_under_torchrun_the_rank_is_the_shard(tmp_path: Path) -> None:
    command = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "pcgcd", "experiment"]
    environment = {name: value for name, value in os.environ.items() if name != "PCGCD_DATA"}
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, *command, "nfa-dfa", "--limit", "2", "--out", str(out), "--quiet"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.glob("journal*")} == {
        "journal-1-of-2.jsonl",
        "journal-2-of-2.jsonl",
    }
    assert results(out)["complete"]
