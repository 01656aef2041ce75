"""What Whisper's encoder and decoder have in common: layers that normalise first, attend, and add to what came in."""

from conch_runtime_cpu.graphs.nodes import Nodes
from conch_runtime_cpu.graphs.weights import Weights

_NORM_EPSILON = 1e-5
"""Of torch's LayerNorm; config.json cannot name another."""


class WhisperLayers:
    """Adds parts of layers to a graph; each method returns the name of its output."""

    def __init__(self, nodes: Nodes, weights: Weights) -> None:
        self._nodes = nodes
        self._weights = weights

    def norm(self, name: str, hidden: str) -> str:
        """Normalise."""
        weights = [self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")]
        return self._nodes.node("LayerNormalization", [hidden, *weights], epsilon=_NORM_EPSILON, axis=-1)

    def linear(self, name: str, hidden: str) -> str:
        """Multiply by a weight, and add its bias where there is one."""
        matrix = self._nodes.constant(f"{name}.weight", self._weights[f"{name}.weight"].T)
        product = self._nodes.node("MatMul", [hidden, matrix])
        return self._nodes.node("Add", [product, self.tensor(f"{name}.bias")]) if self._biased(name) else product

    def mlp(self, name: str, hidden: str) -> str:
        """Add what the two dense layers make of the normalised input."""
        normed = self.norm(f"{name}.final_layer_norm", hidden)
        matrix = self._nodes.constant(f"{name}.fc1.weight", self._weights[f"{name}.fc1.weight"].T)
        wide = self._nodes.node("MatMul", [normed, matrix])
        activated = self._nodes.node("BiasGelu", [wide, self.tensor(f"{name}.fc1.bias")])
        return self._nodes.node("Add", [hidden, self.linear(f"{name}.fc2", activated)])

    def tensor(self, name: str) -> str:
        """Add one of the weights as it is."""
        return self._nodes.constant(name, self._weights[name])

    def _biased(self, name: str) -> bool:
        return f"{name}.bias" in self._weights
