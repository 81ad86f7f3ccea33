"""Token sets, given as intervals of ranks, factored through classes of equivalent tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pcgcd.automata.kernels.classes import split_cells
from pcgcd.automata.labels import Labels

if TYPE_CHECKING:
    from pcgcd.automata.vocabulary import Vocabulary

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def factored(vocabulary: Vocabulary, first: Array, bounds: Array, used: Array) -> Labels:
    """The labels of a token automaton.

    Tokens between two neighbouring bounds are never told apart, so the work is on these stretches
    (cells) and no token set is written out.

    Args:
        vocabulary: The tokens.
        first: Where the bounds of each list begin, (lists + 1,).
        bounds: Low and high ranks of intervals, in turn.
        used: The lists that become labels, in order; a list after the last one means EOS.
    """
    num_ranks = len(vocabulary.trie.token)
    num_all = num_ranks + len(vocabulary.eos_ids)
    size = np.diff(np.append(first, first[-1] + 2))[used]
    start = np.zeros(len(used) + 1, dtype=np.int64)
    np.cumsum(size, out=start[1:])
    gather = np.repeat((first[used] - start[:-1]).astype(np.int32), size)
    gather += np.arange(start[-1], dtype=np.int32)
    bounds = np.append(bounds, np.array([num_ranks, num_all], dtype=bounds.dtype))[gather]
    del gather  # there may be millions of bounds
    is_cut = np.zeros(num_all + 1, dtype=np.bool_)
    is_cut[bounds] = is_cut[0] = is_cut[num_all] = True
    cuts = np.flatnonzero(is_cut)
    cells = (np.cumsum(is_cut, dtype=np.int32) - 1)[bounds]
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
