"""The engine over HTTP: OpenAI's, Anthropic's and llama.cpp's APIs, and our own; `app.build_app` is the door.

A request passes `guard` (who may ask, how much), `body` (JSON, checked), a handler of its API, and `answers`
(which stops the engine when the client has gone). Each API is a list of `endpoint.Endpoint`.
"""
