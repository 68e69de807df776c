"""The exception tree is a promise: class, parent, code, retry and status are written here by hand."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

import pytest

from windlass import errors


class Row(NamedTuple):
    name: str
    parent: str
    code: str
    retry: str
    status: int


TREE = [
    Row("WindlassError", "Exception", "windlass_error", "never", 500),
    Row("CallerError", "WindlassError", "caller_error", "never", 400),
    Row("InvalidInput", "CallerError", "invalid_input", "never", 400),
    Row("LimitExceeded", "CallerError", "limit_exceeded", "never", 413),
    Row("UnknownSession", "CallerError", "unknown_session", "never", 404),
    Row("SessionDeleted", "CallerError", "session_deleted", "never", 410),
    Row("SessionParked", "CallerError", "session_parked", "never", 409),
    Row("IdempotencyConflict", "CallerError", "idempotency_conflict", "never", 409),
    Row("NoOutput", "CallerError", "no_output", "never", 409),
    Row("ProcessFailed", "NoOutput", "process_failed", "never", 409),
    Row("ProcessCancelled", "NoOutput", "process_cancelled", "never", 409),
    Row("ProcessEnded", "CallerError", "process_ended", "never", 409),
    Row("ConfigError", "CallerError", "config_error", "never", 500),
    Row("ReplayError", "WindlassError", "replay_error", "never", 500),
    Row("ReplayMismatch", "ReplayError", "replay_mismatch", "never", 409),
    Row("JournalCorrupt", "ReplayError", "journal_corrupt", "never", 500),
    Row("FormatUnsupported", "ReplayError", "format_unsupported", "never", 501),
    Row("StoreError", "WindlassError", "store_error", "later", 503),
    Row("StoreContended", "StoreError", "store_contended", "same", 503),
    Row("StoreUnavailable", "StoreError", "store_unavailable", "later", 503),
    Row("HeadMoved", "StoreError", "head_moved", "reload", 409),
    Row("LeaseLost", "StoreError", "lease_lost", "never", 409),
    Row("TurnCancelled", "StoreError", "turn_cancelled", "never", 409),
    Row("ProviderError", "WindlassError", "provider_error", "never", 502),
    Row("Throttled", "ProviderError", "throttled", "later", 429),
    Row("Unavailable", "ProviderError", "unavailable", "later", 503),
    Row("Rejected", "ProviderError", "rejected", "never", 502),
    Row("Malformed", "ProviderError", "malformed", "never", 502),
    Row("ToolError", "WindlassError", "tool_error", "never", 500),
    Row("ArgsInvalid", "ToolError", "args_invalid", "never", 422),
    Row("ToolFailed", "ToolError", "tool_failed", "never", 500),
    Row("ToolTimeout", "ToolError", "tool_timeout", "never", 504),
    Row("ToolDenied", "ToolError", "tool_denied", "never", 403),
    Row("ToolUncertain", "ToolError", "tool_uncertain", "never", 500),
    Row("StepUnknown", "ToolUncertain", "step_unknown", "never", 500),
    Row("PluginError", "WindlassError", "plugin_error", "never", 500),
    Row("EngineError", "WindlassError", "engine_error", "later", 503),
    Row("NetworkError", "WindlassError", "network_error", "later", 502),
    Row("GuardError", "WindlassError", "guard_error", "never", 403),
    Row("EgressDenied", "GuardError", "egress_denied", "never", 403),
    Row("PathDenied", "GuardError", "path_denied", "never", 403),
    Row("Unauthenticated", "GuardError", "unauthenticated", "never", 401),
    Row("Forbidden", "GuardError", "forbidden", "never", 403),
    Row("WindlassBug", "WindlassError", "windlass_bug", "never", 500),
]

BRANCH = re.compile(r"^(?P<indent>[ │]*)(?:[├└]─ )(?P<name>\w+)")


def exception_classes() -> dict[str, type[errors.WindlassError]]:
    return {
        name: value
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, errors.WindlassError)
    }


def drawn_tree(docstring: str) -> dict[str, str]:
    """Read class → parent back from the drawing in the module docstring."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in docstring.splitlines():
        if line.strip() == "WindlassError":
            path = [(-1, "WindlassError")]
        elif path and (match := BRANCH.match(line)):
            depth, name = len(match["indent"]), match["name"]
            while path[-1][0] >= depth:
                path.pop()
            parents[name] = path[-1][1]
            path.append((depth, name))
    return parents


def test_the_tree_holds_these_classes_and_no_others() -> None:
    assert {row.name for row in TREE} == set(exception_classes())


def test_every_exception_of_the_module_is_in_the_tree() -> None:
    exceptions = {
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, BaseException)
    }

    assert exceptions == set(exception_classes())


@pytest.mark.parametrize("row", TREE, ids=lambda row: row.name)
def test_a_class_keeps_its_parent_code_retry_and_status(row: Row) -> None:
    cls = exception_classes()[row.name]

    assert row == Row(cls.__name__, cls.__bases__[0].__name__, cls.code, cls.retry, cls.status)
    # A builtin may stand beside the parent (ValueError), a second branch of the tree may not.
    assert [base for base in cls.__bases__[1:] if issubclass(base, errors.WindlassError)] == []


def test_every_code_is_unique_and_in_snake_case() -> None:
    codes = [cls.code for cls in exception_classes().values()]

    assert len(codes) == len(set(codes))
    assert [code for code in codes if not re.fullmatch(r"[a-z]+(_[a-z]+)*", code)] == []


def test_retry_is_one_of_four_words_and_status_an_error_status() -> None:
    classes = exception_classes().values()

    assert {cls.retry for cls in classes} <= {"never", "same", "later", "reload"}
    assert all(type(cls.status) is int and 400 <= cls.status < 600 for cls in classes)


@pytest.mark.parametrize("row", TREE, ids=lambda row: row.name)
def test_every_class_says_what_it_means(row: Row) -> None:
    own = exception_classes()[row.name].__dict__.get("__doc__")

    assert own


def test_the_drawing_at_the_top_is_the_tree() -> None:
    drawn = drawn_tree(errors.__doc__ or "")

    assert drawn == {row.name: row.parent for row in TREE if row.name != "WindlassError"}
