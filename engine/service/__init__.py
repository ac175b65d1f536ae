"""The resident service: one daemon for each user, which holds the model for every editor and tool.

`places`, `lock` and `protocol` are what its callers share with it and cost nothing to import; `daemon` is the
process itself, `host` the model in its memory, `http` what it speaks. `python -m engine.service` runs it.
"""
