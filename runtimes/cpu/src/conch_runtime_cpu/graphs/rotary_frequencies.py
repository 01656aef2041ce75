"""How far each pair of a head's numbers is turned from one position to the next."""

from math import pi

import numpy as np
from numpy.typing import NDArray

from conch_runtime_cpu.graphs.decoder_architecture import DecoderArchitecture, RopeScaling

Frequencies = NDArray[np.float64]


def rotary_frequencies(architecture: DecoderArchitecture) -> Frequencies:
    """Return the angles in radians, fastest first: `head_dim / 2` of them."""
    plain: Frequencies = architecture.rope_theta ** (-np.arange(0, architecture.head_dim, 2) / architecture.head_dim)
    return plain if architecture.rope_scaling is None else _scaled(plain, architecture.rope_scaling)


def _scaled(frequencies: Frequencies, scaling: RopeScaling) -> Frequencies:
    waves = scaling.original * frequencies / (2 * pi)
    kept: Frequencies = np.clip((waves - scaling.low_freq) / (scaling.high_freq - scaling.low_freq), 0, 1)
    return frequencies * (kept + (1 - kept) / scaling.factor)
