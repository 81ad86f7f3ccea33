"""The prefix tree of a vocabulary's tokens, laid out in preorder for fast walks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcgcd.automata.arrays import Indices
from pcgcd.automata.kernels.tries import Nodes, build_trie


@dataclass(frozen=True, eq=False, repr=False)
class Trie:
    """All prefixes of all tokens; node 0 is the empty prefix.

    Nodes are in preorder, so a subtree is the interval ``node .. end[node]``, and tokens are ranked
    by their bytes, so the tokens below a node are the interval
    ``first_rank[node] .. first_rank[end[node]]``, of which those before ``first_rank[node + 1]``
    are the node's own. A set of tokens is written as intervals of ranks.

    Attributes:
        nodes: For each of the N prefixes its last ``byte``, its length ``depth``, the first node
            after its subtree ``end``, the number ``first_rank`` of tokens in earlier nodes,
            (N + 1,), which bytes occur ``below``, 256 bits in four words, (N, 4), and the node of
            each single byte ``start``, (256,), 0 for none.
        token: The token id of each rank, (R,); tokens with equal bytes follow each other.
    """

    nodes: Nodes
    token: Indices

    @property
    def num_nodes(self) -> int:
        """The number of prefixes N, the empty one included."""
        return len(self.nodes.byte)

    @property
    def max_depth(self) -> int:
        """The length of the longest token in bytes."""
        return int(self.nodes.depth.max())

    @classmethod
    def from_tokens(cls, token_bytes: Sequence[bytes], token_ids: Sequence[int]) -> Trie:
        """The trie of the given tokens, none of them empty; ids in ascending order.

        >>> trie = Trie.from_tokens([b"ab", b"a", b"b"], [0, 1, 2])
        >>> trie.num_nodes, trie.token
        (4, array([1, 0, 2]))
        """
        order = sorted(range(len(token_bytes)), key=token_bytes.__getitem__)
        texts = [token_bytes[i] for i in order]
        flat = np.frombuffer(b"".join(texts), dtype=np.uint8)
        offset = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=offset[1:])
        nodes = Nodes(*build_trie(flat, offset))
        token = np.array([token_ids[i] for i in order], dtype=np.int64)
        for array in (*nodes, token):
            array.flags.writeable = False
        return cls(nodes, token)

    def __repr__(self) -> str:
        return f"Trie({self.num_nodes} nodes, {len(self.token)} tokens)"
