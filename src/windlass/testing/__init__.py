"""What users test with: scripted models, recordings, a clock that is moved, a way to drive the bare machine."""

from windlass.api.recordings import Replayed, record_exchange, replay_recording
from windlass.models.recording import Recording, read_recording, write_recording
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
    "Answers", "Broken", "CrashFound", "CrashPoint", "Driven", "Finding", "FunctionModel", "KillReport", "Recording",
    "Replayed", "Scenario", "ScriptedModel", "VirtualClock", "broken_rules", "call", "calls", "crash_points", "drive",
    "kill_everywhere", "read_recording", "record_exchange", "replay_recording", "say", "virtual_clock",
    "write_recording",
]  # fmt: skip
