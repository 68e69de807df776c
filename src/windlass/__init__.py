"""windlass runs LLM agents whose turns hold: kill the process, start it again, the turn goes on."""

from windlass import errors
from windlass.errors import WindlassError

__all__ = ["WindlassError", "__version__", "errors"]

__version__ = "0.1.0"
