"""EM with the kernels of pyjuice, on a CUDA device."""

from __future__ import annotations

import torch
from torch import Tensor

from pcgcd.circuits.pyjuice.library import compile_pyjuice, load_pyjuice, nodes_of
from pcgcd.circuits.pyjuice.writing import PyjuiceExport
from pcgcd.errors import ImpossibleEvidenceError, InvalidParameterError
from pcgcd.learning.em.parameters import Parameters


class PyjuiceEM:
    """A dense HMM of one length in pyjuice, and its steps of EM.

    A step is that of :meth:`Parameters.update` but for one thing: pseudocounts are spread over all
    entries of a distribution, and zeros drop their share.
    """

    def __init__(self, parameters: Parameters, length: int, pseudocount: float) -> None:
        factors = parameters.steps.factors
        if len(factors) > 1:
            raise InvalidParameterError(
                "pyjuice fits dense transitions only, but this one is a Monarch; take engine='own'"
            )
        if length < 2 or not pseudocount > 0:
            raise InvalidParameterError(
                "pyjuice needs sequences of at least 2 tokens and a pseudocount above 0 (a hidden "
                f"state without counts is a division by zero there), but they are {length} and "
                f"{pseudocount:g}; take engine='own'"
            )
        device = cuda_device(parameters.initial.device)
        parameters.write_out()
        emission = parameters.stored.t()
        root = load_pyjuice().structures.HMM(
            length,
            emission.shape[0],
            emission.shape[1],
            gamma=parameters.initial.float().cpu(),
            alpha=factors[0].float().cpu(),
            beta=emission.float().cpu().contiguous(),
        )
        own = [node for node in nodes_of(root) if not node.is_tied()]
        self._emission = next(node for node in own if node.is_input())
        self._transition, self._initial = (node for node in own if node.is_sum())
        self._pseudocount = pseudocount
        self._circuit = compile_pyjuice(PyjuiceExport(root, 0.0), device)

    def step(self, batch: Tensor, step_size: float) -> float:
        """One step of EM on tokens (batch, n); returns their log-likelihood before it."""
        circuit, count = self._circuit, len(batch)
        if bool((batch < 0).any()):
            raise InvalidParameterError(
                "pyjuice also counts what was not observed, which is another EM than ours; take "
                "engine='own' for dropout and for unobserved positions"
            )
        # Its counts are wrong where a batch does not fill whole tiles: fill it up with weight zero.
        rows = 1 << max(4, (count - 1).bit_length())
        tokens = torch.cat([batch, batch[:1].expand(rows - count, -1)])
        weights = (torch.arange(rows, device=batch.device) < count).float()
        circuit.init_param_flows(flows_memory=0.0)
        likelihood = circuit(tokens, force_use_fp32=True)[:count].double()
        if not bool(torch.isfinite(likelihood).all()):
            raise ImpossibleEvidenceError("a sequence of the batch has probability zero")
        circuit.backward(
            tokens, ll_weights=weights, flows_memory=1.0, logspace_flows=False, force_use_fp32=True
        )
        if step_size:
            circuit.mini_batch_em(
                step_size=step_size, pseudocount=self._pseudocount, keep_zero_params=True
            )
        return float(likelihood.sum())

    def write_to(self, parameters: Parameters) -> None:
        """Hand over the parameters of the circuit."""
        self._circuit.update_parameters()
        initial = self._initial.get_params(as_matrix=True)[0]
        emission = self._emission.get_params().reshape(parameters.stored.shape[::-1])
        parameters.assign(
            {
                "initial": initial,
                "factor.0": self._transition.get_params(as_matrix=True),
                "stored": emission.t(),
                "scale": torch.ones_like(initial),
                "offset": torch.zeros_like(initial),
            }
        )


def cuda_device(own: torch.device) -> torch.device:
    """Return the device itself if it is one of CUDA, and else the current one of CUDA."""
    if not torch.cuda.is_available():
        raise InvalidParameterError(
            "pyjuice's EM needs a CUDA device, but there is none here; take engine='own'"
        )
    return own if own.type == "cuda" else torch.device("cuda")
