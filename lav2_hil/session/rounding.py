"""A fingerprint of how this computer rounds.

NumPy, the C library and OpenBLAS each choose among several versions of a function by the processor that they find, and
by rules of their own; where one chooses another, last bits change. The fingerprint is of results, so that it needs to
know none of these rules.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np

ROUNDING = "rounding-"
"""What a fingerprint begins with among the features of a processor."""


def rounding_fingerprint() -> str:
    """Equal where the functions that a twin is made of give the same bits, as far as can be told from some hundred."""
    values = np.linspace(-4.0, 4.0, 257) * math.pi / 3.0
    positive = np.abs(values) + 0.1
    results = [np.exp(values), np.expm1(values), np.tanh(values), np.log(positive), positive**0.19, np.sin(values)]
    numbers = values.tolist()
    functions = (math.exp, math.sin, math.cos, math.tan, math.atan, math.tanh)
    results.append(np.array([function(number) for function in functions for number in numbers]))
    results.append(np.array([math.atan2(number, 0.7) + math.pow(abs(number) + 0.1, 0.19) for number in numbers]))
    rotations = np.outer(values, values)[:24, :27].reshape(24, 3, 9)[:, :, :3]
    results.append(np.matmul(np.sin(values[:72]).reshape(24, 1, 3), rotations))
    digest = hashlib.blake2b(digest_size=4)
    for result in results:
        digest.update(np.ascontiguousarray(result).tobytes())
    return digest.hexdigest()
