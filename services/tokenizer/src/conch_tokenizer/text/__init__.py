"""The work that children do: templates rendered, texts encoded, ids decoded. Knows no processes and no HTTP."""
