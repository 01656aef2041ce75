"""What transformers with biases have in common, those of sound and of pictures: norms and matrices."""

from conch_runtime_cpu.graphs.nodes import Nodes
from conch_runtime_cpu.graphs.weights import Weights

NORM_EPSILON = 1e-5
"""Of torch's LayerNorm."""


class DenseLayers:
    """Adds parts of layers to a graph; each method returns the name of its output."""

    def __init__(self, nodes: Nodes, weights: Weights, norm_epsilon: float = NORM_EPSILON) -> None:
        self._nodes = nodes
        self._weights = weights
        self._norm_epsilon = norm_epsilon

    def norm(self, name: str, hidden: str) -> str:
        """Normalise."""
        weights = [self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")]
        return self._nodes.node("LayerNormalization", [hidden, *weights], epsilon=self._norm_epsilon, axis=-1)

    def linear(self, name: str, hidden: str) -> str:
        """Multiply by a weight, and add its bias where there is one."""
        matrix = self._nodes.constant(f"{name}.weight", self._weights[f"{name}.weight"].T)
        product = self._nodes.node("MatMul", [hidden, matrix])
        return self._nodes.node("Add", [product, self.tensor(f"{name}.bias")]) if self._biased(name) else product

    def attend(self, name: str, normed: str, heads: int, *, causal: bool = False) -> str:
        """Let every position look at every other one, or at none behind it, and project what they saw."""
        parts = [self.linear(f"{name}.{part}_proj", normed) for part in "qkv"]
        order = {"unidirectional": 1} if causal else {}
        attended = self._nodes.node("MultiHeadAttention", parts, num_heads=heads, **order)
        return self.linear(f"{name}.out_proj", attended)

    def tensor(self, name: str) -> str:
        """Add one of the weights as it is."""
        return self._nodes.constant(name, self._weights[name])

    def _biased(self, name: str) -> bool:
        return f"{name}.bias" in self._weights
