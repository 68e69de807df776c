"""Pure yes or no on hostile input: limits, ids, text, secrets.

Law 1. A guard reads its argument and nothing else: no I/O, no clock, no configuration. Only what is secret is
    known to the whole process.
Law 2. A refusal names the field, what was found and what was wanted, and never the content.
"""

from windlass.guards.ids import check_id, is_id
from windlass.guards.limits import INPUT_LIMITS, InputLimits, check_limit
from windlass.guards.secret import Redactor, Secret, register_secret
from windlass.guards.text import check_text, clean_text, is_clean

__all__ = [
    "INPUT_LIMITS",
    "InputLimits",
    "Redactor",
    "Secret",
    "check_id",
    "check_limit",
    "check_text",
    "clean_text",
    "is_clean",
    "is_id",
    "register_secret",
]
