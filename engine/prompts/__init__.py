"""What the model reads: fill-in-the-middle prompts and chat prompts.

family = detect_fim(tokenizer)                 # FimFormat, or None: no fill-in-the-middle
family = require_fim(tokenizer)                # RequestError instead of None
prompt = build_infill(request, tokenizer, family, budget_tokens, order, healing=False)
prompt.ids, prompt.n_prefix, prompt.n_suffix, prompt.n_context, prompt.stop_ids, prompt.forced_bytes

kept_ids, forced_bytes = heal(ids, tokenizer)
trie = VocabularyTrie(tokenizer); trie.allowed_first_tokens(forced_bytes); trie.mask(forced_bytes, n_vocab)
forced_bytes = remaining_bytes(forced_bytes, tokenizer.token_bytes(token))

template = ChatTemplate.from_gguf(gguf, tokenizer)
prompt = template.encode(messages, tools, thinking=None)   # ChatPrompt: ids, opening, reasoning
"""

from engine.prompts.chat import ChatPrompt, ChatTemplate
from engine.prompts.families import FAMILIES, FimFamily, FimFormat, FimOrder, detect_fim, require_fim
from engine.prompts.fim import Prompt, build_infill
from engine.prompts.healing import VocabularyTrie, heal, remaining_bytes

__all__ = [
    "FAMILIES",
    "ChatPrompt",
    "ChatTemplate",
    "FimFamily",
    "FimFormat",
    "FimOrder",
    "Prompt",
    "VocabularyTrie",
    "build_infill",
    "detect_fim",
    "heal",
    "remaining_bytes",
    "require_fim",
]
