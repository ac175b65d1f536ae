"""Tiny bert models with random weights, in GGUF; use the `tiny_encoder` fixture.

Their layout is that of bge-m3 (a unigram tokenizer, both-way attention, learned positions), or of the older
BERT models with WordPiece.
"""

import string
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

_SPECIAL = {"t5": ("<s>", "<pad>", "</s>", "<unk>"), "bert": ("[CLS]", "[PAD]", "[SEP]", "[UNK]")}
_WORDS = ("the", "read", "er", "def", "return", "a", "in")
_BLANK = "\u2581"


@dataclass(frozen=True)
class TinyEncoder:
    """Options of a tiny encoder; two equal ones give equal files.

    tokenizer: "t5", as bge-m3 has it, or "bert".
    pooling: of gguf.PoolingType; None leaves it out.
    """

    tokenizer: str = "t5"
    pooling: int | None = 2
    layers: int = 2
    embd: int = 64
    ff: int = 128
    heads: int = 2
    context: int = 2048
    seed: int = 1


def write(model: TinyEncoder, path: Path) -> None:
    """Write the model to path."""
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name("tiny random bert")
    writer.add_block_count(model.layers)
    writer.add_context_length(model.context)
    writer.add_embedding_length(model.embd)
    writer.add_feed_forward_length(model.ff)
    writer.add_head_count(model.heads)
    writer.add_layer_norm_eps(1e-5)
    writer.add_causal_attention(False)
    if model.pooling is not None:
        writer.add_pooling_type(gguf.PoolingType(model.pooling))
    tokens = _add_tokenizer(writer, model.tokenizer)
    _add_weights(writer, model, tokens)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, kind: str) -> int:
    special = _SPECIAL[kind]
    pieces = [*special, _BLANK]
    pieces += [blank + word for word in (*string.ascii_lowercase, *_WORDS) for blank in ("", _BLANK)]
    pieces += [*string.digits, *"()[]:=+,._"]
    pieces = list(dict.fromkeys(pieces))
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_scores(
        [0.0] * len(special) + [float(len(piece)) - 8 for piece in pieces[len(special) :]]
    )
    kinds = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.UNKNOWN]
    writer.add_token_types(kinds + [gguf.TokenType.NORMAL] * (len(pieces) - len(kinds)))
    writer.add_token_type_count(1)
    writer.add_bos_token_id(0)
    writer.add_pad_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_sep_token_id(2)
    writer.add_unk_token_id(3)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_space_prefix(True)
    return len(pieces)


def _add_weights(writer: gguf.GGUFWriter, model: TinyEncoder, tokens: int) -> None:
    rng = np.random.default_rng(model.seed)

    def matrix(name: str, rows: int, columns: int, gain: float = 1.0) -> None:
        values = rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)
        writer.add_tensor(name, values.astype(np.float32))

    def vector(name: str, n: int, middle: float) -> None:
        writer.add_tensor(name, (middle + 0.1 * rng.standard_normal(n)).astype(np.float32))

    def norm(name: str) -> None:
        vector(name + ".weight", e, 1.0)
        vector(name + ".bias", e, 0.0)

    e = model.embd
    matrix("token_embd.weight", tokens, e, gain=np.sqrt(e))
    matrix("token_types.weight", 1, e)
    matrix("position_embd.weight", model.context, e, gain=np.sqrt(e))
    norm("token_embd_norm")
    for layer in range(model.layers):
        prefix = f"blk.{layer}."
        for name, rows, columns in (
            ("attn_q", e, e),
            ("attn_k", e, e),
            ("attn_v", e, e),
            ("attn_output", e, e),
            ("ffn_up", model.ff, e),
            ("ffn_down", e, model.ff),
        ):
            matrix(f"{prefix}{name}.weight", rows, columns, gain=2.0)
            vector(f"{prefix}{name}.bias", rows, 0.0)
        norm(prefix + "attn_output_norm")
        norm(prefix + "layer_output_norm")
