"""Which models of an EnginePool are loaded, where there are more than it has room for.

`residency` decides and is pure; `residents` knows the models, and tells rounds what was decided.
"""
