"""What Whisper's encoder and decoder have in common: layers that normalise first, attend, and add to what came in."""

from conch_runtime_cpu.graphs.dense_layers import DenseLayers


class WhisperLayers(DenseLayers):
    """Those layers; config.json cannot name another epsilon of their norms than torch's."""

    def mlp(self, name: str, hidden: str) -> str:
        """Add what the two dense layers make of the normalised input."""
        normed = self.norm(f"{name}.final_layer_norm", hidden)
        matrix = self._nodes.constant(f"{name}.fc1.weight", self._weights[f"{name}.fc1.weight"].T)
        wide = self._nodes.node("MatMul", [normed, matrix])
        activated = self._nodes.node("BiasGelu", [wide, self.tensor(f"{name}.fc1.bias")])
        return self._nodes.node("Add", [hidden, self.linear(f"{name}.fc2", activated)])
