"""Drawing tokens and ending generations.

sampler = Sampler(params)                       # RequestError for parameters out of range
drawn = sampler.sample(logits, history)         # Sample(token, logprob)
ids, probabilities = distribution(logits, params, history)
value = logprob(logits, token); [(token, value), ...] = top_logprobs(logits, count)

matcher = StopMatcher(strings, ids)
text, stopped = matcher.feed(piece); rest = matcher.finish(); matcher.is_stop(token); matcher.stopped_by
"""

from engine.sampling.sampler import Sample, Sampler, distribution, logprob, top_logprobs
from engine.sampling.stops import StopMatcher

__all__ = ["Sample", "Sampler", "StopMatcher", "distribution", "logprob", "top_logprobs"]
