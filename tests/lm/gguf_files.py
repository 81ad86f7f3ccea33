"""Small models written as GGUF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GGUF_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers": "blk",
}


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """The order of rows that GGUF keeps: the two halves of a rotary head alternate."""
    rows = np.arange(len(weight)).reshape(heads, 2, -1)
    return weight[rows.transpose(0, 2, 1).reshape(-1)]


def write_gguf(path: Path, model: Any, tokenizer: Any, **changes: Any) -> None:
    """A Llama model with its tokenizer as GGUF, in float32."""
    gguf = pytest.importorskip("gguf")
    config = model.config
    writer = gguf.GGUFWriter(path, changes.get("architecture", "llama"))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(_rope_theta(config))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    definition = json.loads(tokenizer.backend_tokenizer.to_str())
    words = sorted(definition["model"]["vocab"], key=definition["model"]["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(changes.get("pre", "gpt-2"))
    writer.add_token_list(words)
    writer.add_token_types([3 if word in ("<s>", "</s>") else 1 for word in words])
    writer.add_token_merges([" ".join(merge) for merge in definition["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if tokenizer.chat_template is not None:
        writer.add_chat_template(tokenizer.chat_template)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.numpy()
        if "q_proj" in name:
            values = interleaved(values, config.num_attention_heads)
        if "k_proj" in name:
            values = interleaved(values, config.num_key_value_heads)
        for ours, theirs in GGUF_NAMES.items():
            name = name.replace(ours, theirs)
        kind = None
        if changes.get("quantised") and values.ndim == 2 and values.shape[1] % 32 == 0:
            kind = gguf.GGMLQuantizationType.Q8_0
            values = gguf.quants.quantize(values, kind)
        writer.add_tensor(changes.get("tensor", name), np.ascontiguousarray(values), raw_dtype=kind)
        if "tensor" in changes:
            break
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _rope_theta(config: Any) -> float:
    """The base of the positions, which transformers 4 keeps elsewhere."""
    stored = getattr(config, "rope_parameters", None) or vars(config)
    return float(stored["rope_theta"])
