from pathlib import Path

import numpy as np
import pytest

from engine.generation.text import TextPrompting

_HELPERS = Path(__file__).parents[1] / "tokenizer" / "helpers.py"
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}\n</tool_call>'
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
THINKING = CHATML + "{# <think></think> #}"
OPENED = (
    CHATML + "{% if enable_thinking is not defined or enable_thinking %}{{ '<think>\n' }}"
    "{% else %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
)


class Script:
    """A model that wants to write a text: the next token of it is always the likeliest, the end after it.

    It goes on from wherever it was forced to.
    """

    def __init__(self, prompting, text):
        self.tokenizer = prompting._tokenizer
        self.tokens = [*self.tokenizer.encode(text), self.tokenizer.eos]
        self.at = 0

    def logits(self):
        row = np.zeros(self.tokenizer.vocab_size, np.float32)
        row[self.tokens[min(self.at, len(self.tokens) - 1)]] = 10
        return row


class Run:
    """One generation of a script: the deltas, and its tokens."""

    def __init__(self, prompting, prompt, text, max_tokens=1000):
        from engine.types import FinishReason, TextDelta

        self.prompt = prompt
        self.tokens = list(prompt.ids)
        self.deltas = []
        script = Script(prompting, text)
        for count in range(1, max_tokens + 1):
            drawn = prompt.output.draw(script.logits(), self.tokens)
            self.tokens.append(drawn.token)
            if script.at < len(script.tokens) and drawn.token == script.tokens[script.at]:
                script.at += 1
            if drawn.finish is not None:
                self._event(TextDelta(drawn.text, finish=drawn.finish))
                break
            if count == max_tokens:
                self._event(TextDelta(drawn.text + prompt.output.flush(), finish=FinishReason.LENGTH))
            elif drawn.text:
                self._event(TextDelta(drawn.text))

    def _event(self, event):
        self.deltas += self.prompt.deltas(event)

    @property
    def generated(self):
        return self.tokens[len(self.prompt.ids) :]

    @property
    def content(self):
        return "".join(delta.text for delta in self.deltas)

    @property
    def reasoning(self):
        return "".join(delta.reasoning for delta in self.deltas)

    @property
    def calls(self):
        """(id, name, arguments) of each call."""
        calls = []
        for delta in self.deltas:
            for call in delta.tool_calls:
                if call.index == len(calls):
                    calls.append([call.id, call.name, ""])
                calls[call.index][2] += call.arguments
        return [tuple(call) for call in calls]

    @property
    def finish(self):
        assert all(delta.finish is None for delta in self.deltas[:-1])
        return self.deltas[-1].finish


@pytest.fixture(scope="session")
def prompting_for(load_helper):
    """prompting_for(template): TextPrompting over a small vocabulary with Qwen's special tokens."""

    def make(template=CHATML):
        helpers = load_helper(_HELPERS)
        toy = helpers.toy_metadata()
        values = {key: toy.get(key) for key in toy.keys()}  # noqa: SIM118 - not a dict
        return TextPrompting(helpers.DictMetadata(values | {"tokenizer.chat_template": template}))

    return make


@pytest.fixture(scope="session")
def templates():
    class Templates:
        chatml = CHATML
        thinking = THINKING
        opened = OPENED

    return Templates


@pytest.fixture(scope="session")
def run_script():
    """run_script(prompting, prompt, text, max_tokens): what comes out when the model wants to write text."""
    return Run
