"""Operators in a few words, and a short symbol for each different one of a circuit."""

from __future__ import annotations

from typing import NamedTuple

from pcgcd.circuits import (
    BlockSparse,
    Chain,
    Circuit,
    Composition,
    Dense,
    Diagonal,
    Identity,
    Incidence,
    InputLayer,
    Kronecker,
    LabelSets,
    Monarch,
    Operator,
    RowwiseKronecker,
)

_NAMES: tuple[tuple[type[Operator], str], ...] = (
    (Identity, "identity"),
    (Diagonal, "diagonal"),
    (Dense, "dense"),
    (Incidence, "incidence"),
    (LabelSets, "token sets"),
    (BlockSparse, "block-sparse"),
    (Monarch, "Monarch"),
)


def operator_text(operator: Operator) -> str:
    """What kind of operator it is, with the sizes of its parts.

    >>> operator_text(Kronecker(Identity(2), Composition(Identity(3), Identity(3))))
    'identity 2×2 ⊗ (identity 3×3 · identity 3×3)'
    """
    if isinstance(operator, Composition):
        return " · ".join(_inner(part) for part in operator.parts)
    if isinstance(operator, RowwiseKronecker):
        return f"{_inner(operator.left)} ⊙ {_inner(operator.right)}"
    if isinstance(operator, Kronecker):
        return f"{_inner(operator.left)} ⊗ {_inner(operator.right)}"
    rows, columns = operator.shape
    for kind, name in _NAMES:
        if isinstance(operator, kind):
            return f"{name} {rows:,}×{columns:,}"
    return f"{type(operator).__name__} {rows:,}×{columns:,}"


def _inner(operator: Operator) -> str:
    text = operator_text(operator)
    return f"({text})" if " ⊗ " in text or " ⊙ " in text or " · " in text else text


class Symbol(NamedTuple):
    """What is written for operators that look alike, as mathematics, and its line of the key."""

    sign: str
    line: str


def symbols_of(circuit: Circuit) -> dict[Operator, Symbol]:
    """Name each operator by a symbol: B_1, ... for those of inputs, W_1, ... for sums."""
    roles = {}
    if isinstance(circuit.family, Chain):
        roles = dict(zip(circuit.family.operators, circuit.family.operators._fields))
    groups: dict[tuple[str, str, str], list[Operator]] = {}
    for layer in reversed(circuit.layers):
        letter = "B" if isinstance(layer, InputLayer) else "W"
        for operator in layer.operators:
            key = (letter, _role(operator, roles), operator_text(operator))
            groups.setdefault(key, []).append(operator)
    result: dict[Operator, Symbol] = {}
    count = {"B": 0, "W": 0}
    for (letter, role, text), members in groups.items():
        count[letter] += 1
        line, different = f"{role}: {text}" if role else text, len(set(members))
        if different > 1:
            line += f"   ({different} of them)"
        elif len(members) > 1:
            line += f"   (tied, {len(members)} times)"
        symbol = Symbol(f"${letter}_{{{count[letter]}}}$", line)
        result |= dict.fromkeys(members, symbol)
    return result


def _role(operator: Operator, roles: dict[Operator, str]) -> str:
    if operator in roles:
        return roles[operator]
    if isinstance(operator, Composition):
        found = [roles.get(part) for part in operator.parts]
        if all(found):
            return " · ".join(str(name) for name in found)
    return ""
