"""Output that must match: JSON, JSON schemas, regular expressions, Lark grammars, and calls of offered tools.

compiler = GrammarCompiler(tokenizer)                                  # once per model
matcher = compiler.compile(output_grammar(constraint), "JSON schema")  # RequestError: cannot be enforced
logits = matcher.restrict(logits); matcher.accept(token); matcher.rollback(count); matcher.is_complete
"""

from engine.constraints.grammar import CallRules, message_grammar, output_grammar, tools_named
from engine.constraints.matcher import GrammarCompiler, Matcher

__all__ = ["CallRules", "GrammarCompiler", "Matcher", "message_grammar", "output_grammar", "tools_named"]
