"""What the tests of the tokenizer and of the prompts share; loaded by conftest.py."""

import ctypes
import json
import mmap
import os
import struct
from ctypes import c_bool, c_char_p, c_int32, c_void_p
from functools import cache
from pathlib import Path

import gguf
import platformdirs
import pytest
import tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from engine.tokenizer.alphabet import BYTE_OF_CHARACTER as BYTE_OF_CHARACTER

CORPUS = Path(__file__).parent / "corpus"
MODELS = {
    "qwen2.5-coder-0.5b": "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    "qwen2.5-coder-1.5b": "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    "smollm2-135m": "smollm2-135m-instruct-q4_1.gguf",
}

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
# As in Qwen's files: control tokens, two tags of the text, and padding.
QWEN_SPECIALS = {
    "<|endoftext|>": CONTROL,
    "<|im_start|>": CONTROL,
    "<|im_end|>": CONTROL,
    "<|fim_prefix|>": CONTROL,
    "<|fim_middle|>": CONTROL,
    "<|fim_suffix|>": CONTROL,
    "<|fim_pad|>": CONTROL,
    "<|repo_name|>": CONTROL,
    "<|file_sep|>": CONTROL,
    "<tool_call>": USER_DEFINED,
    "</tool_call>": USER_DEFINED,
    "[PAD1]": UNUSED,
}


class DictMetadata:
    """GgufMetadata over a plain dict."""

    def __init__(self, values):
        self.values = dict(values)

    def keys(self):
        return list(self.values)

    def get(self, key):
        return self.values.get(key)


@cache
def _toy_bpe():
    """(texts, merges): 256 bytes and 700 merges, trained on the corpus; the same every time."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    bpe = tokenizers.Tokenizer(BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(vocab_size=956, initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator([path.read_text() for path in sorted(CORPUS.iterdir())], trainer)
    texts = [text for text, _ in sorted(bpe.get_vocab().items(), key=lambda item: item[1])]
    model = tokenizers.Tokenizer.to_str(bpe)
    merges = [" ".join(pair) for pair in json.loads(model)["model"]["merges"]]
    return texts, merges


def toy_metadata(specials=QWEN_SPECIALS, pre="qwen2", **changes):
    """Metadata of a small model; changes: keys of tokenizer.ggml, None removes one."""
    texts, merges = _toy_bpe()
    values = {
        "model": "gpt2",
        "pre": pre,
        "tokens": [text.encode() for text in [*texts, *specials]],
        "token_type": [NORMAL] * len(texts) + list(specials.values()),
        "merges": [merge.encode() for merge in merges],
        "add_bos_token": False,
    }
    if "<|im_end|>" in specials:
        values["eos_token_id"] = len(texts) + list(specials).index("<|im_end|>")
    values |= changes
    return DictMetadata(
        {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}
    )


def toy_sentencepiece(specials=None, **changes):
    """Metadata of a small SentencePiece vocabulary; specials: spelling -> type, after <unk>, <s> and </s>.

    "q" and "é" occur in pieces without being pieces; runs of blanks all have one score, as in Llama's.
    """
    texts, merges = _toy_bpe()
    spell = {character: bytes([byte]) for character, byte in BYTE_OF_CHARACTER.items()}
    words = [
        b"".join(map(spell.get, "".join(merge.split(" ")))).decode("utf-8", "ignore") for merge in merges
    ]
    letters = [chr(byte) for byte in range(33, 127) if byte != ord("q")] + ["\u2581", "日"]
    pieces = dict.fromkeys(word.replace(" ", "\u2581") for word in words if word.strip() and "\n" not in word)
    pieces = [*pieces, "qu", "que", "né", "日日", *letters]
    runs = ["\u2581" * length for length in range(2, 17)]
    special = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL} | (specials or {})
    texts = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *runs, *dict.fromkeys(pieces)]
    count = len(texts) - len(special) - 256
    values = {
        "model": "llama",
        "tokens": [text.encode() for text in texts],
        "token_type": [*special.values(), *[BYTE] * 256, *[NORMAL] * count],
        "scores": [0.0] * (len(special) + 256)
        + [-1e9] * len(runs)
        + [-float(n) for n in range(count - len(runs))],
    } | changes
    return DictMetadata(
        {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}
    )


class FileMetadata(DictMetadata):
    """A GGUF file's metadata, read fast: the gguf package takes ten seconds for Qwen's vocabulary."""

    _FORMATS = ("B", "b", "H", "h", "I", "i", "f", "?", None, None, "Q", "q", "d")

    def __init__(self, path):
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 24
        magic, _, _, count = struct.unpack_from("<4sIQQ", self._data)
        assert magic == b"GGUF"
        super().__init__({})
        for _ in range(count):
            key = self._string().decode()
            self.values[key] = self._value(self._number("I"))

    def _number(self, letter):
        (value,) = struct.unpack_from("<" + letter, self._data, self._at)
        self._at += struct.calcsize(letter)
        return value

    def _string(self):
        length = self._number("Q")
        self._at += length
        return self._data[self._at - length : self._at]

    def _value(self, kind):
        if kind == 8:
            return self._string().decode(errors="replace")
        if kind != 9:
            return self._number(self._FORMATS[kind])
        kind, count = self._number("I"), self._number("Q")
        if kind == 8:
            return [self._string() for _ in range(count)]
        layout = f"<{count}{self._FORMATS[kind]}"
        values = list(struct.unpack_from(layout, self._data, self._at))
        self._at += struct.calcsize(layout)
        return values


def write_vocabulary(path, metadata):
    """A GGUF file with a tokenizer and no weights."""
    writer = gguf.GGUFWriter(path, "llama")
    values = {key.removeprefix("tokenizer.ggml."): value for key, value in metadata.values.items()}
    writer.add_tokenizer_model(values["model"])
    if "pre" in values:
        writer.add_tokenizer_pre(values["pre"])
    writer.add_token_list(values["tokens"])
    writer.add_token_types(values["token_type"])
    if "merges" in values:
        writer.add_token_merges([merge.decode() for merge in values["merges"]])
    if "scores" in values:
        writer.add_token_scores(values["scores"])
    for key in ("bos_token_id", "eos_token_id"):
        if key in values:
            writer.add_uint32(f"tokenizer.ggml.{key}", values[key])
    for key in ("add_bos_token", "add_space_prefix"):
        if key in values:
            writer.add_bool(f"tokenizer.ggml.{key}", values[key])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def model_path(name):
    """A real model's file; skips the test (with HEARTH_REQUIRE_MODELS: fails it) when it is not here."""
    home = os.environ.get("HEARTH_HOME")
    data = Path(home) / "data" if home else platformdirs.user_data_path("hearth", appauthor=False)
    folders = [Path(folder) for folder in os.environ.get("HEARTH_MODEL_PATH", "").split(os.pathsep) if folder]
    for folder in [*folders, data / "models"]:
        if (folder / MODELS[name]).is_file():
            return folder / MODELS[name]
    message = f"{MODELS[name]} is not on this machine (`make models` fetches it)"
    if os.environ.get("HEARTH_REQUIRE_MODELS"):
        pytest.fail(message)
    pytest.skip(message)


class _ModelParams(ctypes.Structure):
    """llama_model_params of llama.cpp v0.5.0."""

    _fields_ = (
        ("pointers", c_void_p * 2),
        ("numbers", c_int32 * 5),
        ("more_pointers", c_void_p * 4),
        ("vocab_only", c_bool),
        ("flags", c_bool * 5),
    )


class _Message(ctypes.Structure):
    _fields_ = (("role", c_char_p), ("content", c_char_p))


_LogCallback = ctypes.CFUNCTYPE(None, c_int32, c_char_p, c_void_p)
_silent = _LogCallback(lambda level, text, data: None)


@cache
def _llama_cpp():
    """The library of llama.cpp v0.5.0: HEARTH_LLAMA_CPP names its folder, else build/llama.cpp has it."""
    default = Path(__file__).parents[3] / "build/llama.cpp/package/bins/linux-x64"
    folder = Path(os.environ.get("HEARTH_LLAMA_CPP", default))
    found = sorted(folder.glob("libllama.*so*"))
    if not found:
        return None
    library = ctypes.CDLL(str(found[0]))
    signatures = {
        "llama_log_set": (None, [_LogCallback, c_void_p]),
        "llama_model_default_params": (_ModelParams, []),
        "llama_model_load_from_file": (c_void_p, [c_char_p, _ModelParams]),
        "llama_model_free": (None, [c_void_p]),
        "llama_model_get_vocab": (c_void_p, [c_void_p]),
        "llama_vocab_n_tokens": (c_int32, [c_void_p]),
        "llama_vocab_is_eog": (c_bool, [c_void_p, c_int32]),
        "llama_vocab_get_add_bos": (c_bool, [c_void_p]),
        "llama_tokenize": (c_int32, [c_void_p, c_char_p, c_int32, c_void_p, c_int32, c_bool, c_bool]),
        "llama_token_to_piece": (c_int32, [c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool]),
        "llama_chat_apply_template": (
            c_int32,
            [c_char_p, ctypes.POINTER(_Message), ctypes.c_size_t, c_bool, c_char_p, c_int32],
        ),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.llama_log_set(_silent, None)
    (ggml, *_) = sorted(folder.glob("libggml.*so*"))
    ctypes.CDLL(str(ggml)).ggml_backend_load_all_from_path(str(folder).encode())
    return library


def _require_llama_cpp():
    library = _llama_cpp()
    if library is None:
        pytest.skip("llama.cpp's library is not here; set HEARTH_LLAMA_CPP to its folder")
    return library


class LlamaCppVocabulary:
    """llama.cpp's tokenizer of a GGUF file."""

    def __init__(self, path):
        self._lib = _require_llama_cpp()
        params = self._lib.llama_model_default_params()
        params.vocab_only = True
        self._model = self._lib.llama_model_load_from_file(str(path).encode(), params)
        assert self._model, path
        self._vocab = self._lib.llama_model_get_vocab(self._model)
        self.size = self._lib.llama_vocab_n_tokens(self._vocab)
        self.add_bos = self._lib.llama_vocab_get_add_bos(self._vocab)

    def encode(self, text, *, special=False):
        data = text.encode()
        room = len(data) + 16
        ids = (c_int32 * room)()
        count = self._lib.llama_tokenize(self._vocab, data, len(data), ids, room, False, special)
        assert count >= 0
        return ids[:count]

    def token_bytes(self, token):
        buffer = ctypes.create_string_buffer(4096)
        count = self._lib.llama_token_to_piece(self._vocab, token, buffer, 4096, 0, False)
        return buffer.raw[: max(0, count)]

    def end_ids(self):
        return {token for token in range(self.size) if self._lib.llama_vocab_is_eog(self._vocab, token)}


def llama_cpp_chat(template, messages, *, add_generation_prompt=True):
    """llama.cpp's own rendering of the templates that it knows by sight."""
    library = _require_llama_cpp()
    array = (_Message * len(messages))(*((role.encode(), text.encode()) for role, text in messages))
    buffer = ctypes.create_string_buffer(1 << 16)
    count = library.llama_chat_apply_template(
        template.encode(), array, len(messages), add_generation_prompt, buffer, len(buffer)
    )
    assert count >= 0
    return buffer.raw[:count].decode()
