"""Every limit: a value at it passes, one more does not, and the refusal names both numbers."""

from __future__ import annotations

import msgspec
import pytest

from windlass.errors import LimitExceeded
from windlass.guards import INPUT_LIMITS, InputLimits, check_limit

KIB = 1024
MIB = 1024 * 1024
TABLE = {
    "attachment_bytes": 64 * MIB,
    "attachments_per_turn": 32,
    "calls_per_reply": 128,
    "cron_chars": 256,
    "header_block_bytes": 16 * KIB,
    "history_page": 1_000,
    "id_chars": 128,
    "input_text_bytes": MIB,
    "json_depth": 64,
    "json_keys": 1_024,
    "json_integer_bits": 14_000,
    "metadata_bytes": 16 * KIB,
    "parts_per_message": 256,
    "request_body_bytes": 4 * MIB,
    "schema_bytes": 64 * KIB,
    "server_event_bytes": MIB,
    "stop_sequences": 16,
    "tool_args_bytes": 256 * KIB,
    "tool_name_chars": 64,
    "tool_result_bytes": MIB,
    "tools": 512,
}


def test_the_table_is_the_one_that_was_agreed() -> None:
    assert msgspec.structs.asdict(INPUT_LIMITS) == TABLE


@pytest.mark.parametrize("name", TABLE)
def test_a_value_up_to_its_limit_passes(name: str) -> None:
    for found in (0, 1, TABLE[name] - 1, TABLE[name]):
        check_limit(name, found, field="f")


@pytest.mark.parametrize("name", TABLE)
def test_one_more_and_ten_times_as_much_are_refused(name: str) -> None:
    limit = TABLE[name]
    for found in (limit + 1, 10 * limit):
        with pytest.raises(LimitExceeded) as refused:
            check_limit(name, found, field="Thing.part")
        assert (
            refused.value.field,
            refused.value.found,
            refused.value.wanted,
        ) == ("Thing.part", found, limit)
        assert str(refused.value) == f"Thing.part: {name} is {found:,}, the limit is {limit:,}"


def test_a_limit_may_be_set_otherwise() -> None:
    strict = InputLimits(tools=1)

    check_limit("tools", 1, field="f", limits=strict)
    with pytest.raises(LimitExceeded) as refused:
        check_limit("tools", 2, field="f", limits=strict)
    assert refused.value.wanted == 1
    check_limit("tools", 2, field="f")


def test_a_limit_of_zero_lets_nothing_through() -> None:
    none = InputLimits(tools=0)

    check_limit("tools", 0, field="f", limits=none)
    with pytest.raises(LimitExceeded):
        check_limit("tools", 1, field="f", limits=none)


def test_a_limit_that_is_not_in_the_table_is_a_mistake() -> None:
    with pytest.raises(AttributeError):
        check_limit("colours", 1, field="f")


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        INPUT_LIMITS.tools = 1  # type: ignore[misc] # what is tried


@pytest.mark.parametrize("name", TABLE)
def test_every_limit_is_a_whole_number_above_zero(name: str) -> None:
    assert TABLE[name] > 0
