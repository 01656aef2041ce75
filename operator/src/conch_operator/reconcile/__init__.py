"""One round of the operator: observe, plan, act, publish, describe. Knows neither processes nor Kubernetes."""
