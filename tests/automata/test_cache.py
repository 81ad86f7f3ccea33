"""The disk cache: what is read is what was built, whatever happens to the files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from pcgcd.automata.cache import AutomatonCache
from pcgcd.automata.lifting import lift
from pcgcd.automata.vocabulary import Vocabulary
from tests.automata.test_lifting import WIDE, automaton, byte_automata, counted_string, vocabularies


def same(left, right):
    arrays = ("source", "target", "label", "initial_mask", "accepting_mask")
    return (
        left.num_states == right.num_states
        and all(np.array_equal(getattr(left, name), getattr(right, name)) for name in arrays)
        and np.array_equal(left.labels.label_class, right.labels.label_class)
        and np.array_equal(left.labels.token_class, right.labels.token_class)
    )


@pytest.fixture
def no_building(monkeypatch):
    """From now on nothing can be lifted, only read."""

    def stop():
        def fail(*_):
            raise AssertionError("built again")

        monkeypatch.setattr("pcgcd.automata.lifting.from_bytes._lifted", fail)

    return stop


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(byte_automata(), vocabularies())
def test_what_is_read_equals_what_was_written(tmp_path, byte_automaton, vocabulary):
    built = lift(byte_automaton, vocabulary, cache=tmp_path)
    assert same(lift(byte_automaton, vocabulary, cache=tmp_path), built)
    assert same(lift(byte_automaton, vocabulary), built)


def test_the_second_time_is_read_from_disk(tmp_path, no_building):
    folder = tmp_path / "new" / "folder"
    built = lift(counted_string(5), WIDE, cache=str(folder))
    no_building()
    read = lift(counted_string(5), WIDE, cache=folder)
    assert same(read, built)
    assert not read.source.flags.writeable
    assert [path.suffix for path in folder.iterdir()] == [".npz"]


def test_other_automata_and_vocabularies_have_other_files():
    cache = AutomatonCache(Path("unused"))
    other_eos = Vocabulary.from_bytes(WIDE.token_bytes, 279, logits_size=300)
    wider = Vocabulary.from_bytes(WIDE.token_bytes, WIDE.eos_ids, logits_size=301)
    keys = {
        cache.key(fa, vocabulary)
        for fa in (counted_string(3), counted_string(4))
        for vocabulary in (WIDE, other_eos, wider)
    }
    assert len(keys) == 6
    assert cache.key(counted_string(3), WIDE) in keys


@pytest.mark.parametrize("damage", ["truncated", "empty", "text", "folder", "flipped", "foreign"])
def test_damaged_files_are_built_again(tmp_path, damage):
    built = lift(counted_string(5), WIDE, cache=tmp_path)
    path = AutomatonCache(tmp_path).path(counted_string(5), WIDE)
    data = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("not an archive")
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    elif damage == "flipped":
        middle = len(data) // 3
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
    else:
        np.savez(path, source=np.zeros(3))
    assert same(lift(counted_string(5), WIDE, cache=tmp_path), built)
    if damage != "folder":
        assert path.stat().st_size == len(data)


@pytest.mark.parametrize(
    ("name", "value"),
    [("source", 10_000), ("label", -1), ("token_class", 10_000), ("target", 1e9)],
)
def test_archives_that_are_no_automaton_are_built_again(tmp_path, name, value):
    built = lift(counted_string(5), WIDE, cache=tmp_path)
    path = AutomatonCache(tmp_path).path(counted_string(5), WIDE)
    with np.load(path) as file:
        arrays = dict(file)
    arrays[name] = np.full_like(arrays[name], value)
    np.savez(path, **arrays)
    assert same(lift(counted_string(5), WIDE, cache=tmp_path), built)


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert same(lift(counted_string(5), WIDE, cache=blocked), lift(counted_string(5), WIDE))
    assert blocked.read_text() == "in the way"


def test_concurrent_writers_leave_one_good_file(tmp_path):
    built = lift(counted_string(30), WIDE)
    with ThreadPoolExecutor(8) as pool:
        results = list(
            pool.map(lambda _: lift(counted_string(30), WIDE, cache=tmp_path), range(24))
        )
    assert all(same(result, built) for result in results)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]


def test_concurrent_liftings_share_a_vocabulary_safely():
    sizes = [3, 5, 9, 17, 33] * 4
    expected = {size: lift(counted_string(size), WIDE) for size in set(sizes)}
    fresh = Vocabulary(WIDE.token_bytes, WIDE.eos_ids, WIDE.logits_size)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda size: lift(counted_string(size), fresh), sizes))
    assert all(same(result, expected[size]) for result, size in zip(results, sizes))


def test_an_empty_language_is_kept_too(tmp_path, no_building):
    nothing = automaton([], num_states=1)
    built = lift(nothing, WIDE, cache=tmp_path)
    no_building()
    assert same(lift(nothing, WIDE, cache=tmp_path), built)
