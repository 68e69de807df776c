"""What a plugin's options may be, and that a refusal names the option."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from windlass.errors import ConfigError
from windlass.plugins import options


@pytest.mark.parametrize(
    ("check", "found", "message"),
    [
        (options.whole, -1, "F: found -1, wanted a whole number of 0 or more"),
        (options.whole, True, "F: found bool, wanted a whole number of 0 or more"),
        (options.whole, 2.0, "F: found 2.0, wanted a whole number of 0 or more"),
        (options.whole, "3", "F: found str, wanted a whole number of 0 or more"),
        (options.words, "", "F: found str, wanted text that is not empty"),
        (options.words, " \n", "F: found str, wanted text that is not empty"),
        (options.words, "a\x00", "F: found str, wanted text that is not empty"),
        (options.words, None, "F: found NoneType, wanted text that is not empty"),
        (options.tool_names, "pay", "F: found str, wanted a list of tools' names"),
        (options.tool_names, ["pay", 3], "F: found list, wanted a list of tools' names"),
        (options.tool_names, {"pay": 1}, "F: found dict, wanted a list of tools' names"),
        (options.by_tool, [("pay", 1)], "F: found list, wanted a mapping from tools' names"),
        (options.by_tool, {"two words": 1}, "F: found dict, wanted a mapping from tools' names"),
    ],
)
def test_what_is_refused_is_told_by_field(
    check: Callable[..., Any], found: object, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check(found, field="F")

    assert str(refused.value) == message
    assert refused.value.field == "F"


@pytest.mark.parametrize(
    ("found", "message"),
    [("c", "F: found c, wanted a or b"), (3, "F: found int, wanted a or b")],
)
def test_a_word_that_is_no_choice_is_told_with_the_choices(found: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        options.choice(found, ("a", "b"), field="F")

    assert str(refused.value) == message


def test_what_fits_is_returned() -> None:
    assert options.whole(3, field="F", low=3) == 3
    assert options.choice("b", ("a", "b"), field="F") == "b"
    assert options.words("Hm. ", field="F") == "Hm. "
    assert options.tool_names(["pay", "find", "pay"], field="F") == {"pay", "find"}
    assert options.by_tool(None, field="F") == {}
    assert options.by_tool({"pay": 1}, field="F") == {"pay": 1}
