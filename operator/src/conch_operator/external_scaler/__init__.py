"""Tells KEDA what there is to do for models whose number of engines it decides: the gRPC service of an external scaler.

Every operator serves it, with the Lease or without, by the records of gateways that `scaling` decides by. `asked_model`
and `answers` are pure, `messages` knows the wire, `watched_models` and `heard_demand` know what is asked for, `service`
answers, and `process` puts it together. Nothing here writes.
"""
