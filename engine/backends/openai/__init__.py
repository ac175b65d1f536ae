"""Models of a remote server that speaks OpenAI's API: vLLM, SGLang, another Hearth, or any other.

`remote.py` is the door: one object for each `[[remote]]` of the user's settings. Only a server that is named
there is ever asked, and only for requests that name one of its models.
"""
