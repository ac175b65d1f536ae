"""Spellings that steer a model: ends of generation and fill-in-the-middle markers.

Files often give these tokens a wrong type. As llama.cpp does, one of these spellings that text cannot
reach counts as a control token, whatever the file says; so no user text can ever become one.

DeepSeek writes its markers with U+FF5C and U+2581, CodeLlama with U+2581; escaped here to be told from ASCII.
"""

from __future__ import annotations

# End-of-generation spellings, as llama.cpp collects them (llama-vocab.cpp, special_eog_ids).
END_MARKERS = frozenset(
    {
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
        "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "_<EOT>", "[EOT]", "[EOS]",
        "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "[e~[",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        # Padding, repository and file separators of the fill-in-the-middle formats end a text too.
        "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
        "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
    }
)  # fmt: skip

# Models with one of each of these groups (gpt-oss and kin) end a channel, not the answer, with <|end|>.
CALL_ENDS = frozenset({"<|call|>", "<|calls|>"})
ANSWER_ENDS = frozenset({"<|return|>", "<|flush|>"})
CHANNEL_END = "<|end|>"
# Where a tool's response ends the turn, </s> is left to text.
TOOL_RESPONSE_END = "<|tool_response>"
SENTENCE_END = "</s>"

FIM_MARKERS = frozenset(
    {
        "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
        "<fim_prefix>", "<fim_suffix>", "<fim_middle>",
        "<fim-prefix>", "<fim-suffix>", "<fim-middle>",
        "<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>",
        "<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>",
        "\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", "\u2581<EOT>",
        "[PREFIX]", "[SUFFIX]", "[MIDDLE]",
        "<file_sep>", "<repo_name>", "<filename>", "<|file_separator|>", "<|im_start|>",
    }
)  # fmt: skip
