"""What was relaxed in a constraint is checked where a text ends, so that the target is exact."""

from __future__ import annotations

import itertools
import json
import math

import pytest
import torch

import pcgcd
from pcgcd.automata import Vocabulary
from pcgcd.constraints import Constraint, json_schema
from pcgcd.errors import DeadEndError
from pcgcd.hmm import HMM, absorbing
from pcgcd.lm import TableLM

PIECES = [b"[", b"]", b'"a"', b'"b"', b", ", None]
VOCABULARY = Vocabulary.from_bytes(PIECES, eos_ids=5)
LM = TableLM(VOCABULARY, lambda prefix: rows(prefix))
BUDGET = 8
STRINGS = {"type": "array", "items": {"type": "string"}}
METHODS = ["unconstrained", "lcd", "gcd", "pgcd", "twisted", "rejection"]


def rows(prefix: tuple[int, ...]) -> list[float]:
    """A model that likes JSON, and repeats itself."""
    last = prefix[-1] if prefix else None
    repeated = 2.0 if 2 in prefix else 0.5
    likely = {None: [0], 0: [1, 2, 3], 1: [5], 2: [1, 4], 3: [1, 4], 4: [2, 3], 5: [5]}[last]
    weights = [0.02 + (token in likely) for token in range(6)]
    weights[2] *= repeated
    return [weight / sum(weights) for weight in weights]


def relaxed() -> Constraint:
    return json_schema({**STRINGS, "uniqueItems": True}, relax={"uniqueItems"})


def exact() -> dict[str, float]:
    """p_lm of every text of the whole schema within the budget, by enumeration."""
    result = {}
    for size in range(4):
        for items in itertools.product((2, 3), repeat=size):
            inner = [token for item in items for token in (item, 4)][:-1]
            tokens = (0, *inner, 1, 5)
            if len(set(items)) == size and len(tokens) <= BUDGET:
                p = math.prod(rows(tokens[:i])[token] for i, token in enumerate(tokens))
                result[VOCABULARY.decode(tokens).decode()] = p
    return result


@pytest.mark.parametrize("method", METHODS)
def test_texts_that_fail_have_no_weight_and_the_rest_is_exact(method: str) -> None:
    random = HMM.random(3, 6, generator=torch.Generator().manual_seed(0), concentration=4.0)
    guide = absorbing(random, VOCABULARY.eos_ids)
    hmm = guide if method in ("pgcd", "twisted") else None
    count = 200 if method == "rejection" else 600
    result = pcgcd.generate(
        LM, relaxed(), method=method, budget=BUDGET, particles=count, hmm=hmm, seed=1
    )
    wanted = exact()
    weights = torch.tensor(result.log_weights, dtype=torch.float64)
    weights = (weights - weights.logsumexp(0)).exp()
    found = dict.fromkeys(wanted, 0.0)
    for text, weight, satisfied in zip(
        result.texts, weights.tolist(), result.satisfied, strict=True
    ):
        unique = text in wanted
        assert satisfied == unique
        assert weight == 0 or unique, text
        if unique:
            found[text] += weight
    total = sum(wanted.values())
    for text, p in wanted.items():
        # Four standard errors of a share at most, for about 200 independent samples or more.
        assert found[text] == pytest.approx(p / total, abs=0.13)
    assert result.log_evidence == pytest.approx(math.log(total), abs=0.2)


def test_beams_and_stop_rules_ask_the_check_too() -> None:
    result = pcgcd.generate(LM, relaxed(), budget=BUDGET, particles=4, temperature=0)
    assert result.texts
    assert all(len(set(json.loads(text))) == len(json.loads(text)) for text in result.texts)
    stopped = pcgcd.generate(LM, relaxed(), budget=BUDGET, particles=200, stop="]", seed=0)
    for text, weight in zip(stopped.texts, stopped.log_weights, strict=True):
        items = json.loads(text) if weight > -math.inf else []
        assert len(set(items)) == len(items)


def test_an_error_says_so_if_no_text_passes() -> None:
    pair = json_schema({**STRINGS, "uniqueItems": True, "minItems": 3}, relax={"uniqueItems"})
    with pytest.raises(DeadEndError, match="relaxed"):
        pcgcd.generate(LM, pair, budget=BUDGET, particles=8, seed=0).best  # noqa: B018
