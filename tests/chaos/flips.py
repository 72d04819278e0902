"""Flips of single bits in the stored files of a sweep."""

import json

import numpy as np


def flip_bit(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def random_bit(path, rng):
    return int(rng.integers(8 * path.stat().st_size))


def stored_files(root, sweep_id):
    """The files of a sweep, but for empty ones."""
    files = (root / "sweeps").glob(f"{sweep_id}.*")
    candidates = [file for path in files for file in ([path] if path.is_file() else path.rglob("*"))]
    return sorted(file for file in candidates if file.is_file() and file.stat().st_size)


def kind_of_file(path):
    """Group files of which damage is found in the same way."""
    if path.name == "zarr.json":
        return "root metadata" if path.parent.suffix == ".zarr" else "array metadata"
    parent = next((parent for parent in path.parents if parent.suffix == ".zarr"), None)
    if parent is None:
        return path.suffix
    name = path.relative_to(parent).parts[0]
    variable = name.partition("_")[2] if name.startswith(("sgd_", "ode_")) else "label"
    return variable if variable in ("label", "status", "steps", "risk") else "values"


def find_chunk(dataset_path, array):
    """The first chunk of an array."""
    return min(path for path in (dataset_path / array / "c").rglob("*") if path.is_file())


def change_metadata(dataset_path, **attributes):
    """Change attributes of a dataset, as another program would."""
    path = dataset_path / "zarr.json"
    root = json.loads(path.read_text("utf-8"))
    root["attributes"] |= attributes
    path.write_text(json.dumps(root), "utf-8")


# Each makes the dataset at a path unusable in one way; the text is part of the error.
DAMAGES = {
    "flipped bit": (lambda path: flip_bit(find_chunk(path, "sgd_risk"), 99), "sgd_risk/c/0"),
    "truncated chunk": (lambda path: shorten(find_chunk(path, "sgd_risk")), "sgd_risk/c/0"),
    "missing chunk": (lambda path: find_chunk(path, "sgd_risk").unlink(), "sgd_risk/c/0"),
    "missing statuses": (lambda path: find_chunk(path, "sgd_status").unlink(), "sgd_status/c/0"),
    "flipped label": (lambda path: flip_bit(find_chunk(path, "gamma"), 99), "gamma/c/0"),
    "broken metadata": (lambda path: shorten(path / "zarr.json"), "zarr.json"),
    "flipped attribute": (lambda path: change_metadata(path, title="other"), "zarr.json"),
    "newer layout": (lambda path: change_metadata(path, layout_version=99), "has layout 99"),
}


def shorten(path):
    path.write_bytes(path.read_bytes()[:9])


def read_values(dataset, without=()):
    """All numbers and texts of a dataset."""
    return {str(name): dataset[name].values for name in dataset.variables if name not in without}


def assert_same_values(actual, expected):
    assert set(actual) == set(expected)
    for name, values in expected.items():
        assert actual[name].dtype == values.dtype
        np.testing.assert_array_equal(actual[name], values, err_msg=name)
