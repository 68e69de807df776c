"""Processes that run one workload each: started, waited for, and their figures read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic, monotonic_ns, sleep
from typing import Any

from bench.workloads.child import MARK
from bench.workloads.script import Diary

ROOT = Path(__file__).parents[2]
WINDLASS = "bench.peers.windlass_turns"
_POLL_S = 0.005
# Nobody's traces, nobody's telemetry.
_QUIET = {"OTEL_SDK_DISABLED": "true", "AGNO_TELEMETRY": "false", "LANGSMITH_TRACING": "false"}

Figures = dict[str, Any]


def start(
    module: str, *arguments: str, python: str = sys.executable, **settings: str
) -> subprocess.Popen[str]:
    """Start a module; settings go in as BENCH_ variables, and no others are handed on."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("BENCH_")}
    own = {f"BENCH_{key.upper()}": value for key, value in settings.items()}
    own |= {"PYTHONHASHSEED": "0", "BENCH_STARTED_NS": str(monotonic_ns())}
    return subprocess.Popen(
        [python, "-m", module, *arguments],
        cwd=ROOT,
        env={**inherited, **_QUIET, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(child: subprocess.Popen[str], seconds: float) -> Figures:
    """Wait for a process and return its figures; what went wrong is one, too, under `error`."""
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return {"error": f"not done after {seconds:.0f} s"}
    for line in out.splitlines():
        if line.startswith(MARK):
            figures: Figures = json.loads(line.removeprefix(MARK))
            return figures
    return {"error": last_words(err) or f"ended with {child.returncode}"}


def last_words(err: str) -> str:
    """Return the last line of what a process said on standard error."""
    said = [line.strip() for line in err.splitlines() if line.strip()]
    return said[-1] if said else ""


def wait_for(child: subprocess.Popen[str], diary: Path, kind: str, at: int, seconds: float) -> bool:
    """Wait until a process has noted something; False: it ended without, or takes too long."""
    deadline = monotonic() + seconds
    while at not in Diary(diary).numbers(kind):
        if child.poll() is not None or monotonic() > deadline:
            return at in Diary(diary).numbers(kind)
        sleep(_POLL_S)
    return True
