"""Every exception windlass raises, sorted by what the reader does next.

Law 1. Foreign exceptions are mapped where they enter; above that door only this tree exists.
Law 2. A message names the thing, what was found and what was wanted; never a payload or a secret.
Law 3. A refusal by the model, a cancelled turn, a spent limit are outcomes, not errors.

    WindlassError
    ├─ CallerError            the call is wrong; fix the call
    │  ├─ InvalidInput           a value that cannot be accepted
    │  ├─ LimitExceeded          a value over a limit of guards/limits
    │  ├─ UnknownSession
    │  ├─ SessionDeleted
    │  ├─ SessionParked          the session waits for an answer first
    │  ├─ IdempotencyConflict    a known id with other content
    │  ├─ NoOutput               the turn ended without the output asked for
    │  │  ├─ ProcessFailed          the process ended without a value
    │  │  └─ ProcessCancelled       the process was cancelled
    │  ├─ ProcessEnded           the process has ended and takes nothing more
    │  └─ ConfigError            refused when built, never while running
    ├─ ReplayError            code and journal disagree; a person decides
    │  ├─ ReplayMismatch
    │  ├─ JournalCorrupt
    │  └─ FormatUnsupported
    ├─ StoreError             the rows could not be read or written
    │  ├─ StoreContended         the same call again is safe, at once
    │  ├─ StoreUnavailable       the same call again is safe, later
    │  ├─ HeadMoved              load the session again, then decide
    │  ├─ LeaseLost              another worker owns the session; stop at once
    │  └─ TurnCancelled          the turn was cancelled; end it as cancelled
    ├─ ProviderError          the model's side
    │  ├─ Throttled
    │  ├─ Unavailable
    │  ├─ Rejected
    │  └─ Malformed
    ├─ ToolError              told to the model as a result, not raised to the host
    │  ├─ ArgsInvalid
    │  ├─ ToolFailed
    │  ├─ ToolTimeout
    │  ├─ ToolDenied
    │  └─ ToolUncertain          it may or may not have acted
    │     └─ StepUnknown            raised in a process whose step was cut off
    ├─ PluginError
    ├─ EngineError
    ├─ NetworkError           another host did not answer, or not as it should
    ├─ GuardError             refused by a guard
    │  ├─ EgressDenied
    │  ├─ PathDenied
    │  ├─ Unauthenticated
    │  └─ Forbidden
    └─ WindlassBug            an invariant broke; nothing more is written; please report it

Length: the tree is one promise, and is read as a whole.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Self


class Retry(StrEnum):
    """What repeating the very same call would do."""

    NEVER = "never"
    SAME = "same"
    LATER = "later"
    RELOAD = "reload"


class WindlassError(Exception):
    """Root of the tree: catch it and you have caught everything windlass raises.

    `field`, `found` and `wanted` say where it went wrong, when there is such a place.

    Attributes:
        message: What went wrong and what to do next, in one line.
        field: Where it went wrong, as a path such as `input[0]`; None without such a place.
        found: What was there; a kind or a size, never a payload.
        wanted: What should have been there.
    """

    code: ClassVar[str] = "windlass_error"
    retry: ClassVar[Retry] = Retry.NEVER
    status: ClassVar[int] = 500

    def __init__(
        self,
        message: str = "",
        *,
        field: str | None = None,
        found: object = None,
        wanted: object = None,
    ) -> None:
        super().__init__(message or self.code)
        self.field = field
        self.found = found
        self.wanted = wanted

    @classmethod
    def at(cls, field: str, found: object, wanted: object) -> Self:
        """Return the error for a field that holds something else than what was wanted there.

        `found` and `wanted` go into the message as they are: pass a kind or a size, not a payload.

        Args:
            field: Where it went wrong, as a path such as `input[0]`.
            found: What was there; a kind or a size, never a payload.
            wanted: What should have been there.
        """
        message = f"{field}: found {found}, wanted {wanted}"
        return cls(message, field=field, found=found, wanted=wanted)


class CallerError(WindlassError):
    """The call is wrong; fix the call."""

    code = "caller_error"
    status = 400


class InvalidInput(CallerError, ValueError):
    """A value that cannot be accepted; `field` is the path to it.

    Also a ValueError, which is what Python calls it; decoders then add the path to where it arose.
    """

    code = "invalid_input"


class LimitExceeded(CallerError, ValueError):
    """A value over its limit; `wanted` is the limit, `found` the size."""

    code = "limit_exceeded"
    status = 413


class UnknownSession(CallerError):
    """No such session is visible to this caller."""

    code = "unknown_session"
    status = 404


class SessionDeleted(CallerError):
    """The session was deleted; its id is not used again."""

    code = "session_deleted"
    status = 410


class SessionParked(CallerError):
    """The session waits for answers; `waits` lists them."""

    code = "session_parked"
    status = 409

    def __init__(self, message: str = "", *, waits: tuple[Any, ...] = (), **place: Any) -> None:
        super().__init__(message, **place)
        self.waits = waits


class IdempotencyConflict(CallerError):
    """This id was already given with other content."""

    code = "idempotency_conflict"
    status = 409


class NoOutput(CallerError):
    """The turn ended without the output asked for; the message names the outcome."""

    code = "no_output"
    status = 409


class ProcessFailed(NoOutput):
    """A process ended without a value; the message says why."""

    code = "process_failed"


class ProcessCancelled(NoOutput):
    """A process was cancelled; the message has the reason."""

    code = "process_cancelled"


class ProcessEnded(CallerError):
    """A process has ended: what was sent to it was not accepted."""

    code = "process_ended"
    status = 409


class ConfigError(CallerError):
    """Refused when built, never while running."""

    code = "config_error"
    status = 500


class ReplayError(WindlassError):
    """Code and journal disagree; a person decides."""

    code = "replay_error"


class ReplayMismatch(ReplayError):
    """The journal holds another request under this key; `diff` shows where they part."""

    code = "replay_mismatch"
    status = 409

    def __init__(
        self, message: str = "", *, key: str = "", diff: tuple[Any, ...] = (), **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.key = key
        self.diff = diff


class JournalCorrupt(ReplayError):
    """A stored row is not what was written."""

    code = "journal_corrupt"


class FormatUnsupported(ReplayError):
    """A payload of a format that this release does not know."""

    code = "format_unsupported"
    status = 501


class StoreError(WindlassError):
    """The rows could not be read or written."""

    code = "store_error"
    retry = Retry.LATER
    status = 503


class StoreContended(StoreError):
    """Another writer was in the way; nothing was written."""

    code = "store_contended"
    retry = Retry.SAME


class StoreUnavailable(StoreError):
    """The store cannot be reached or cannot write now."""

    code = "store_unavailable"


class HeadMoved(StoreError):
    """The session moved on since it was loaded; nothing was written."""

    code = "head_moved"
    retry = Retry.RELOAD
    status = 409


class LeaseLost(StoreError):
    """Another worker owns the session now; this one must stop."""

    code = "lease_lost"
    retry = Retry.NEVER
    status = 409


class TurnCancelled(StoreError):
    """The turn was cancelled: nothing more is claimed in it, and it can only end as cancelled."""

    code = "turn_cancelled"
    retry = Retry.NEVER
    status = 409


class ProviderError(WindlassError):
    """The model's side failed."""

    code = "provider_error"
    status = 502


class Throttled(ProviderError):
    """Too many requests; `retry_after_s` is how long the provider asks to wait, if it says so."""

    code = "throttled"
    retry = Retry.LATER
    status = 429

    def __init__(
        self, message: str = "", *, retry_after_s: float | None = None, **place: Any
    ) -> None:
        super().__init__(message, **place)
        self.retry_after_s = retry_after_s


class Unavailable(ProviderError):
    """The provider did not answer, or not to the end."""

    code = "unavailable"
    retry = Retry.LATER
    status = 503


class Rejected(ProviderError):
    """The provider refused this request and will refuse it again."""

    code = "rejected"


class Malformed(ProviderError):
    """The provider answered something that is not in its own protocol."""

    code = "malformed"


class ToolError(WindlassError):
    """Told to the model as a result. `not_started` promises that nothing was done yet.

    Attributes:
        message: What the model reads as the result of the call.
        not_started: True promises that nothing was done yet, so that even a `once` tool may be tried again.
        place: `field`, `found` and `wanted`, as for every error here.
    """

    code = "tool_error"

    def __init__(self, message: str = "", *, not_started: bool = False, **place: Any) -> None:
        super().__init__(message, **place)
        self.not_started = not_started


class ArgsInvalid(ToolError):
    """The model's arguments do not fit the tool's schema; the body did not run."""

    code = "args_invalid"
    status = 422


class ToolFailed(ToolError):
    """The body raised."""

    code = "tool_failed"


class ToolTimeout(ToolError):
    """The body did not return in time; it may still have acted."""

    code = "tool_timeout"
    status = 504


class ToolDenied(ToolError):
    """Policy or a person said no; the body did not run."""

    code = "tool_denied"
    status = 403


class ToolUncertain(ToolError):
    """It is not known whether the body acted."""

    code = "tool_uncertain"


class StepUnknown(ToolUncertain):
    """A step of a process began before a crash and has no result: it is not known whether it acted."""

    code = "step_unknown"


class PluginError(WindlassError):
    """A plugin failed; the message names it."""

    code = "plugin_error"


class EngineError(WindlassError):
    """The engine that drives turns failed."""

    code = "engine_error"
    retry = Retry.LATER
    status = 503


class NetworkError(WindlassError):
    """Another host did not answer, or not as it should: `windlass.net` raises it, and names the host."""

    code = "network_error"
    retry = Retry.LATER
    status = 502


class GuardError(WindlassError):
    """Refused by a guard."""

    code = "guard_error"
    status = 403


class EgressDenied(GuardError):
    """This address may not be called. `rule` says which rule refuses it, such as `private-address`."""

    code = "egress_denied"

    def __init__(self, message: str = "", *, rule: str = "", host: str = "", **place: Any) -> None:
        super().__init__(message, **place)
        self.rule = rule
        self.host = host


class PathDenied(GuardError):
    """This path may not be opened."""

    code = "path_denied"


class Unauthenticated(GuardError):
    """The caller is not signed in."""

    code = "unauthenticated"
    status = 401


class Forbidden(GuardError):
    """The caller is signed in and may not do this."""

    code = "forbidden"


class WindlassBug(WindlassError):
    """An invariant of windlass broke. Nothing more is written; please report it."""

    code = "windlass_bug"
