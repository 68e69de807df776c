"""What users test with: scripted replies, and a way to drive the bare machine without any I/O."""

from windlass.testing.answers import Answers
from windlass.testing.drive import Driven, drive
from windlass.testing.provider_rules import Broken, broken_rules
from windlass.testing.replies import call, calls, say

__all__ = ["Answers", "Broken", "Driven", "broken_rules", "call", "calls", "drive", "say"]
