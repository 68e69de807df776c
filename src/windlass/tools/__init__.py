"""Tools: from a Python function to what a model may call, a turn can drive and a crash cannot surprise.

Law 1. A tool is refused when it is made, with the name of what is wrong; not while a turn runs.
Law 2. The body gets checked arguments of its own, and is called in one place only (`body`).
Law 3. The function stays a function: calling it, in tests or elsewhere, is calling it.
"""

from windlass.tools.dynamic_tool import DynamicTool
from windlass.tools.function_tool import FunctionTool, tool
from windlass.tools.results import Clipped, as_outcome, clipped
from windlass.tools.toolbox import Toolbox

__all__ = ["Clipped", "DynamicTool", "FunctionTool", "Toolbox", "as_outcome", "clipped", "tool"]
