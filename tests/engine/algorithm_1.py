"""Algorithm 1 of the paper as it is printed: dense edges, messages in R^{H x E}.

One thing is added: the total mass needs the emission of the first step, which is not printed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pcgcd import HMM, FiniteAutomaton

__all__ = ["Algorithm1"]


class Algorithm1:
    """Next-token probabilities of the product of an HMM and a finite automaton."""

    def __init__(self, hmm: HMM, fa: FiniteAutomaton, dtype: torch.dtype = torch.float64) -> None:
        edges = fa.edge_hmm.to(dtype=dtype)
        self.B_f = edges.emission.to_dense(dtype)  # (E, V)
        self.A_f = edges.transition.to_dense(dtype)  # (E, E)
        self.pi_f = edges.initial.to_dense(dtype)[0]  # (E,)
        self.f = edges.final.to_dense(dtype).diagonal()  # (E,)
        self.B_h = hmm.emission.to(dtype)  # (H, V)
        self.A_h = hmm.transition.to(dtype)  # (H, H)
        self.pi_h = hmm.initial.to(dtype)  # (H,)

    def backward(self, length: int) -> list[Tensor]:
        """Step 1: beta_1..beta_n, each (H, E), and the mass gamma."""
        beta = torch.outer(torch.ones_like(self.pi_h), self.f)
        total = self.B_h @ self.B_f.T  # (H, E): the emission summed over the vocabulary
        betas = [beta]
        for _ in range(length - 1):
            beta = (self.A_f @ (self.A_h @ (total * beta)).T).T
            betas.append(beta)
        betas.reverse()
        self.gamma = self.pi_f @ (self.pi_h @ (total * betas[0]))
        return betas

    def first(self) -> Tensor:
        """Step 2 for t = 1: alpha_1, (H, E)."""
        return torch.outer(self.pi_h, self.pi_f) / self.gamma

    def forward(self, alpha: Tensor, token: int) -> Tensor:
        """Step 2 for t > 1: emit the token, then transition."""
        emission = torch.outer(self.B_h[:, token], self.B_f[:, token])
        return (self.A_f.T @ (self.A_h.T @ (alpha * emission)).T).T

    def scores(self, alpha: Tensor, beta: Tensor) -> Tensor:
        """What is returned: p(x_t = v, x_{<t}) for every token v, (V,)."""
        return ((self.B_h.T @ (alpha * beta)) * self.B_f.T).sum(1)

    def next_tokens(self, prefix: Sequence[int], length: int) -> Tensor:
        """All steps, from nothing."""
        betas = self.backward(length)
        alpha = self.first()
        for token in prefix:
            alpha = self.forward(alpha, token)
        return self.scores(alpha, betas[len(prefix)])
