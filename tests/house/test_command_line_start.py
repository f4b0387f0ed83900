"""People and health checks start the command line by the thousand, so it loads little and answers fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ADSUM = Path(sys.executable).parent / "adsum"
# Each of these costs more than the rest of `adsum version` together, or opens what it need not.
HEAVY = {"trio", "ssl", "asyncio", "msgspec", "cbor2", "dnslib", "httptools", "h11", "prometheus_client"}
VERSION_MS_MAX = 60
BARE_PYTHON_MS = 10  # on the machine where 60 ms was measured as comfortable
RUNS = 5


def test_version_loads_no_trio_and_nothing_heavy() -> None:
    program = (
        "import json, runpy, sys\nsys.argv = [sys.argv[1], 'version']\n"
        "try:\n    runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "finally:\n    print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(ADSUM)], capture_output=True, text=True)
    assert done.stdout
    loaded = {name.split(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}
    assert HEAVY & loaded == set()


def test_version_answers_within_its_budget() -> None:
    """Processor time, the best of several runs, scaled by bare Python: a busy or slow machine passes."""
    bare_ms = min(processor_ms([sys.executable, "-c", "pass"]) for _ in range(RUNS))
    version_ms = min(processor_ms([str(ADSUM), "version"]) for _ in range(RUNS))
    assert version_ms < VERSION_MS_MAX * max(1.0, bare_ms / BARE_PYTHON_MS)


def processor_ms(command: list[str]) -> float:
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not wait for it again
    assert child.returncode == 0
    return (used.ru_utime + used.ru_stime) * 1000
