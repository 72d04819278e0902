"""Random bytes are a valid spec or raise `InvalidInput`, in little memory; see also test_spec.py."""

import json
import os
import resource
import subprocess
import sys
import time as clock
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweep_service.errors import InvalidInput
from sweep_service.planning.spec import SweepSpec
from sweep_service.planning.spec_text import MAX_YAML_BYTES
from sweep_service.presets import PRESETS, read_preset

ROOT = Path(__file__).resolve().parents[2]
PIECES = [
    b"&a ", b"*a", b"<<: *a", b"!!python/name:os.system ", b"!!binary ", b"!!set ", b"!!omap ", b"? ",
    b"- " * 50, b"[" * 50, b"{" * 50, b"{a: " * 50, b"}", b"]", b"\x00", b"\xff", b"\xed\xa0\x80",
    b"\xe2\x80\xae", b"1e400", b"-0", b"0x7f", b"1_000", b"9" * 400, b"NaN", b".inf", b"null", b"true", b"'",
    b'"', b"\\u0000", b"\\ud800", b"|\n", b">-\n ", b"---\n", b"...\n", b"%YAML 9.9\n", b"\t", b"\r",
    b"\xef\xbb\xbf", b"# ", b": ", b", ", b"\xe2\x80\xa8", b"a" * 5000, b"!<tag:yaml.org,2002:python/none> ",
]  # fmt: skip


def written():
    """Return valid specs in different notations."""
    import yaml

    for name in list(PRESETS)[:4]:
        spec = read_preset(name).as_written()
        yield json.dumps(spec).encode()
        yield yaml.safe_dump(spec).encode()
        yield yaml.safe_dump(spec, default_flow_style=True).encode()


@st.composite
def mutated(draw):
    """Cut, repeat or overwrite parts, and insert meaningful pieces."""
    text = draw(st.sampled_from(list(written())))
    for _ in range(draw(st.integers(1, 4))):
        at, length = draw(st.integers(0, len(text))), draw(st.integers(0, 40))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=8) | st.just(text[at : at + length]))
        text = text[:at] + piece * draw(st.sampled_from([1, 1, 1, 30])) + text[at + length :]
    return text[:MAX_YAML_BYTES]


def try_many(examples):
    """In its own process: count valid specs; measure the maximum of time, memory and message length."""
    specs, longest, longest_message = 0, 0.0, 0
    SweepSpec.read(b"time: {max: 1}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(
        mutated()
        | st.binary(max_size=300)
        | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))
    )
    def tried(content):
        nonlocal specs, longest, longest_message
        began = clock.process_time()
        try:
            spec = SweepSpec.read(content)
        except InvalidInput as error:
            longest_message = max(longest_message, *(len(str(single)) for single in error.errors))
        else:
            specs += 1
            assert SweepSpec.read(json.dumps(spec.as_written())) == spec
        longest = max(longest, clock.process_time() - began)

    tried()
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"specs": specs, "longest": longest, "kilobytes": more, "letters": longest_message}))


@pytest.mark.slow
def test_thousands_of_random_specs():
    code = "from tests.security.test_specs import try_many; try_many(3000)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=800,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    content = json.loads(done.stdout.splitlines()[-1])
    assert content["specs"] > 50  # not all are invalid
    assert content["kilobytes"] < 300_000, content
    assert content["letters"] < 2000, content
