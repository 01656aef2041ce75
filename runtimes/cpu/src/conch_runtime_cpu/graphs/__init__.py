"""From a Hugging Face folder to an ONNX graph: configs, weights, quantization, and the cache of converted models."""
