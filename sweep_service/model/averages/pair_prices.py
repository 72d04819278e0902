"""Prices of two-point averages: seconds of one pair of neurons on the machine where they were measured.

Recorded risks and right-hand sides of flows are sums over pairs, so that their cost follows from these. Those
of two tanh neurons cost tens of times as much as those of two square ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sweep_service.model.activations import Activation
from sweep_service.model.averages.closed_forms import (
    ERF_CODE,
    ERF_RELU,
    ERF_TANH,
    ODD_WITH_SQUARE,
    PAIR_CODES,
    RELU_CODE,
    RELU_ERF,
    RELU_SQUARE,
    RELU_TANH,
    SQUARE_CODE,
    SQUARE_RELU,
    TANH_CODE,
    TANH_ERF,
    TANH_RELU,
)
from sweep_service.model.averages.two_point import Mehler


class PairPrice(NamedTuple):
    """Seconds of the averages of one pair, and of a call for any number of pairs."""

    slopes: float  # E[f'g'] and E[f''g]
    values: float  # E[fg]
    call: float = 0.0


CLOSED_FORMS = {
    ERF_CODE: PairPrice(1.2e-9, 3.1e-9),
    SQUARE_CODE: PairPrice(0.7e-9, 0.5e-9),
    RELU_CODE: PairPrice(4.5e-9, 4.2e-9),
    TANH_CODE: PairPrice(20e-9, 66e-9),
    TANH_ERF: PairPrice(4.5e-9, 11e-9),
    ERF_TANH: PairPrice(4.2e-9, 11e-9),
    ODD_WITH_SQUARE: PairPrice(2.1e-9, 2.0e-9),
    ERF_RELU: PairPrice(4.4e-9, 3.3e-9),
    TANH_RELU: PairPrice(5.5e-9, 3.5e-9),
    RELU_ERF: PairPrice(3.9e-9, 3.5e-9),
    RELU_TANH: PairPrice(3.5e-9, 3.5e-9),
    RELU_SQUARE: PairPrice(6.2e-9, 4.3e-9),
    SQUARE_RELU: PairPrice(5.0e-9, 4.2e-9),
}
# Of activations without closed forms: sums by Mehler's formula, or tables where it is inaccurate.
MEHLER_SUM = PairPrice(4e-8, 2e-8, call=1e-5)
TABLES = PairPrice(1.9e-5, 2e-8, call=1e-4)


@lru_cache(maxsize=256)
def pair_price(f: Activation, g: Activation) -> PairPrice:
    """Return the price of a pair; that of an activation without closed forms is tried at unit variance."""
    code = PAIR_CODES.get((f.code, g.code))
    if code is not None:
        return CLOSED_FORMS[code]
    unit, middle = np.ones(1), np.full((1, 1), 0.5)
    derivatives = ((1, 1), (2, 0))
    is_accurate = all(Mehler(f, g).is_accurate(*orders, unit, unit, middle).all() for orders in derivatives)
    return MEHLER_SUM if is_accurate else TABLES
