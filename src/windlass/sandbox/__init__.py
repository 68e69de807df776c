"""Running code that a model wrote, where it reaches nothing: no files, no network, no environment."""

from windlass.sandbox.monty import Monty, Ran
from windlass.sandbox.written import written

__all__ = ["Monty", "Ran", "written"]
