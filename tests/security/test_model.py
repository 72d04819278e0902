"""The threat model in docs/security.md names existing tests."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED}))
def test_named_tests_exist(path):
    content = (ROOT / path).read_text("utf-8")
    for name in (name for file, name in NAMED if file == path):
        assert re.search(rf"^ *def {name}\(", content, re.MULTILINE), name


def test_every_defence_names_a_test():
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and line.count("|") == 4]
    body = [row for row in rows if not row.endswith(("| shown by |", "| trusted with |"))]
    defended = [row for row in body if "`tests/" in row]
    assert len(defended) > 20
    assert len(NAMED) > 40
    introduction = TEXT.split("## HTTP\n")[0]
    assert [row for row in body if row not in introduction] == defended


def test_every_security_test_file_is_named():
    """The model names every file of security tests."""
    files = {f"tests/security/{path.name}" for path in (ROOT / "tests" / "security").glob("test_*.py")}
    assert files - {path for path, _ in NAMED} == {"tests/security/test_model.py"}
