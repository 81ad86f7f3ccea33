"""From a circuit to the engine that answers for its prefixes; its own structure chooses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import torch

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.basics.keeping import kept_with
from pcgcd.circuits import (
    Chain,
    ChainMixture,
    ChainOperators,
    CircuitLike,
    Dense,
    Identity,
    OperatorChain,
    circuit_product,
    mixture,
)
from pcgcd.engine.chain_engine import ChainEngine
from pcgcd.engine.guide import table_size
from pcgcd.engine.layered import LayeredEngine
from pcgcd.engine.prefix_engine import PrefixEngine, everything

# Emissions with more entries are not written out by token: 4 GB in float32.
_TABLE_LIMIT = 1 << 30


class Parts(NamedTuple):
    """What a product of circuits is made of.

    Attributes:
        guide: The product of all factors that are no automata, with their scales; None if there
            are none.
        automata: The automata: they say what is allowed, and how much it weighs.
    """

    guide: CircuitLike | None
    automata: tuple[FiniteAutomaton, ...]


def parts_of(circuit: CircuitLike) -> Parts:
    """Separate the automata among the factors of a circuit from the rest.

    >>> from pcgcd import HMM
    >>> hmm = HMM.random(2, 3, generator=torch.Generator().manual_seed(0))
    >>> fa = everything(3)
    >>> guide, automata = parts_of(0.5 * (hmm * fa))
    >>> guide, automata == (fa,)
    (0.5 * (HMM(num_hidden=2, vocab_size=3, dtype=torch.float32)), True)
    """
    automata: list[FiniteAutomaton] = []
    rest: list[CircuitLike] = []
    for factor in circuit.factors:
        if isinstance(factor, FiniteAutomaton):
            automata.append(factor)
        elif isinstance(factor, ChainMixture):
            guide, shared = _shared_automata(factor)
            automata += shared
            rest.append(guide)
        else:
            rest.append(factor)
    return Parts(reduce(circuit_product, rest) if rest else None, tuple(automata))


def _shared_automata(mixed: ChainMixture) -> tuple[CircuitLike, tuple[FiniteAutomaton, ...]]:
    """A multiple or a mixture with the automata that all its operands have taken out."""
    inner = [parts_of(operand) for operand in mixed.operands]
    shared = inner[0].automata
    if not shared or any(part.automata != shared for part in inner):
        return mixed, ()
    guides = [part.guide or counting(mixed.vocab_size) for part in inner]
    return mixture(guides, mixed.weights), shared


def joined(automata: Sequence[FiniteAutomaton], vocab_size: int) -> FiniteAutomaton:
    """One automaton for several: their reachable product, in which paths and weights multiply.

    Messages of the product live on its states whatever form it has, and what the emissions of two
    edges have in common cannot be told from each alone; so the product is always written out.
    """
    if not automata:
        return everything(vocab_size)
    if len(automata) == 1:
        return automata[0]
    from pcgcd.automata.products import path_product  # compiled when it is first used

    return path_product(automata, state_limit=STATE_LIMIT)


@lru_cache(maxsize=8)
def counting(vocab_size: int) -> Chain:
    """Return the chain that is 1 on every string: with an automaton, it counts paths."""
    one = Dense(torch.ones(1, 1))
    return OperatorChain(ChainOperators(one, one, Dense(torch.ones(1, vocab_size)), Identity(1)))


def engine_of(
    guide: CircuitLike | None,
    automaton: FiniteAutomaton,
    dtype: torch.dtype = torch.float32,
) -> PrefixEngine:
    """Return the engine of a guide and an automaton.

    A chain whose emission can be written out gets the fast engine. Any other circuit (a tree, a
    chain of one length with different steps, a product of chains too large to write out) gets the
    general one, whose messages are those of its layered graph.
    """
    chain = counting(automaton.vocab_size) if guide is None else guide
    if isinstance(chain, Chain) and table_size(chain) <= _TABLE_LIMIT:
        return ChainEngine.of(chain, automaton, dtype)
    return LayeredEngine(chain, automaton)


def compile_circuit(circuit: CircuitLike, dtype: torch.dtype | None = None) -> PrefixEngine:
    """Compile a circuit over token strings for decoding.

    Args:
        circuit: Any smooth and decomposable circuit: a chain, a product of chains and automata, a
            tree, a product of a tree and an automaton.
        dtype: The type to compute in: by default float64 for a circuit of float64, else float32.

    >>> from pcgcd import HMM
    >>> hmm = HMM.random(2, 3, generator=torch.Generator().manual_seed(0))
    >>> compile_circuit(hmm * hmm).start([4]).advance([1]).next_tokens().dense(3).exp().sum()
    tensor(1.0000)
    """
    # Kept by the circuit itself, and so forgotten with it.
    kept: dict[str, Any] = kept_with(circuit, "_compiled", dict)
    if "parts" not in kept:
        guide, automata = parts_of(circuit)
        kept["parts"] = (guide, joined(automata, circuit.vocab_size))
    guide, automaton = kept["parts"]
    engine: PrefixEngine | None = kept.get("engine")
    if not isinstance(engine, LayeredEngine):
        engine = kept["engine"] = engine_of(guide, automaton, dtype or _dtype(circuit))
    return engine


def _dtype(circuit: CircuitLike) -> torch.dtype:
    if isinstance(circuit, Chain):
        wide = any(operator.dtype == torch.float64 for operator in circuit.operators)
    else:
        wide = circuit.sample_graph().dtype == torch.float64
    return torch.float64 if wide else torch.float32
