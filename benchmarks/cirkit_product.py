"""The peer of product_build.py: cirkit multiplies two chains that are given as matrices.

Runs in an environment with cirkit (``pip install libcirkit``); pcgcd is not needed there.

    python cirkit_product.py matrices.npz repeats
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

import numpy as np
import torch
from cirkit.pipeline import PipelineContext
from cirkit.symbolic import functional
from cirkit.symbolic.circuit import Circuit
from cirkit.symbolic.layers import EmbeddingLayer, HadamardLayer, SumLayer
from cirkit.symbolic.parameters import ConstantParameter, Parameter
from cirkit.utils.scope import Scope
from common import extra_memory, timed

# Tied steps have the parameters that ours have. Untied steps can be folded into fewer, larger
# tensor operations, which cirkit 0.3.1 does not manage for tied ones.
CONFIGURATIONS = {"tied": (True, False), "untied, folded": (False, True)}


def chain(matrices, side: str, length: int, tied: bool) -> Circuit:
    """initial · D(x_1) · transition · ... · D(x_n) · final as sum, Hadamard and input layers."""
    initial, transition, emission, final = (
        matrices[f"{side}_{name}"] for name in ("initial", "transition", "emission", "final")
    )
    units, tokens = emission.shape
    known: dict[str, Parameter] = {}

    def weight(name: str, value) -> Parameter:
        if tied and name in known:
            return known[name].ref()
        known[name] = Parameter.from_input(ConstantParameter(*value.shape, value=value))
        return known[name]

    def inputs(step: int) -> EmbeddingLayer:
        return EmbeddingLayer(
            Scope([step]), units, num_states=tokens, weight=weight("emission", emission)
        )

    layer = inputs(length - 1)
    layers, children = [layer], {}
    for step in range(length - 2, -1, -1):
        last = step == length - 2
        matrix = transition * final if last else transition
        below = SumLayer(units, units, weight=weight("last" if last else "transition", matrix))
        children[below] = [layer]
        here = inputs(step)
        layer = HadamardLayer(units, 2)
        children[layer] = [here, below]
        layers += [below, here, layer]
    root = SumLayer(units, 1, weight=weight("initial", initial[None]))
    children[root] = [layer]
    return Circuit([*layers, root], children, [root])


def measure(matrices, repeats: int, tied: bool, fold: bool) -> dict:
    length = int(matrices["length"])
    x = torch.from_numpy(matrices["x"])

    def operands():
        context = PipelineContext(backend="torch", semiring="lse-sum", fold=fold, optimize=True)
        pair = [chain(matrices, side, length, tied) for side in ("hmm", "fa")]
        for circuit in pair:
            context.compile(circuit)
        return context, pair

    def build(given):
        context, pair = given
        with context:
            return context.compile(functional.multiply(*pair))

    def evaluate(product):
        with torch.no_grad():
            return product(x)

    prepared = operands()
    product, build_memory = extra_memory(lambda: build(prepared))
    result, value_memory = extra_memory(lambda: evaluate(product))
    return {
        "build": timed(build, repeats, prepare=operands),
        "build_memory": build_memory,
        "value": timed(lambda _: evaluate(product), max(2, repeats // 4)),
        "value_memory": value_memory,
        "log_value": float(result.flatten()[0]),
    }


def main() -> None:
    torch.set_num_threads(1)
    matrices = np.load(sys.argv[1])
    name = sys.argv[3]
    result = measure(matrices, int(sys.argv[2]), *CONFIGURATIONS[name])
    print(json.dumps({**result, "configuration": name, "version": version("libcirkit")}))


if __name__ == "__main__":
    main()
