"""From a circuit to the state of prefixes: what decoders ask at every step, exactly and fast."""

from __future__ import annotations

from pcgcd.circuits.prefixes import use_compiler
from pcgcd.engine.batches import start_batch
from pcgcd.engine.candidates import Candidates
from pcgcd.engine.chain_engine import ChainEngine
from pcgcd.engine.chain_state import ChainState
from pcgcd.engine.compiling import Parts, compile_circuit, parts_of
from pcgcd.engine.files import load_circuit, save_circuit
from pcgcd.engine.layered import LayeredEngine
from pcgcd.engine.prefix_engine import PrefixEngine
from pcgcd.engine.state import PrefixState

__all__ = [
    "Candidates",
    "ChainEngine",
    "ChainState",
    "LayeredEngine",
    "Parts",
    "PrefixEngine",
    "PrefixState",
    "compile_circuit",
    "load_circuit",
    "parts_of",
    "save_circuit",
    "start_batch",
]

# Circuits answer queries about prefixes with the engine, which they know by this alone.
use_compiler(compile_circuit)
