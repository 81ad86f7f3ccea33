"""What does a wrong guide cost, and what does GCD's share of the particles save?

    python benchmarks/wrong_guides.py

The language model is an HMM over 6 tokens, so the evidence is known exactly: it is the partition
function of ``hmm * fa``. Prints the table of docs/decoding.md: the mean of the estimated evidence
over the exact one, which is 1 if nothing is lost, and the variance of its logarithm, over
independent runs of 8 particles.
"""

from __future__ import annotations

import argparse

import torch

import pcgcd
from pcgcd.constraints import regex
from pcgcd.decoding import SMC
from pcgcd.hmm import HMM, absorbing
from pcgcd.lm import HMMLanguageModel

BUDGET, PARTICLES = 8, 8
TOKENS = [b"a", b"b", b"c", b"d", b"e"]
METHODS = {
    "GCD": {"method": "gcd"},
    "twisted alone": {"method": "twisted", "gcd_share": 0.0},
    "twisted beside GCD": {"method": "twisted"},
    '... with `potential="prefix"`': {"method": "twisted", "potential": "prefix"},
    "... and half GCD": {"method": "twisted", "potential": "prefix", "gcd_share": 0.5},
}


def without(hmm: HMM, tokens: list[int], mass: float) -> HMM:
    """The same HMM, which gives some tokens (almost) no mass."""
    emission = hmm.emission.clone()
    emission[:, tokens] = emission[:, tokens].clamp(max=mass)
    return HMM(hmm.initial, hmm.transition, emission / emission.sum(1, keepdim=True))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400, help="for each cell (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first run (%(default)s)")
    arguments = parser.parse_args(argv)
    vocabulary = pcgcd.Vocabulary.from_bytes([*TOKENS, None], eos_ids=len(TOKENS))
    generator = torch.Generator().manual_seed(0)
    plain = HMM.random(4, len(TOKENS) + 1, generator=generator, dtype=torch.float64)
    model = absorbing(plain, len(TOKENS))
    fa = regex("a[a-e]{2,4}d|b[a-e]{2,4}c").compile(vocabulary)
    lm = HMMLanguageModel(model, vocabulary)
    truth = float((model * fa).log_partition(BUDGET))
    guides = {
        "the model itself": model,
        "no mass for two tokens": absorbing(without(plain, [2, 4], 0.0), len(TOKENS)),
        "1e-12 for one token": absorbing(without(plain, [2], 1e-12), len(TOKENS)),
    }
    print(f"| guide | {' | '.join(METHODS)} |")
    print(f"| --- |{' ---: |' * len(METHODS)}")
    for i, (name, guide) in enumerate(guides.items()):
        cells = []
        for method, options in METHODS.items():
            if method == "GCD" and i:  # It has no guide.
                cells.append("")
                continue
            hmm = None if method == "GCD" else guide
            generation = pcgcd.Generator(lm, hmm=hmm, smc=SMC(PARTICLES), **options)
            requests = [pcgcd.Request(fa, budget=BUDGET)] * arguments.runs
            found = generation.run(requests, seed=arguments.seed)
            errors = torch.tensor([result.log_evidence for result in found]).double() - truth
            cells.append(f"{errors.exp().mean():.2f}, {errors.var():.2f}")
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\nExact log-evidence {truth:.3f}; {arguments.runs} runs, {PARTICLES} particles each.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
