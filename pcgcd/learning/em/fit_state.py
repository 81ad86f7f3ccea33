"""A fit under way, on disk: what is needed to go on as if nothing had happened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from pcgcd.basics.files import remove_leftovers
from pcgcd.errors import CheckpointError
from pcgcd.hmm.files.tensor_files import read_tensors, write_tensors
from pcgcd.learning.em.parameters import Parameters
from pcgcd.learning.results import Epoch
from pcgcd.learning.resuming import check_same

_FORMAT = "pcgcd fit 1"


@dataclass
class FitState:
    """Where a fit is; together with the parameters, all that it depends on.

    The order of batches and what is dropped are functions of the seed and these numbers.
    """

    epoch: int = 0  # epochs that are done
    batch: int = 0  # batches of the next epoch that are done
    log_likelihood: float = 0.0  # of these batches
    tokens: int = 0  # of these batches
    seconds: float = 0.0  # that these batches took
    history: list[Epoch] = field(default_factory=list)  # the epochs that are done
    best_epoch: int = 0  # the one with the highest held-out likelihood so far, 0 for the start
    best: float | None = None  # that likelihood
    start_held_out: float | None = None  # held-out likelihood before the first step
    finished: bool = False  # whether there is nothing left to do


class FitFolder:
    """The files of one fit: ``state.safetensors`` and ``best.safetensors``."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self.settings = folder, settings
        self._state, self._best = folder / "state.safetensors", folder / "best.safetensors"

    def clean(self) -> None:
        """Remove what interrupted writes left behind."""
        remove_leftovers(self._state)
        remove_leftovers(self._best)

    def save(self, state: FitState, parameters: Parameters) -> None:
        """Write parameters and state in one file."""
        written = {"format": _FORMAT, "settings": self.settings, "state": asdict(state)}
        write_tensors(self._state, parameters.tensors(), {"fit": json.dumps(written)})

    def load(self, parameters: Parameters) -> FitState | None:
        """Read parameters and state; None if there is nothing yet."""
        if not self._state.exists():
            return None
        tensors, metadata = read_tensors(self._state)
        try:
            written = json.loads(metadata["fit"])
            if written["format"] != _FORMAT:
                raise KeyError(written["format"])
            settings, values = written["settings"], written["state"]
            history = [Epoch(**entry) for entry in values.pop("history")]
            state = FitState(**values, history=history)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{self._state.name} is not the state of a fit ({error!r}); give another "
                "checkpoint_dir"
            ) from error
        here = {**dict.fromkeys(settings), **self.settings}
        check_same(settings, here, "the checkpoint_dir", "a fit with other settings")
        _assign(parameters, tensors, self._state)
        return state

    def save_best(self, parameters: Parameters) -> None:
        """Write the parameters of the best epoch so far."""
        write_tensors(self._best, parameters.tensors())

    def load_best(self, parameters: Parameters) -> None:
        """Read the parameters of the best epoch."""
        _assign(parameters, read_tensors(self._best)[0], self._best)


def _assign(parameters: Parameters, tensors: dict[str, Tensor], path: Path) -> None:
    expected = {name: (own.shape, own.dtype) for name, own in parameters.tensors().items()}
    if {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()} != expected:
        raise CheckpointError(
            f"{path.name} holds other tensors than this model has; give another checkpoint_dir"
        )
    parameters.assign(tensors)
