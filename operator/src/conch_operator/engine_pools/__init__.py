"""Which models of an EnginePool are loaded, where there are more than it has room for, and how they get there.

`residency` decides and is pure; `residents` keeps a `known_model` of each, and tells rounds what was decided;
`loaded_models` loads and unloads them in a `shared_server`, beside which it runs: in `conch up`, or in the agent of a
pool's pod. What their processes take of memory `stub_processes` measures.
"""
