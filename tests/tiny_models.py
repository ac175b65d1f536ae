"""Tiny GGUF models with random weights: the same bytes for the same options.

They have everything a real model has, a byte-level BPE tokenizer with fill-in-the-middle tokens included,
so llama.cpp and our engine both load them and can be compared. Use the `tiny_model` fixture.
"""

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import gguf
import numpy as np

from engine.reference import quants

# What llama.cpp's quantiser takes when a row is no multiple of 256 (the real 0.5B model is full of these).
_FALLBACK = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}

_CONTROL_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
]
_USER_TOKENS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
_FIM_KEYS = {
    "fim_pre": "<|fim_prefix|>",
    "fim_suf": "<|fim_suffix|>",
    "fim_mid": "<|fim_middle|>",
    "fim_pad": "<|fim_pad|>",
    "fim_rep": "<|repo_name|>",
    "fim_sep": "<|file_sep|>",
}
_MERGES = [
    "Ġ t",
    "h e",
    "i n",
    "Ġ a",
    "r e",
    "o n",
    "Ġt he",
    "e r",
    "d e",
    "de f",
    "Ġ Ġ",
    "ĠĠ ĠĠ",
    "re t",
    "ret u",
    "retu r",
    "retur n",
]
_VOCAB = 320

_CHAT_TEMPLATE = (
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


_TOOL_TEMPLATE = (
    "{%- if tools %}<|im_start|>system\n"
    "{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>'
    "{%- endfor %}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class TinyModel:
    """Options of a tiny model; two equal ones give equal files.

    arch: "llama", "qwen2", "qwen3" or "qwen35", whose delta nets have linear_*_heads of linear_head_dim.
    type: tensor type of the matrices, or "mixed": the eleven types in turn. Vectors are F32.
    heads: 0 makes heads * head_dim equal 256.
    bias: None is as the architecture has it (qwen2: q, k, v); True adds them to any.
    output_bias: also attn_output.bias (llama only).
    rope_scaling: "", "linear" or "yarn"; rope_factor and rope_original_context go with it.
    rope_freqs: a rope_freqs.weight tensor, as Llama 3.1 has (llama only).
    tools: the chat template shows tools and calls, as Hermes' does.
    fim_keys: write tokenizer.ggml.fim_*_token_id (real Qwen2.5-Coder files have none).
    pooling: write pooling_type; 0 leaves it out. add_eos: texts end with eos. causal: False writes that too.
    """

    arch: str
    type: str = "F32"
    layers: int = 2
    embd: int = 256
    ff: int = 512
    head_dim: int = 64
    heads: int = 0
    kv_heads: int = 2
    tied: bool = False
    bias: bool | None = None
    output_bias: bool = False
    context: int = 4096
    rope_base: float = 10000.0
    rope_scaling: str = ""
    rope_factor: float = 4.0
    rope_original_context: int = 64
    rope_attention_factor: float = 0.0
    rope_freqs: bool = False
    linear_key_heads: int = 2
    linear_value_heads: int = 4
    linear_head_dim: int = 64
    full_attention_interval: int = 4
    fim_keys: bool = False
    pooling: int = 0
    add_eos: bool = False
    tools: bool = False
    causal: bool = True
    seed: int = 1

    @property
    def n_heads(self) -> int:
        return self.heads or 256 // self.head_dim

    @property
    def rope_dims(self) -> int:
        return self.head_dim // 4 if self.arch == "qwen35" else self.head_dim


@dataclass
class Vocabulary:
    tokens: list[str] = field(default_factory=list)
    types: list[int] = field(default_factory=list)

    def add(self, token: str, kind: gguf.TokenType) -> None:
        self.tokens.append(token)
        self.types.append(kind)


def byte_characters() -> list[str]:
    """The printable character that byte-level BPE (GPT-2) writes for each byte."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = count(256)
    return [chr(b if b in printable else next(spare)) for b in range(256)]


def vocabulary() -> Vocabulary:
    vocab = Vocabulary()
    for character in byte_characters():
        vocab.add(character, gguf.TokenType.NORMAL)
    for merge in _MERGES:
        vocab.add(merge.replace(" ", ""), gguf.TokenType.NORMAL)
    for token in _CONTROL_TOKENS:
        vocab.add(token, gguf.TokenType.CONTROL)
    for token in _USER_TOKENS:
        vocab.add(token, gguf.TokenType.USER_DEFINED)
    while len(vocab.tokens) < _VOCAB:
        vocab.add(f"[PAD{len(vocab.tokens)}]", gguf.TokenType.UNUSED)
    return vocab


def write(model: TinyModel, path: Path) -> None:
    """Write the model to path."""
    writer = gguf.GGUFWriter(path, model.arch)
    _add_hyperparameters(writer, model)
    _add_tokenizer(writer, model)
    _Weights(writer, model).add_all()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_hyperparameters(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(f"tiny random {model.arch}")
    writer.add_block_count(model.layers)
    writer.add_context_length(model.context)
    writer.add_embedding_length(model.embd)
    writer.add_feed_forward_length(model.ff)
    writer.add_head_count(model.n_heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_key_length(model.head_dim)
    writer.add_value_length(model.head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(model.rope_base)
    writer.add_rope_dimension_count(model.rope_dims)
    writer.add_vocab_size(_VOCAB)
    if model.arch == "qwen35":
        _add_delta_net(writer, model)
    if model.rope_scaling:
        writer.add_rope_scaling_type(gguf.RopeScalingType(model.rope_scaling))
        writer.add_rope_scaling_factor(model.rope_factor)
        writer.add_rope_scaling_orig_ctx_len(model.rope_original_context)
    if model.rope_attention_factor:
        writer.add_rope_scaling_attn_factors(model.rope_attention_factor)
    if not model.causal:
        writer.add_causal_attention(False)
    if model.pooling:
        writer.add_pooling_type(gguf.PoolingType(model.pooling))


def _add_delta_net(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    pairs = model.rope_dims // 2
    third = (pairs + 2) // 3
    writer.add_rope_dimension_sections([third, third, pairs - 2 * third, 0])
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_state_size(model.linear_head_dim)
    writer.add_ssm_group_count(model.linear_key_heads)
    writer.add_ssm_time_step_rank(model.linear_value_heads)
    writer.add_ssm_inner_size(model.linear_head_dim * model.linear_value_heads)
    writer.add_uint32("qwen35.full_attention_interval", model.full_attention_interval)


def _add_tokenizer(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    vocab = vocabulary()
    token_id = {token: i for i, token in enumerate(vocab.tokens)}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre({"llama": "smollm", "qwen35": "qwen35"}.get(model.arch, "qwen2"))
    writer.add_token_list(vocab.tokens)
    writer.add_token_types(vocab.types)
    writer.add_token_merges(_MERGES)
    writer.add_bos_token_id(token_id["<|endoftext|>"])
    writer.add_eos_token_id(token_id["<|im_end|>"])
    writer.add_pad_token_id(token_id["<|endoftext|>"])
    writer.add_add_bos_token(False)
    if model.add_eos:
        writer.add_add_eos_token(True)
    writer.add_chat_template(_TOOL_TEMPLATE if model.tools else _CHAT_TEMPLATE)
    if model.fim_keys:
        for key, token in _FIM_KEYS.items():
            writer.add_uint32(f"tokenizer.ggml.{key}_token_id", token_id[token])


class _Weights:
    """Adds the tensors; gains keep attention peaked and greedy choices well apart."""

    def __init__(self, writer: gguf.GGUFWriter, model: TinyModel) -> None:
        self._writer = writer
        self._model = model
        self._rng = np.random.default_rng(model.seed)
        self._n_matrices = count()

    def add_all(self) -> None:
        m = self._model
        self._matrix("token_embd.weight", _VOCAB, m.embd, gain=0.5 * np.sqrt(m.embd))
        self._norm("output_norm.weight", m.embd)
        if not m.tied:
            self._matrix("output.weight", _VOCAB, m.embd, gain=4.0)
        if m.rope_freqs:
            self._vector("rope_freqs.weight", self._rng.uniform(1, 8, m.head_dim // 2))
        for i in range(m.layers):
            prefix = f"blk.{i}."
            self._norm(prefix + "attn_norm.weight", m.embd)
            if m.arch == "qwen35" and (i + 1) % m.full_attention_interval:
                self._add_delta_net(prefix)
            else:
                self._add_attention(prefix)
            self._add_feed_forward(prefix)

    def _add_attention(self, prefix: str) -> None:
        m = self._model
        q_width, kv_width = m.n_heads * m.head_dim, m.kv_heads * m.head_dim
        gates = 2 if m.arch == "qwen35" else 1  # each head's gates stand after its queries
        self._matrix(prefix + "attn_q.weight", gates * q_width, m.embd, gain=2.0)
        self._matrix(prefix + "attn_k.weight", kv_width, m.embd, gain=2.0)
        self._matrix(prefix + "attn_v.weight", kv_width, m.embd)
        self._matrix(prefix + "attn_output.weight", m.embd, q_width)
        if m.arch == "qwen2" if m.bias is None else m.bias:
            for name, width in (("q", q_width), ("k", kv_width), ("v", kv_width)):
                self._vector(f"{prefix}attn_{name}.bias", 0.5 * self._rng.standard_normal(width))
        if m.output_bias:
            self._vector(prefix + "attn_output.bias", 0.1 * self._rng.standard_normal(m.embd))
        if m.arch in ("qwen3", "qwen35"):
            self._norm(prefix + "attn_q_norm.weight", m.head_dim)
            self._norm(prefix + "attn_k_norm.weight", m.head_dim)

    def _add_delta_net(self, prefix: str) -> None:
        m = self._model
        key_width, value_width = (
            m.linear_head_dim * heads for heads in (m.linear_key_heads, m.linear_value_heads)
        )
        width = 2 * key_width + value_width
        self._matrix(prefix + "attn_qkv.weight", width, m.embd)
        self._matrix(prefix + "attn_gate.weight", value_width, m.embd)
        self._vector(prefix + "ssm_conv1d.weight", 0.5 * self._rng.standard_normal((width, 4)))
        self._vector(prefix + "ssm_dt.bias", self._rng.uniform(-4.0, 0.5, m.linear_value_heads))
        self._vector(prefix + "ssm_a", -np.exp(self._rng.uniform(-1.5, 1.0, m.linear_value_heads)))
        self._matrix(prefix + "ssm_beta.weight", m.linear_value_heads, m.embd, gain=2.0)
        self._matrix(prefix + "ssm_alpha.weight", m.linear_value_heads, m.embd, gain=2.0)
        self._norm(prefix + "ssm_norm.weight", m.linear_head_dim)
        self._matrix(prefix + "ssm_out.weight", m.embd, value_width)

    def _add_feed_forward(self, prefix: str) -> None:
        m = self._model
        self._norm(prefix + ("post_attention_norm" if m.arch == "qwen35" else "ffn_norm") + ".weight", m.embd)
        self._matrix(prefix + "ffn_gate.weight", m.ff, m.embd)
        self._matrix(prefix + "ffn_up.weight", m.ff, m.embd)
        self._matrix(prefix + "ffn_down.weight", m.embd, m.ff)

    def _matrix(self, name: str, rows: int, columns: int, *, gain: float = 1.0) -> None:
        values = self._rng.standard_normal((rows, columns)) * (gain / np.sqrt(columns))
        tensor_type = self._type_for(columns)
        self._writer.add_tensor(
            name,
            quants.quantize(values.astype(np.float32), tensor_type.name),
            raw_dtype=gguf.GGMLQuantizationType(tensor_type.number),
        )

    def _type_for(self, columns: int) -> quants.TensorType:
        names = list(quants.TYPES)
        i = next(self._n_matrices)
        name = names[i % len(names)] if self._model.type == "mixed" else self._model.type
        if columns % quants.TYPES[name].block_elems:
            name = _FALLBACK.get(name, "F16")
        return quants.TYPES[name if columns % quants.TYPES[name].block_elems == 0 else "F16"]

    def _norm(self, name: str, n: int) -> None:
        self._vector(name, 1.0 + 0.1 * self._rng.standard_normal(n))

    def _vector(self, name: str, values: np.ndarray) -> None:
        self._writer.add_tensor(name, values.astype(np.float32))
