"""Import and start-up of a new process."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_dir_lists_names_without_importing_them():
    """That the import is light is tested in `test_imports`."""
    code = (
        "import sys, time\n"
        "began = time.perf_counter()\n"
        "import sweep_service\n"
        "print(time.perf_counter() - began)\n"
        "print(*(name for name in sweep_service.__all__ if name not in dir(sweep_service)))\n"
        "print('sweep_service.dynamics' in sys.modules)"
    )
    seconds, hidden, dynamics_loaded = run(code).splitlines()
    print(f"import sweep_service: {float(seconds):.3f} s")
    assert (hidden, dynamics_loaded) == ("", "False")


def test_lazy_name_is_imported_once_and_unknown_name_is_an_error():
    code = (
        "import sweep_service as ss\n"
        "assert ss.integrate is ss.integrate is vars(ss)['integrate']\n"
        "try:\n    ss.integrat\nexcept AttributeError as error:\n    print(error)"
    )
    assert "integrat" in run(code)


def test_small_integration_imports_no_plotting_and_no_statistics():
    """scipy.stats alone costs half a second, and only quasi-Monte Carlo needs it."""
    code = (
        "import sys, time\n"
        "began = time.perf_counter()\n"
        "import sweep_service as ss\n"
        "ss.integrate({'d': 10, 'p': 4, 'k': 2, 'gamma': 0.1}, regime='classical', times=[0, 1])\n"
        "print(time.perf_counter() - began)\n"
        "print(*({'matplotlib', 'scipy.stats', 'distributed', 'fastapi'} & set(sys.modules)))"
    )
    seconds, *heavy = run(code).split()
    print(f"first small integrate in a new process: {float(seconds):.2f} s")
    assert heavy == []
