"""Parts: packing, and removal of damaged ones."""

import numpy as np
import pytest

from sweep_service.errors import Damaged
from sweep_service.planning.jobs import Failure
from sweep_service.store.parts import Part
from tests.execution.merging import digest, list_parts, merge, put_parts


def test_part_is_unpacked_as_packed(sweep):
    for part in sweep.parts.values():
        failures = (Failure("sgd", 3, "é: 1/0", "line\nline"),)
        back = Part.unpack(Part(part.numbers, part.values, failures).pack(), sweep.plan)
        assert back.failures == failures
        assert set(back.numbers) == set(part.numbers)
        for kind, numbers in part.numbers.items():
            np.testing.assert_array_equal(back.numbers[kind], numbers)
            assert set(back.values[kind]) == set(part.values[kind])
            for name, array in part.values[kind].items():
                assert back.values[kind][name].dtype == array.dtype
                np.testing.assert_array_equal(back.values[kind][name], array)


def test_part_is_never_unpickled(sweep):
    harmful = {"sgd": {"risk": np.array([{"a": 1}], dtype=object)}}
    with pytest.raises(Damaged, match="allow_pickle"):
        Part.unpack(Part({"sgd": np.array([0])}, harmful, ()).pack(), sweep.plan)


def _other_numbers(content, plan):
    part = Part.unpack(content, plan)
    kind = next(iter(part.numbers))
    return Part({kind: part.numbers[kind] + plan.runs.count(kind)}, {kind: part.values[kind]}, ()).pack()


def _without_a_variable(content, plan):
    part = Part.unpack(content, plan)
    for values in part.values.values():
        values.pop("risk")
    return part.pack()


DAMAGE = {
    "garbage": lambda content, plan: b"garbage",
    "empty": lambda content, plan: b"",
    "cut": lambda content, plan: content[: len(content) // 2],
    "numbers": _other_numbers,
    "variable": _without_a_variable,
}


@pytest.mark.parametrize("harm", DAMAGE)
def test_damaged_part_is_removed_and_its_bundle_stays_pending(sweep, reference, harm):
    put_parts(sweep)
    name = list_parts(sweep)[1]
    content = sweep.folder.objects.get(name)
    sweep.folder.objects.put(name, DAMAGE[harm](content, sweep.plan))
    merge(sweep)
    assert list_parts(sweep) == []
    assert sweep.ledger.totals("s")["bundles_left"] == 1
    sweep.folder.objects.put(name, content)  # as if it were computed again
    merge(sweep)
    assert digest(sweep) == reference.digest
