"""The model catalogue: which models Hearth knows, where their files come from, and whether they are whole.

`entries` lists the models, `pull` fetches one, `places` finds files that are already on the machine,
`status` answers for all of them. Callers outside the engine go through `engine.client.models`.
"""
