"""A control plane without a kubelet: KWOK plays the nodes and the pods. It takes what a network of its own can hold."""
