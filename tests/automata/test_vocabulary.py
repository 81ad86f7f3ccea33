"""Token bytes, against the tokenizers' own encoding and decoding."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

TEXTS = [
    "Hello, world!",
    "  two  spaces\n\n\tand a tab\r\n",
    "naïve café, “quotes”, ½ € …",
    "日本語、中文, 한국어, العربية, हिन्दी, ไทย",
    "emoji 😀👩‍👩‍👧🏳️‍🌈",
    'def f(x):\n    return {"a": [1, 2.5e-3]}  # comment',
    "𝔘𝔫𝔦 𐍈 ﬁ",
    "\x01\x7f",
    "a",
]


# -- trained on the fly ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def byte_level():
    """A byte-level BPE tokenizer, with a special token and one that is added text."""
    library = pytest.importorskip("tokenizers")
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        special_tokens=["<|end|>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(TEXTS * 5, trainer)
    tokenizer.add_tokens(["<tool_call>", "  \t"])
    return tokenizer


@pytest.fixture(scope="module")
def byte_fallback():
    """A tokenizer like SentencePiece's with byte fallback."""
    library = pytest.importorskip("tokenizers")
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["\u2581", "a", "b", "\u2581a", "ab", "é", "\u2581\u2581", "\u2581ab"]
    merges = [("\u2581", "a"), ("a", "b"), ("\u2581", "\u2581"), ("\u2581", "ab")]
    tokenizer = library.Tokenizer(
        library.models.BPE(
            vocab={word: i for i, word in enumerate(words)},
            merges=merges,
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = library.normalizers.Replace(" ", "\u2581")
    decoders = library.decoders
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


@pytest.mark.parametrize(("name", "eos"), [("byte_level", 0), ("byte_fallback", 2)])
def test_decoding_undoes_the_tokenizer_s_encoding(name, eos, request):
    tokenizer = request.getfixturevalue(name)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, eos_ids=eos)
    assert vocabulary.spells_every_byte
    for text in TEXTS:
        assert vocabulary.decode(tokenizer.encode(text).ids) == text.encode()


@pytest.mark.parametrize("name", ["byte_level", "byte_fallback"])
def test_each_token_decodes_as_the_tokenizer_says(name, request):
    tokenizer = request.getfixturevalue(name)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, eos_ids=2)
    compared = 0
    for i, text in enumerate(vocabulary.token_bytes):
        if text is not None and text.decode(errors="ignore").encode() == text:
            assert tokenizer.decode([i], skip_special_tokens=False) == text.decode()
            compared += 1
    assert compared > 130


def test_special_tokens_are_no_text_and_added_ones_are(byte_level):
    vocabulary = Vocabulary.from_tokenizer(byte_level, eos_ids=0)
    assert vocabulary.size == byte_level.get_vocab_size()
    assert vocabulary.token_bytes[byte_level.token_to_id("<|end|>")] is None
    assert vocabulary.token_bytes[byte_level.token_to_id("<tool_call>")] == b"<tool_call>"
    assert vocabulary.token_bytes[byte_level.token_to_id("  \t")] == b"  \t"


def test_the_unknown_token_is_no_text(byte_fallback):
    vocabulary = Vocabulary.from_tokenizer(byte_fallback, eos_ids=2)
    assert vocabulary.token_bytes[:4] == (None, None, None, b"\x00")
    assert vocabulary.ids_of[b"a"] == (3 + ord("a"), 260)


def test_metaspace_is_a_space():
    library = pytest.importorskip("tokenizers")
    tokenizer = library.Tokenizer(
        library.models.Unigram([("<unk>", 0.0), ("\u2581the", -1.0), ("\u2581", -2.0)], unk_id=0)
    )
    tokenizer.pre_tokenizer = library.pre_tokenizers.Metaspace()
    tokenizer.decoder = library.decoders.Metaspace()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, eos_ids=0)
    assert vocabulary.token_bytes == (None, b" the", b" ")


def test_tokenizers_whose_tokens_depend_on_their_place_are_refused():
    library = pytest.importorskip("tokenizers")
    vocab = {"[UNK]": 0, "a": 1, "##b": 2}
    tokenizer = library.Tokenizer(library.models.WordPiece(vocab, unk_token="[UNK]"))
    with pytest.raises(InvalidParameterError, match="no decoder"):
        Vocabulary.from_tokenizer(tokenizer, eos_ids=0)
    tokenizer.decoder = library.decoders.WordPiece()
    with pytest.raises(InvalidParameterError, match="WordPiece"):
        Vocabulary.from_tokenizer(tokenizer, eos_ids=0)


def test_transformers_tokenizers_bring_their_own_eos(byte_level):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_level, eos_token="<|end|>", pad_token="<pad>"
    )
    vocabulary = Vocabulary.from_tokenizer(tokenizer, logits_size=512)
    assert vocabulary.eos_ids == (0,)
    assert vocabulary.logits_size == 512
    assert vocabulary.token_bytes[tokenizer.pad_token_id] is None
    for text in TEXTS:
        assert vocabulary.decode(tokenizer.encode(text)) == text.encode()
    config = transformers.GenerationConfig(eos_token_id=[0, 7])
    assert Vocabulary.from_tokenizer(tokenizer, generation_config=config).eos_ids == (0, 7)


def test_gpt2_round_trips():
    library = pytest.importorskip("tokenizers")
    folder = Path(os.environ.get("PCGCD_DATA", "../shared/data")) / "tokenizers" / "gpt2"
    if not (folder / "encoder.json").exists():
        pytest.skip(f"no GPT-2 tokenizer in {folder}; set PCGCD_DATA")
    vocab = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    lines = (folder / "vocab.bpe").read_text(encoding="utf-8").split("\n")[1:]
    merges = [tuple(line.split()) for line in lines if line]
    tokenizer = library.Tokenizer(library.models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    vocabulary = Vocabulary.from_tokenizer(tokenizer, eos_ids=50256)
    assert (vocabulary.size, len(vocabulary.trie.token)) == (50257, 50256)
    assert vocabulary.spells_every_byte
    for text in TEXTS:
        assert vocabulary.decode(tokenizer.encode(text).ids) == text.encode()
        assert vocabulary.decode(vocabulary.greedy(text)) == text.encode()


# -- without any library -----------------------------------------------------------------------


class Ranks:
    """What tiktoken's Encoding looks like."""

    n_vocab = 5
    eot_token = 4
    _special_tokens = {"<|endoftext|>": 4}  # noqa: RUF012

    def decode_single_token_bytes(self, token):
        return {0: b"a", 1: b"\xc3", 2: b"ab"}[token]


class Pieces:
    """What a SentencePieceProcessor looks like."""

    pieces = ("<unk>", "<s>", "</s>", "<0x0A>", "\u2581the", "<0x41>", "unused", "\u2581")

    def get_piece_size(self):
        return len(self.pieces)

    def id_to_piece(self, i):
        return self.pieces[i]

    def is_byte(self, i):
        return i == 3

    def is_control(self, i):
        return i in (1, 2)

    def is_unknown(self, i):
        return i == 0

    def is_unused(self, i):
        return i == 6

    def eos_id(self):
        return 2


def test_ranks_are_bytes_already():
    vocabulary = Vocabulary.from_tokenizer(Ranks())
    assert vocabulary.token_bytes == (b"a", b"\xc3", b"ab", None, None)
    assert vocabulary.eos_ids == (4,)


def test_pieces_are_read_by_their_kind():
    vocabulary = Vocabulary.from_tokenizer(Pieces())
    expected = (None, None, None, b"\n", b" the", b"<0x41>", None, b" ")
    assert vocabulary.token_bytes == expected
    assert vocabulary.eos_ids == (2,)


def test_other_objects_are_refused():
    with pytest.raises(InvalidParameterError, match="cannot read the tokens of SimpleNamespace"):
        Vocabulary.from_tokenizer(SimpleNamespace(eos_token_id=1))


def test_a_vocabulary_needs_an_end():
    ranks = Ranks()
    ranks.eot_token = None
    with pytest.raises(InvalidParameterError, match="give eos_ids"):
        Vocabulary.from_tokenizer(ranks)
    assert Vocabulary.from_tokenizer(ranks, eos_ids=[4, 3]).eos_ids == (3, 4)


@pytest.mark.parametrize(
    ("tokens", "eos", "size", "error", "match"),
    [
        ([], 0, None, InvalidParameterError, "at least one token"),
        (["a"], 0, None, InvalidParameterError, "must be bytes"),
        ([b"a"], [], None, InvalidParameterError, "end-of-sequence"),
        ([b"a"], 1, None, VocabularyMismatchError, r"lie in 0\.\.0"),
        ([b"a"], -1, None, VocabularyMismatchError, r"lie in 0\.\.0"),
        ([b"a"], ["x"], None, InvalidParameterError, "whole numbers"),
        ([b"a", None], 1, 1, VocabularyMismatchError, "logits"),
    ],
)
def test_wrong_input_is_refused_with_a_reason(tokens, eos, size, error, match):
    with pytest.raises(error, match=match):
        Vocabulary.from_bytes(tokens, eos, logits_size=size)


SMALL = Vocabulary.from_bytes([b"a", b"b", b"ab", b"aba", b"a", None, b"", b"c"], [5, 7])


@given(st.text("ab", max_size=7))
def test_tokenizations_are_all_sequences_that_spell_the_text(text):
    found = list(SMALL.tokenizations(text))
    assert len(set(found)) == len(found)
    assert all(SMALL.decode(ids) == text.encode() for ids in found)
    assert SMALL.greedy(text) in found
    # Their number by the recursion over the last token.
    counts = [1]
    for end in range(1, len(text) + 1):
        counts.append(
            sum(
                counts[end - len(token)] * multiple
                for token, multiple in (("a", 2), ("b", 1), ("ab", 1), ("aba", 1))
                if text[:end].endswith(token)
            )
        )
    assert len(found) == counts[-1]


def test_what_cannot_be_spelled_is_said():
    assert list(SMALL.tokenizations("abc")) == []
    with pytest.raises(VocabularyMismatchError, match=r"byte 2"):
        SMALL.greedy("abc")
    assert not SMALL.spells_every_byte


def test_decoding_skips_what_is_no_text_and_refuses_other_ids():
    wide = Vocabulary.from_bytes(SMALL.token_bytes, SMALL.eos_ids, logits_size=10)
    assert wide.decode([2, 5, 7, 6, 9, 1]) == b"abb"
    for token in (10, -1):
        with pytest.raises(VocabularyMismatchError, match=r"0\.\.9"):
            wide.decode([token])


token_lists = st.lists(st.one_of(st.none(), st.binary(max_size=3)), min_size=1, max_size=5)


@settings(max_examples=60)
@given(token_lists, token_lists)
def test_fingerprints_tell_vocabularies_apart(left, right):
    first, second = Vocabulary.from_bytes(left, 0), Vocabulary.from_bytes(right, 0)
    assert (first.fingerprint == second.fingerprint) == (left == right)
    assert (first == second) == (left == right)
    assert first != Vocabulary.from_bytes(left, 0, logits_size=len(left) + 1)
    assert hash(first) == hash(Vocabulary.from_bytes(list(left), [0]))


def test_fingerprints_do_not_change_between_versions():
    assert SMALL.fingerprint.startswith("6de4631cbeef5afe")
    copy = pickle.loads(pickle.dumps(SMALL))
    assert copy.fingerprint == SMALL.fingerprint


@given(st.lists(st.binary(min_size=1, max_size=4), min_size=1, max_size=12))
def test_the_trie_holds_each_prefix_once_and_ranks_tokens_by_their_bytes(tokens):
    vocabulary = Vocabulary.from_bytes([*tokens, None], len(tokens))
    trie = vocabulary.trie
    prefixes = {token[:i] for token in tokens for i in range(len(token) + 1)}
    path, found = [b""] * 6, [b""]
    for node in range(1, trie.num_nodes):
        depth = int(trie.nodes.depth[node])
        path[depth] = path[depth - 1] + bytes([trie.nodes.byte[node]])
        found.append(path[depth])
    assert found == sorted(prefixes)
    assert [tokens[i] for i in trie.token] == sorted(tokens)
    for node, prefix in enumerate(found):
        low, high = trie.nodes.first_rank[node], trie.nodes.first_rank[trie.nodes.end[node]]
        inside = [i for i, token in enumerate(tokens) if token.startswith(prefix)]
        assert sorted(trie.token[low:high].tolist()) == inside
        own = trie.token[low : trie.nodes.first_rank[node + 1]].tolist()
        assert own == [i for i, token in enumerate(tokens) if token == prefix]
        below = {byte for i in inside for byte in tokens[i][len(prefix) :]}
        bits = {b for b in range(256) if int(trie.nodes.below[node, b >> 6]) >> (b & 63) & 1}
        assert bits == below
