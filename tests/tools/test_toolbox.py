"""Tools that are offered together."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.errors import ConfigError
from windlass.guards.limits import INPUT_LIMITS
from windlass.journal import ToolContract
from windlass.kernel.tool_call import ToolSpec
from windlass.tools import DynamicTool, Toolbox, tool


def read() -> None: ...


def write() -> None: ...


class Elsewhere:
    @staticmethod
    def read() -> None: ...


READ = tool(read, effect="pure")
WRITE = tool(write)


def test_tools_are_found_by_name_and_keep_their_order() -> None:
    box = Toolbox([WRITE, READ])

    assert box.get("read") is READ
    assert box.get("nothing") is None
    assert list(box) == [WRITE, READ]
    assert len(box) == 2
    assert "read" in box
    assert box.specs == (WRITE.spec, READ.spec)


def test_only_tools_that_are_always_exposed_are_offered() -> None:
    hidden = tool(read, expose="hidden")
    deferred = tool(write, expose="deferred")
    box = Toolbox([hidden, deferred])

    assert [spec.name for spec in box.specs] == ["find_tools"]
    assert box.get("read") is hidden
    assert [contract.tool for contract in box.contracts()] == ["read", "write", "find_tools"]


def test_contracts_are_what_a_turn_records() -> None:
    assert Toolbox([READ, WRITE]).contracts() == (
        ToolContract(tool="read", effect="pure", version=READ.version),
        ToolContract(tool="write", effect="once", version=WRITE.version),
    )


def test_two_tools_of_one_name_are_refused_and_both_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        Toolbox([READ, WRITE, tool(Elsewhere.read)])

    message = str(caught.value)
    assert message.startswith("tools[2]: found a second tool named read (<tool read of ")
    assert "Elsewhere.read>), the first is tools[0] (" in message
    assert f"{__name__}.read>), wanted each name once" in message


@pytest.mark.parametrize("given", [read, "read", 7, None, ToolSpec(name="read"), DynamicTool])
def test_what_is_no_tool_is_refused_by_place(given: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(ConfigError, match=r"tools\[1\]: found .*, wanted a tool"):
        Toolbox([READ, given])


@pytest.mark.parametrize("given", ["read", 7, None])
def test_what_is_no_list_is_refused(given: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(ConfigError, match="wanted a list of tools"):
        Toolbox(given)


def test_as_many_tools_as_the_limit_pass_and_one_more_does_not() -> None:
    limit = INPUT_LIMITS.tools
    many = [tool(read, name=f"read_{n}") for n in range(limit + 1)]

    assert len(Toolbox(many[:limit])) == limit
    with pytest.raises(ConfigError, match=f"found {limit + 1} tools, wanted at most {limit}"):
        Toolbox(many)


def test_a_plain_function_is_refused_with_what_to_write_instead() -> None:
    with pytest.raises(ConfigError) as refused:
        Toolbox([READ, write])  # type: ignore[list-item]  # not a tool

    told = (
        "tools[1]: found write, wanted a tool: decorate it with @tool, or write tools=[tool(write)]"
    )
    assert str(refused.value) == told
