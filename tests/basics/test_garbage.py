"""Garbage is not looked for while much is loaded, and is again afterwards."""

from __future__ import annotations

import gc

import pytest

from pcgcd.basics.garbage import collected_later


def test_garbage_is_looked_for_again_after_the_block() -> None:
    assert gc.isenabled()
    with collected_later(), collected_later():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), collected_later():
        raise KeyError
    assert gc.isenabled()


def test_who_collects_by_hand_goes_on_to() -> None:
    gc.disable()
    try:
        with collected_later():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
