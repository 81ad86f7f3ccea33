"""What may a guide know of the prompt? Copying, adaptation, and the language model's own state.

Needs the samples of a distillation (``pcgcd distill`` leaves them in its folder) and its prompts:

    python benchmarks/prompt_knowledge.py --samples my_hmm/samples --prompts prompts.jsonl

An HMM guides by what it expects of the rest of a text. So each row says how many nats better (or
worse) than the bare HMM it predicts the next 16 tokens of held-out samples, from the end of the
prompt and from every third token after it:

- given the prompt: the HMM with its copying (``hmm.given``);
- head: the same, but the hidden state is what a linear head makes of the language model's last
  hidden state. The head is trained on other prompts to predict those 16 tokens, and its epoch is
  chosen on the held-out ones, which flatters it. At the prompt alone, then filtered; and anew at
  each token;
- adapted: the HMM after EM on 32 further answers to the same prompt (``hmm.adapted``), then given
  the prompt; only for some of the prompts without a constraint, on which the others are measured
  too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from common import machine, rounded, write_json
from distilled_samples import given_samples
from rich.console import Console
from rich.table import Table
from torch import Tensor

from pcgcd.hmm import HiddenMarkovModel, default_hmm
from pcgcd.learning.distillation.embeddings import token_states
from pcgcd.learning.distillation.sampling import SessionEngine
from pcgcd.learning.sequences import num_tokens
from pcgcd.lm import LanguageModel

NAME = "prompt_knowledge"
AHEAD, EVERY = 16, 3
TRAINED, HELD_OUT = 1024, 256
EPOCHS = 8
PILOTS, ADAPTED_PROMPTS = 32, 12
LONGEST_PROMPT = 400


@dataclass
class Places:
    """Places in texts from which the rest is predicted."""

    features: Tensor  # the language model's state there, (N, d)
    filtered: Tensor  # the HMM's belief about the hidden state of the next token, (N, H)
    ahead: Tensor  # the likelihood of the next tokens for each hidden state, scaled, (N, H)
    log_scale: Tensor  # (N,) float64
    at_prompt: Tensor  # (N,) bool
    sample: Tensor  # (N,)

    def log_likelihood(self, belief: Tensor) -> Tensor:
        """Of the tokens ahead, (N,)."""
        return (belief * self.ahead).sum(1).double().log() + self.log_scale


def places(
    hmm_of: Callable[[tuple[int, ...]], HiddenMarkovModel],
    prompts: Sequence[tuple[int, ...]],
    texts: Sequence[Sequence[int]],
    states: Tensor,
    start: Tensor | None = None,
) -> Places:
    """All places of some samples; ``start`` replaces the belief at each prompt."""
    found: list[tuple[Tensor, Tensor, Tensor, float, bool, int]] = []
    first = 0
    for number, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
        hmm = hmm_of(prompt)
        transition: Any = hmm.transition_factors[0].float()
        emitted = hmm.emission[:, torch.tensor(text)].t().float()
        belief = hmm.initial.float() if start is None else start[number]
        for at in range(len(text)):
            if at % EVERY == 0:
                last = min(at + AHEAD, len(text)) - 1
                ahead, log_scale = emitted[last], 0.0
                for t in range(last - 1, at - 1, -1):
                    scale = float(ahead.max())
                    log_scale += float(torch.tensor(scale).log())
                    ahead = emitted[t] * (transition @ (ahead / scale))
                found.append((states[first + at], belief, ahead, log_scale, at == 0, number))
            belief = belief * emitted[at]
            belief = (belief / belief.sum()) @ transition
        first += len(text)
    features, filtered, ahead, log_scale, at_prompt, sample = zip(*found, strict=True)
    return Places(
        torch.stack(features),
        torch.stack(filtered),
        torch.stack(ahead),
        torch.tensor(log_scale, dtype=torch.float64),
        torch.tensor(at_prompt),
        torch.tensor(sample),
    )


def trained_head(training: Places, held_out: Places) -> Tensor:
    """The beliefs of the best epoch of a linear head at the held-out places, (N, H)."""
    torch.manual_seed(0)
    mean, spread = training.features.mean(0), training.features.std(0) + 1e-6
    head = torch.nn.Linear(training.features.shape[1], training.ahead.shape[1])
    torch.nn.init.zeros_(head.weight)
    head.bias.data = training.filtered.mean(0).clamp_min(1e-8).log()
    optimiser = torch.optim.AdamW(head.parameters(), lr=1e-3, weight_decay=0.05)
    best, result = -float("inf"), held_out.filtered
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(training.ahead)).split(256):
            belief = head((training.features[rows] - mean) / spread).softmax(1)
            loss = -(belief * training.ahead[rows]).sum(1).clamp_min(1e-30).log().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            belief = head((held_out.features - mean) / spread).softmax(1)
            score = float(held_out.log_likelihood(belief).mean())
        if score > best:
            best, result = score, belief
    return result


def mean_gain(better: Tensor, at_prompt: Tensor) -> dict[str, Any]:
    """How much better than the bare HMM, at the prompt and after it."""
    return {
        "places": len(better),
        "at_prompt": float(better[at_prompt].mean()),
        "later": float(better[~at_prompt].mean()),
    }


def pilots(lm: LanguageModel, prompt: tuple[int, ...], length: int) -> list[list[int]]:
    """Answers to a prompt, up to their end."""
    uniform = torch.rand(
        (PILOTS, length), generator=torch.Generator().manual_seed(len(prompt)), dtype=torch.float64
    )
    tokens, _ = SessionEngine(lm).answer([prompt] * PILOTS, length, uniform, 0)
    return until_ends(tokens, lm.vocabulary.eos_ids)


def until_ends(tokens: Tensor, eos_ids: tuple[int, ...]) -> list[list[int]]:
    """Texts, each with its first EOS, if it has one."""
    lengths = num_tokens(tokens, eos_ids).tolist()
    return [row[:length] for row, length in zip(tokens.tolist(), lengths, strict=True)]


def tables(results: Any) -> list[Table]:
    """The results as a table."""
    table = Table(
        title=f"nats by which the next {results['ahead']} tokens are predicted better",
        title_justify="left",
    )
    table.add_column("guide")
    for column in ("all, at the prompt", "later", "no constraint, at the prompt", "later"):
        table.add_column(column, justify="right")
    for row in results["rows"]:
        cells = []
        for part in ("all", "some_free"):
            found = row.get(part)
            cells += [f"{found[at]:+.1f}" if found else "" for at in ("at_prompt", "later")]
        table.add_row(row["guide"], *cells)
    return [table]


def main(argv: list[str] | None = None) -> int:
    lm, samples, answered, out = given_samples(argv, __doc__.splitlines()[0], partial=True)
    hmm = default_hmm()
    short = [i for i, prompt in enumerate(answered) if len(prompt) <= LONGEST_PROMPT]
    chosen = [*short[:TRAINED], *short[-HELD_OUT:]]
    prompts = [answered[i] for i in chosen]
    texts = until_ends(samples.tokens[chosen], samples.manifest.eos_ids)
    lengths = samples.num_tokens[chosen]
    states = token_states(lm, prompts, samples.tokens[chosen], lengths).before
    cut = int(lengths[:TRAINED].sum())
    train = (prompts[:TRAINED], texts[:TRAINED], states[:cut])
    test = (prompts[TRAINED:], texts[TRAINED:], states[cut:])

    given = lru_cache(maxsize=1)(hmm.given)  # samples of a prompt stand together
    bare = places(lambda _: hmm, *test)
    base = bare.log_likelihood(bare.filtered)
    informed = places(given, *test)
    belief = trained_head(places(given, *train), informed)
    started = places(given, *test, start=belief[informed.at_prompt])
    found = {
        "given the prompt": informed.log_likelihood(informed.filtered),
        "head at the prompt": started.log_likelihood(started.filtered),
        "head at each token": informed.log_likelihood(belief),
    }
    free = [i for i, n in enumerate(chosen[TRAINED:]) if not bool(samples.constrained[n])]
    few = list(dict.fromkeys(test[0][i] for i in free))[:ADAPTED_PROMPTS]
    length = samples.manifest.length
    adapted = {p: hmm.adapted(pilots(lm, p, length)).given(p) for p in few}
    there = [i for i in free if test[0][i] in adapted]
    some = torch.isin(bare.sample, torch.tensor(there))
    own = places(
        adapted.__getitem__,
        [test[0][i] for i in there],
        [test[1][i] for i in there],
        torch.zeros(sum(len(test[1][i]) for i in there), 1),
    )
    rows = [
        {
            "guide": name,
            "all": mean_gain(value - base, bare.at_prompt),
            "some_free": mean_gain((value - base)[some], bare.at_prompt[some]),
        }
        for name, value in found.items()
    ]
    better = own.log_likelihood(own.filtered) - base[some]
    rows.append({"guide": "adapted", "some_free": mean_gain(better, own.at_prompt)})
    results = {
        "benchmark": NAME,
        "command": "python benchmarks/prompt_knowledge.py --samples ... --prompts ...",
        "machine": machine(),
        "ahead": AHEAD,
        "trained": TRAINED,
        "held_out": HELD_OUT,
        "pilots": PILOTS,
        "bare_log_likelihood": float(base.mean()),
        "rows": rows,
    }
    Console().print(*tables(results))
    write_json(rounded(results), out / f"{NAME}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
