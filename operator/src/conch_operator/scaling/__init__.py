"""How many engines a model has, where its scaling decides it: what gateways have to do, the clock, and the rule.

`decision`, `starts`, `schedule` and `demand` are pure; `demand_reader` hears the gateways, `autoscaler` does it for all
models.
"""
