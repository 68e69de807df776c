"""What users test with: scripted models, a clock that is moved, a way to drive the bare machine."""

from windlass.models.scripted import FunctionModel, ScriptedModel
from windlass.testing.answers import Answers
from windlass.testing.clock import VirtualClock, virtual_clock
from windlass.testing.drive import Driven, drive
from windlass.testing.provider_rules import Broken, broken_rules
from windlass.testing.replies import call, calls, say

__all__ = [
    "Answers",
    "Broken",
    "Driven",
    "FunctionModel",
    "ScriptedModel",
    "VirtualClock",
    "broken_rules",
    "call",
    "calls",
    "drive",
    "say",
    "virtual_clock",
]
