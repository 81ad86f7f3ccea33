"""Small language models and vocabularies for the tests."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor

from pcgcd.automata import Vocabulary
from pcgcd.lm import LanguageModel, LMSession

VOCABULARY = Vocabulary.from_bytes(
    [b"a", b"b", b"ab", b"c", b"ba", None, None], eos_ids=[5, 6], logits_size=9
)


def tiny_tokenizer(chat: bool = False) -> Any:
    """A byte-level tokenizer with a few merges and two special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "he", "ll", "hell"]
    merges = [("h", "e"), ("l", "l"), ("he", "ll")]
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    if chat:
        fast.chat_template = (
            "{% for m in messages %}<s>{{ m['role'] }}:{{ m['content'] }}</s>{% endfor %}"
            "{% if add_generation_prompt %}<s>assistant:{% endif %}"
        )
    return fast


def tiny_model(kind: str, vocab_size: int = 9, max_length: int = 64) -> Any:
    """A random model whose next-token distributions are far from uniform."""
    import transformers

    torch.manual_seed(0)
    shape = {
        "vocab_size": vocab_size,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": max_length,
        "initializer_range": 0.3,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
    }
    if kind == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))
    shape |= {"intermediate_size": 48, "num_key_value_heads": 2}
    if kind == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape))
    if kind == "sliding window":
        return transformers.MistralForCausalLM(
            transformers.MistralConfig(**shape, sliding_window=4)
        )
    if kind == "recurrent":
        return transformers.Lfm2ForCausalLM(
            transformers.Lfm2Config(**shape, layer_types=["conv", "full_attention"])
        )
    raise ValueError(kind)


def assert_session_follows_prefixes(
    lm: LanguageModel,
    prompts: list[tuple[int, ...]],
    seed: int,
    steps: int = 25,
    tolerance: float = 1e-5,
) -> None:
    """A random run of a session gives what the model says about the whole prefixes."""
    choose = random.Random(seed)
    session: LMSession = lm.start(prompts)
    prefixes = [tuple(prompt) for prompt in prompts]
    for _ in range(steps):
        action = choose.random()
        if action < 0.5:
            tokens = [choose.randrange(min(3, lm.vocabulary.logits_size)) for _ in prefixes]
            session.advance(torch.tensor(tokens) if choose.random() < 0.5 else tokens)
            prefixes = [(*prefix, token) for prefix, token in zip(prefixes, tokens)]
        elif action < 0.7:
            rows = [choose.randrange(len(prefixes)) for _ in range(choose.randint(1, 6))]
            session.reindex(rows)
            prefixes = [prefixes[row] for row in rows]
        assert session.num_rows == len(prefixes)
        if action > 0.3:
            check(session.log_probs(), lm.log_probs(prefixes), tolerance)
    check(session.log_probs(), lm.log_probs(prefixes), tolerance)


def check(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Two sets of normalised rows are equal."""
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    total = found.exp().sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-5, atol=1e-5)
