"""Text to token ids and back.

    tokenizer = Tokenizer.from_gguf(gguf)        # ModelFileError when it cannot be exact
    ids = tokenizer.encode(text)                 # user text: control tokens are never parsed
    decoder = StreamDecoder(tokenizer)
    piece = decoder.feed(token); rest = decoder.finish()

Also: `decode`, `token_bytes`, `token_text`, `id_of`, `is_control`, `is_user_defined`, `count`,
`partition`, and the attributes `eos_ids`, `bos`, `add_bos`, `text_prefix`, `vocab_size`, `control_texts`.
"""

from engine.tokenizer.metadata import GgufMetadata
from engine.tokenizer.stream import StreamDecoder
from engine.tokenizer.tokenizer import Tokenizer

__all__ = ["GgufMetadata", "StreamDecoder", "Tokenizer"]
