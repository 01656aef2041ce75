"""One round of the operator: observe, plan, act, publish, tell. Knows neither processes nor Kubernetes."""
