"""σ and σ' of the registered activations, for numbers and short vectors.

An integer code selects the activation, so that one compiled kernel serves all of them. The code of an
activation of a user is the address of those of its functions (see `user_kernels.py`).
"""

from __future__ import annotations

import math

from sweep_service.model.averages.closed_forms import ERF_CODE, RELU_CODE, SQUARE_CODE, TANH_CODE
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import call_functions, where_less
from sweep_service.numerics.vector_math import erf_and_gauss, tanh

FIRST_ADDRESS = 1 << 16  # smaller codes are not addresses
_SLOPE_AT_ZERO = math.sqrt(2.0 / math.pi)


@kernel(inline=True)
def activate(code, x):
    """σ(x), σ'(x); NaN for an unknown code, which ends a chain as diverged.

    Vectors are padded with rows of zeros: where σ(0) is not 0, they need weights that are zero there.
    """
    if code == ERF_CODE:
        value, e = erf_and_gauss(x)
        slope = _SLOPE_AT_ZERO * e
    elif code == SQUARE_CODE:
        value, slope = x * x, 2.0 * x
    elif code == RELU_CODE:
        slope = where_less(0.0, x, 1.0, x - x)  # NaN stays NaN
        value = slope * x
    elif code == TANH_CODE:
        value = tanh(x)
        slope = 1.0 - value * value
    elif code >= FIRST_ADDRESS:
        value, slope = call_functions(code, x)
    else:
        value, slope = x * math.nan, x * math.nan
    return value, slope
