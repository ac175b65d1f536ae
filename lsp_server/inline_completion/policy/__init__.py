"""When to suggest, how much, where to stop and how to fit it in: everything between a document and a model.

The language server asks one `Question` and gets one `Answer`; nothing here speaks LSP and nothing here
knows of tokens. One rule a file: `silence`, `mode`, `stop`, `shape` name them in the order they apply.
"""

from lsp_server.inline_completion.policy.policy import CompletionPolicy
from lsp_server.inline_completion.policy.values import (
    SIGHT_AFTER,
    SIGHT_BEFORE,
    Answer,
    Question,
    Selected,
    Suggestion,
)

__all__ = [
    "SIGHT_AFTER",
    "SIGHT_BEFORE",
    "Answer",
    "CompletionPolicy",
    "Question",
    "Selected",
    "Suggestion",
]
