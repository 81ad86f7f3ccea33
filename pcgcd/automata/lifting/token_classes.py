"""Token sets, given as intervals of ranks, factored through classes of equivalent tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pcgcd.automata.kernels.classes import split_cells
from pcgcd.automata.labels import Labels

if TYPE_CHECKING:
    from pcgcd.automata.vocabulary import Vocabulary

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_AT_ONCE = 1 << 19


def factored(vocabulary: Vocabulary, first: Array, bounds: Array, used: Array) -> Labels:
    """The labels of a token automaton.

    Tokens between two neighbouring bounds are never told apart, so the work is on these stretches
    (cells) and no token set is written out.

    Args:
        vocabulary: The tokens.
        first: Where the bounds of each list begin, (lists + 1,).
        bounds: Low and high ranks of intervals, in turn.
        used: The lists that become labels, rising; a list after the last one means EOS.
    """
    num_ranks = len(vocabulary.trie.token)
    num_all = num_ranks + len(vocabulary.eos_ids)
    size = np.diff(first)
    is_used = np.zeros(len(first), dtype=np.bool_)  # the last one is EOS
    is_used[used] = True
    if not is_used[:-1].all():
        bounds = bounds[np.repeat(is_used[:-1], size)]
    # There may be millions of bounds, and numpy widens indices: they are taken part by part.
    spans = [slice(begin, begin + _AT_ONCE) for begin in range(0, len(bounds), _AT_ONCE)]
    is_cut = np.zeros(num_all + 1, dtype=np.bool_)
    is_cut[[0, num_ranks, num_all]] = True
    for span in spans:
        is_cut[bounds[span]] = True
    cuts = np.flatnonzero(is_cut)
    number = np.cumsum(is_cut, dtype=np.int32) - np.int32(1)
    cells = np.empty(len(bounds) + 2, dtype=np.int32)
    for span in spans:
        cells[:-2][span] = number[bounds[span]]
    cells[-2:] = number[[num_ranks, num_all]]
    start = np.zeros(len(used) + 1, dtype=np.int64)
    np.cumsum(np.append(size, 2)[used], out=start[1:])
    cell_class, label_class = split_cells(start, cells, len(cuts) - 1)
    free = np.flatnonzero(~label_class.any(0))
    if len(free) == 0 and num_all < vocabulary.logits_size:
        free = np.array([label_class.shape[1]])
        label_class = np.pad(label_class, ((0, 0), (0, 1)))
    token_class = np.full(vocabulary.logits_size, free[0] if len(free) else 0, dtype=np.int64)
    token_class[vocabulary.trie.token] = np.repeat(cell_class, np.diff(cuts))[:num_ranks]
    token_class[list(vocabulary.eos_ids)] = cell_class[-1]
    label_class.flags.writeable = token_class.flags.writeable = False
    return Labels(label_class, token_class)
