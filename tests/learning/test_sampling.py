"""Samples are the language model's, whatever happens on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from pcgcd.errors import CheckpointError, EmptyLanguageError, InvalidParameterError
from pcgcd.learning import SampleSet, Source, sample
from pcgcd.learning.distillation import sampling
from pcgcd.learning.distillation.prompts import constraint_of
from pcgcd.learning.distillation.sampling import SessionEngine
from pcgcd.lm import LanguageModel
from tests.learning.worlds import distance, frequencies, table, texts

PROMPTS = [(0,), (1,), (2, 0)]
EOS = (3, 4)


def draw(folder: Path, lm: LanguageModel | None = None, **options: Any) -> SampleSet:
    settings: dict[str, Any] = {
        "prompts": PROMPTS, "samples": 50, "length": 5, "shard_size": 12, "batch_size": 7,
        "seed": 1,
    }  # fmt: skip
    settings |= options
    prompts = settings.pop("prompts")
    return sample(lm or table(), prompts, folder=folder, **settings)


def test_samples_have_the_distribution_of_the_model(tmp_path: Path) -> None:
    lm, count = table(), 6000
    samples = draw(
        tmp_path, prompts=[(1,)], samples=count, length=3, shard_size=3000, batch_size=3000
    )
    true = texts(lm, 3, prompt=(1,))
    assert sum(true.values()) == pytest.approx(1)
    spread = sum((p * (1 - p) / count) ** 0.5 for p in true.values()) / 2
    assert distance(frequencies(samples.tokens), true) < 2 * spread


def test_log_probabilities_are_those_of_the_table(tmp_path: Path) -> None:
    lm = table()
    samples = draw(tmp_path)
    for row, text in enumerate(samples.tokens.tolist()):
        prompt = PROMPTS[row % 3]
        assert int(samples.prompts[row]) == row % 3
        length = int(samples.num_tokens[row])
        assert all(token == text[length - 1] for token in text[length:])
        assert not set(text[: length - 1]) & {*EOS}
        expected = sum(
            float(lm.log_probs([(*prompt, *text[:i])])[0, text[i]]) for i in range(length)
        )
        assert float(samples.log_probs[row]) == pytest.approx(expected, rel=1e-5)
    mean = -float(samples.log_probs.sum()) / float(samples.num_tokens.sum())
    assert samples.nats_per_token() == pytest.approx(mean, rel=1e-5)


def test_the_batch_size_decides_nothing(tmp_path: Path) -> None:
    first = draw(tmp_path / "a", batch_size=1)
    second = draw(tmp_path / "b", batch_size=100)
    assert torch.equal(first.tokens, second.tokens)


def test_another_seed_gives_other_samples(tmp_path: Path) -> None:
    assert not torch.equal(draw(tmp_path / "a").tokens, draw(tmp_path / "b", seed=2).tokens)


def test_groups_of_samples_answer_one_prompt(tmp_path: Path) -> None:
    samples = draw(tmp_path, group=4, samples=14)
    assert samples.prompts.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [0] * 2


def test_interrupted_sampling_goes_on_where_it_was(tmp_path: Path) -> None:
    undisturbed = draw(tmp_path / "whole")
    seen = 0

    def stop(samples: int, tokens: int) -> None:
        nonlocal seen
        seen += samples
        if seen > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        draw(tmp_path / "part", progress=stop)
    with pytest.raises(CheckpointError, match="interrupted"):
        SampleSet.load(tmp_path / "part")
    partial = SampleSet.load(tmp_path / "part", partial=True)
    assert torch.equal(partial.tokens, undisturbed.tokens[: len(partial)])
    new = []
    again = draw(tmp_path / "part", progress=lambda samples, tokens: new.append((samples, tokens)))
    assert torch.equal(again.tokens, undisturbed.tokens)
    assert torch.equal(again.log_probs, undisturbed.log_probs)
    assert new[0] == (12, 0)
    assert sum(samples for samples, _ in new) == 50
    for path in (tmp_path / "whole").iterdir():
        assert path.read_bytes() == (tmp_path / "part" / path.name).read_bytes()


def test_more_samples_are_added_and_fewer_are_the_first(tmp_path: Path) -> None:
    few = draw(tmp_path / "a", samples=16)
    more = draw(tmp_path / "a", samples=50)
    assert torch.equal(more.tokens, draw(tmp_path / "b").tokens)
    assert torch.equal(few.tokens, more.tokens[:16])
    assert torch.equal(draw(tmp_path / "a", samples=16).tokens, few.tokens)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 2}, r"seed \(there 1, here 2\)"),
        ({"length": 6}, r"length \(there 5, here 6\)"),
        ({"prompts": PROMPTS[:2]}, "num_prompts"),
        ({"prompts": PROMPTS[::-1]}, "prompts"),
        ({"shard_size": 10}, "shard_size"),
    ],
)
def test_a_folder_of_other_samples_is_refused(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    draw(tmp_path)
    with pytest.raises(CheckpointError, match=named):
        draw(tmp_path, **change)


def test_nothing_damaged_is_read(tmp_path: Path) -> None:
    draw(tmp_path / "a")
    draw(tmp_path / "b", seed=2)
    shard = tmp_path / "a" / "shard-00001.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-5])
    with pytest.raises(CheckpointError, match="shard-00001"):
        SampleSet.load(tmp_path / "a")
    shard.write_bytes((tmp_path / "b" / shard.name).read_bytes())
    with pytest.raises(CheckpointError, match="other samples"):
        SampleSet.load(tmp_path / "a")
    shard.write_bytes(whole)
    SampleSet.load(tmp_path / "a")
    manifest = tmp_path / "a" / "manifest.json"
    for text in ("", "[]", json.dumps({"format": "pcgcd samples 1"})):
        manifest.write_text(text)
        with pytest.raises(CheckpointError, match="manifest"):
            SampleSet.load(tmp_path / "a")


def test_constrained_samples_approach_the_model_given_the_constraint(tmp_path: Path) -> None:
    lm, length = table(), 4
    described = {"regex": "a(a|b)*b"}
    samples = draw(
        tmp_path,
        prompts=[Source((1,), described)],
        samples=2048,
        length=length,
        shard_size=2048,
        group=512,
    )
    assert bool(samples.constrained.all())

    def spelled(text: tuple[int, ...]) -> str:
        return lm.vocabulary.decode(text).decode()

    import re

    inside = {
        x: p for x, p in texts(lm, length, (1,)).items() if re.fullmatch("a[ab]*b", spelled(x))
    }
    true = {x: p / sum(inside.values()) for x, p in inside.items()}
    found = frequencies(samples.tokens)
    assert found.keys() <= true.keys()
    assert distance(found, true) < 0.12
    row = samples.tokens[0].tolist()
    used = row[: int(samples.num_tokens[0])]
    expected = sum(float(lm.log_probs([(1, *used[:i])])[0, used[i]]) for i in range(len(used)))
    assert float(samples.log_probs[0]) == pytest.approx(expected, rel=1e-5)


def test_constrained_and_free_prompts_mix_and_resume(tmp_path: Path) -> None:
    prompts = [Source((0,)), Source((1,), {"regex": "ab+"}), (2,)]
    options: dict[str, Any] = {"prompts": prompts, "group": 2, "shard_size": 12}
    whole = draw(tmp_path / "a", **options)
    assert whole.constrained.tolist() == [p == 1 for p in whole.prompts.tolist()]
    draw(tmp_path / "b", **options, samples=20)
    again = draw(tmp_path / "b", **options)
    assert torch.equal(whole.tokens, again.tokens)
    with pytest.raises(EmptyLanguageError, match=r"smallest budget that works is"):
        draw(tmp_path / "c", prompts=[Source((0,), {"regex": "a{20}"})])


def test_a_constraint_that_needs_more_tokens_is_left_out_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One such prompt among many must not end a run of hours."""
    prompts = [Source((0,), {"regex": "ab+"}), Source((1,), {"regex": "a{20}"}), Source((2,))]
    found = draw(tmp_path, prompts=prompts, group=2, shard_size=12)
    assert found.constrained.tolist() == [p == 0 for p in found.prompts.tolist()]
    (line, *_) = caplog.messages
    assert "prompt 1 is answered without its constraint" in line
    assert "smallest budget that works is" in line
    free = draw(tmp_path / "free", prompts=[(0,), (1,), (2,)], group=2, shard_size=12)
    rows = found.prompts == 2
    assert torch.equal(found.tokens[rows], free.tokens[rows])


def test_a_constraint_is_compiled_once_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def counted(described: Any) -> Any:
        compiled.append(described["regex"])
        return constraint_of(described)

    monkeypatch.setattr(sampling, "constraint_of", counted)
    monkeypatch.setattr(sampling, "_KEPT_AUTOMATA", 1)
    patterns = ["ab+", "ba+", "a{20}", "bb+"]
    prompts = [Source((0,), {"regex": pattern}) for pattern in patterns]
    draw(tmp_path, prompts=prompts, samples=4, batch_size=1)
    assert sorted(compiled) == sorted(patterns)


def test_an_engine_with_sessions_answers_all_prompts(tmp_path: Path) -> None:
    prompts = [Source((0,)), Source((1,), {"regex": "a(a|b)*b"})]
    options: dict[str, Any] = {"prompts": prompts, "group": 2}
    other = table(seed=5)
    expected = draw(tmp_path / "a", other, **options)
    found = draw(tmp_path / "b", table(), engine=SessionEngine(other, name="other"), **options)
    assert torch.equal(found.tokens, expected.tokens)
    assert torch.equal(found.log_probs, expected.log_probs)
    assert not torch.equal(found.tokens, draw(tmp_path / "c", table(), **options).tokens)


def test_prompts_are_held_out_as_a_whole(tmp_path: Path) -> None:
    prompts = [(i % 3, i // 3 % 3, i // 9) for i in range(27)]
    samples = draw(tmp_path, prompts=prompts, samples=108, group=2)
    training, held_out = samples.split(0.25)
    assert len(training) + len(held_out) == 108
    numbers = samples.prompts
    assert not {*numbers[training].tolist()} & {*numbers[held_out].tolist()}
    assert len(numbers[held_out].unique()) == 7
    assert [*map(torch.Tensor.tolist, samples.split(0.25))] == [
        training.tolist(),
        held_out.tolist(),
    ]


def test_of_few_prompts_samples_are_held_out(tmp_path: Path) -> None:
    training, held_out = draw(tmp_path).split(0.1)
    assert (len(training), len(held_out)) == (45, 5)
    with pytest.raises(InvalidParameterError, match="held_out"):
        SampleSet.load(tmp_path).split(1.0)


@pytest.mark.parametrize(
    "change", [{"samples": 0}, {"length": 0}, {"group": 5}, {"seed": -1}, {"batch_size": True}]
)
def test_sizes_that_cannot_be_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=next(iter(change))):
        draw(tmp_path, **change)


def test_a_chat_model_of_transformers_answers_as_it_says(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.learning.worlds import tiny_lm

    lm = tiny_lm(chat=True)
    prompts = [[{"role": "user", "content": "hello"}], "he", [2, 3, 4]]
    samples = draw(tmp_path, lm, prompts=prompts, samples=12, group=2, length=6)
    prompts[1] = [{"role": "user", "content": "he"}]  # what a text is to a model that knows chats
    ids = [lm.encode(prompt) for prompt in prompts]
    for row, text in enumerate(samples.tokens.tolist()):
        length = int(samples.num_tokens[row])
        prompt = ids[int(samples.prompts[row])]
        expected = sum(
            float(lm.log_probs([(*prompt, *text[:i])])[0, text[i]]) for i in range(length)
        )
        assert float(samples.log_probs[row]) == pytest.approx(expected, abs=1e-3)
    assert samples.manifest.model.startswith("LlamaForCausalLM ")
