"""All loops compiled, by doing a little of everything."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from pcgcd.automata import Vocabulary
from pcgcd.automata.kernels.jit import always_compiled
from pcgcd.automata.masks.table import MaskTable
from pcgcd.constraints import json_schema, keywords, regex
from pcgcd.decoding.targets import Target
from pcgcd.hmm import HMM

_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20, "pattern": "^[a-z]"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
        "more": {"not": {"type": "string"}},
    },
    "maxProperties": 4,
    "additionalProperties": True,
}
_TEXT = b'{"name": "ada"'
_BUDGET = 60


@cache
def compile_all_loops() -> None:
    """Compile all loops into numba's cache, so that nothing waits for them later."""
    with always_compiled():
        _use_everything()


def _use_everything() -> None:
    tokens = [*(bytes([b]) for b in range(256)), b'{"', b'": "', b"ada", None]
    vocabulary = Vocabulary.from_bytes(tokens, eos_ids=len(tokens) - 1)
    words = keywords({"dog": ["dog", "dogs"]}, inflect=False)
    spelled = regex("(a|b)*a(a|b){12}|[^x]{1,20}")
    for constraint in (words & "a dog", spelled):
        constraint.compile(vocabulary)
    automaton = json_schema(_SCHEMA).compile(vocabulary)
    hmm = HMM.random(4, len(tokens), generator=torch.Generator().manual_seed(0))
    half = HMM(hmm.initial, hmm.transition, hmm.emission.bfloat16(), validate=False)
    # Where nearly all tokens are allowed, other loops are used than where few are.
    wide = regex(".*").compile(vocabulary)
    for circuit in (automaton, *(guide * fa for guide in (hmm, half) for fa in (automaton, wide))):
        state = circuit.start([_BUDGET] * 2)
        for byte in _TEXT:
            state.next_tokens()
            state.next_lookaheads()
            state = state.select([0, 0]).advance([byte, byte])
        state.log_lookahead()
    lazy = Target.of(json_schema(_SCHEMA), vocabulary).engine().start([_BUDGET] * 2)
    for byte in _TEXT:
        lazy.allowed()
        lazy = lazy.advance([byte, byte])
    table = MaskTable.of(automaton)
    rows = np.zeros((2, (len(tokens) + 31) // 32), dtype=np.uint32)
    table.mask(table.start(), _BUDGET, rows[0])
    table.masks([table.start()] * 2, _BUDGET, rows)
