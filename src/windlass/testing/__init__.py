"""What users test with: scripted models, a clock that is moved, a way to drive the bare machine."""

from windlass.models.scripted import FunctionModel, ScriptedModel
from windlass.testing.answers import Answers
from windlass.testing.clock import VirtualClock, virtual_clock
from windlass.testing.crashing.crash_point import CrashPoint
from windlass.testing.crashing.kill_everywhere import crash_points, kill_everywhere
from windlass.testing.crashing.kill_report import CrashFound, Finding, KillReport
from windlass.testing.crashing.scenario import Scenario
from windlass.testing.drive import Driven, drive
from windlass.testing.provider_rules import Broken, broken_rules
from windlass.testing.replies import call, calls, say

__all__ = [
    "Answers",
    "Broken",
    "CrashFound",
    "CrashPoint",
    "Driven",
    "Finding",
    "FunctionModel",
    "KillReport",
    "Scenario",
    "ScriptedModel",
    "VirtualClock",
    "broken_rules",
    "call",
    "calls",
    "crash_points",
    "drive",
    "kill_everywhere",
    "say",
    "virtual_clock",
]
