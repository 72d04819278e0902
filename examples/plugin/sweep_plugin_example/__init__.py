"""Entries for the registries of sweep-service: importing this package adds them."""

from sweep_plugin_example.activation import GELU
from sweep_plugin_example.observable import SMALLEST_NORM
from sweep_plugin_example.start import HALF_WAY
from sweep_plugin_example.value import SGD_GAIN
from sweep_service.analysis.point_values import VALUES
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import INITS
from sweep_service.model.observables import OBSERVABLES

ACTIVATIONS[GELU.name] = GELU
INITS[HALF_WAY.name] = HALF_WAY
OBSERVABLES[SMALLEST_NORM.name] = SMALLEST_NORM
VALUES["sgd_gain"] = SGD_GAIN
