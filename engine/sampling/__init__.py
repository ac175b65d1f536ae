"""Drawing tokens and ending generations.

sampler = Sampler(params)                       # RequestError for parameters out of range
drawn = sampler.sample(logits, history)         # Sample(token, logprob)
ids, probabilities = distribution(logits, params, history)

matcher = StopMatcher(strings, ids)
text, stopped = matcher.feed(piece); rest = matcher.finish(); matcher.is_stop(token)
"""

from engine.sampling.sampler import Sample, Sampler, distribution, logprob
from engine.sampling.stops import StopMatcher

__all__ = ["Sample", "Sampler", "StopMatcher", "distribution", "logprob"]
