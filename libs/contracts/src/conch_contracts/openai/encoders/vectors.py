"""How vectors may be written."""

from typing import Literal

NumberType = Literal["float32", "float16", "bfloat16", "fp8_e4m3", "fp8_e5m2"]
"""What the numbers of packed vectors are."""
VectorType = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]
"""What Cohere calls the forms of a vector."""
