"""Heat maps show the given numbers, and zeros as impossible."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pcgcd import HMM
from pcgcd.errors import InvalidParameterError
from pcgcd.viz import figure_messages


def test_columns_are_steps_and_rows_are_units() -> None:
    values = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]])
    figure = figure_messages(values, unit_names=["a", "b", "c"], title="t", unit_label="u")
    axes = figure.axes[0]
    shown = axes.images[0].get_array()
    np.testing.assert_allclose(shown.filled(0.0), values.numpy().T)
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), values.numpy().T == 0)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "c"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2"]
    assert axes.get_title() == "t"


@pytest.mark.parametrize("length", [1, 4])
def test_unit_posteriors_can_be_passed_as_they_are(length: int) -> None:
    hmm = HMM.random(3, 5, generator=torch.Generator().manual_seed(0))
    posteriors = hmm.unit_posteriors(torch.full((1, length), -1))
    shown = figure_messages(posteriors).axes[0].images[0].get_array()
    np.testing.assert_allclose(shown.sum(0), np.ones(length), rtol=1e-5)
    assert shown.shape == (3, length)


def test_batches_are_refused_with_the_shape() -> None:
    with pytest.raises(InvalidParameterError, match=r"\(2, 3, 4\)"):
        figure_messages(torch.rand(2, 3, 4))


def test_names_must_be_as_many_as_units_and_steps() -> None:
    with pytest.raises(InvalidParameterError, match="4 units, but got 1"):
        figure_messages(torch.rand(3, 4), unit_names=["a"])
    with pytest.raises(InvalidParameterError, match="3 steps, but got 2"):
        figure_messages(torch.rand(3, 4), step_names=["a", "b"])


def test_maps_of_many_cells_stay_small_and_their_numbers_apart() -> None:
    figure = figure_messages(torch.rand(300, 400))
    assert max(figure.get_size_inches()) < 11
    axes = figure.axes[0]
    assert len(axes.get_xticks()) < 60
    assert len(axes.get_yticks()) < 60
    assert axes.get_xticklabels()[1].get_text() == str(int(axes.get_xticks()[1]) + 1)
