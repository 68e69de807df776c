"""What users test with: scripted models, a clock that is moved, a way to drive the bare machine."""

from windlass.models.scripted import FunctionModel, ScriptedModel
from windlass.testing.clock import VirtualClock, virtual_clock
from windlass.testing.crashing.crash_point import CrashPoint
from windlass.testing.crashing.kill_everywhere import (
    CrashFound,
    Finding,
    KillReport,
    crash_points,
    kill_everywhere,
)
from windlass.testing.crashing.scenario import Scenario
from windlass.testing.drive import Answers, Driven, call, calls, drive, say
from windlass.testing.provider_rules import Broken, broken_rules

__all__ = [
    "Answers", "Broken", "CrashFound", "CrashPoint", "Driven", "Finding", "FunctionModel", "KillReport",
    "Scenario", "ScriptedModel", "VirtualClock", "broken_rules", "call", "calls", "crash_points", "drive",
    "kill_everywhere", "say", "virtual_clock",
]  # fmt: skip
