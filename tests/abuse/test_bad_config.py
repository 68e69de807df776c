"""Settings of a turn that could not run: refused when they are built, by exact class and field."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import pytest

from tests.kernel.refusals import refused
from windlass.errors import InvalidInput, LimitExceeded, WindlassError
from windlass.kernel import (
    Generation,
    Message,
    StandardDriver,
    Text,
    ToolSpec,
    TurnConfig,
    TurnMachine,
    Usage,
)

# Whatever the types say should not be there.
Junk: TypeAlias = Any


def config(**changes: Any) -> TurnConfig:
    settings: dict[str, Any] = {"model": "m", "session_id": "s", "turn_id": "t"}
    return TurnConfig(driver=StandardDriver(), **(settings | changes))


SPEC = ToolSpec(name="add")
CONFIGS: list[tuple[dict[str, Any], str, type[WindlassError]]] = [
    ({"max_iterations": -1}, "TurnConfig.max_iterations", InvalidInput),
    ({"max_iterations": True}, "TurnConfig.max_iterations", InvalidInput),
    ({"max_iterations": 1.5}, "TurnConfig.max_iterations", InvalidInput),
    ({"max_iterations": "3"}, "TurnConfig.max_iterations", InvalidInput),
    ({"max_iterations": math.nan}, "TurnConfig.max_iterations", InvalidInput),
    ({"max_context_tokens": -1}, "TurnConfig.max_context_tokens", InvalidInput),
    ({"model": 5}, "TurnConfig.model", InvalidInput),
    ({"model": "a\x00"}, "TurnConfig.model", InvalidInput),
    ({"system_prompt": None}, "TurnConfig.system_prompt", InvalidInput),
    ({"system_prompt": "a\ud800"}, "TurnConfig.system_prompt", InvalidInput),
    ({"tools": (SPEC, SPEC)}, "TurnConfig.tools", InvalidInput),
    ({"tools": [SPEC, ToolSpec(name="b"), SPEC]}, "TurnConfig.tools", InvalidInput),
    ({"tools": tuple(ToolSpec(name=f"t{n}") for n in range(513))}, "TurnConfig.tools", LimitExceeded),
    ({"tools": ("add",)}, "TurnConfig.tools", InvalidInput),
    ({"tools": 5}, "TurnConfig.tools", InvalidInput),
    ({"model_variant": "a\x00"}, "TurnConfig.model_variant", InvalidInput),
    ({"turn_limit_message": "a\x00"}, "TurnConfig.turn_limit_message", InvalidInput),
    ({"generation": {"temperature": 1}}, "TurnConfig.generation", InvalidInput),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "field", "kind"), CONFIGS, ids=[repr(row[0])[:40] for row in CONFIGS]
)
def test_a_bad_configuration_is_refused_by_field(
    changes: dict[str, Any], field: str, kind: type[WindlassError]
) -> None:
    error = refused(lambda: config(**changes), kind)
    assert error.field is not None
    assert error.field.startswith(field)


GENERATIONS: list[tuple[dict[str, Any], type[WindlassError]]] = [
    ({"temperature": "hot"}, InvalidInput),
    ({"temperature": -1}, InvalidInput),
    ({"temperature": 1e9}, InvalidInput),
    ({"temperature": math.nan}, InvalidInput),
    ({"temperature": math.inf}, InvalidInput),
    ({"temperature": True}, InvalidInput),
    ({"temperature": 2.0000001}, InvalidInput),
    ({"top_p": -0.1}, InvalidInput),
    ({"top_p": 1.1}, InvalidInput),
    ({"max_output_tokens": 0}, InvalidInput),
    ({"max_output_tokens": 2**63}, InvalidInput),
    ({"max_output_tokens": 1.5}, InvalidInput),
    ({"stop": ("x",) * 10_000}, LimitExceeded),
    ({"stop": ["x"] * 17}, LimitExceeded),
    ({"stop": "END"}, InvalidInput),
    ({"stop": ("a\x00",)}, InvalidInput),
    ({"stop": (5,)}, InvalidInput),
    ({"seed": "lucky"}, InvalidInput),
]


@pytest.mark.parametrize(
    ("fields", "kind"), GENERATIONS, ids=[repr(row[0])[:40] for row in GENERATIONS]
)
def test_what_every_provider_would_refuse_is_refused_before_any_network(
    fields: dict[str, Any], kind: type[WindlassError]
) -> None:
    """Case 28."""
    (name,) = fields
    error = refused(lambda: Generation(**fields), kind)
    assert error.field is not None
    assert error.field.startswith(f"Generation.{name}")


@pytest.mark.parametrize("count", [-1, -(2**70), "3", None, 1.5, math.nan])
def test_a_count_that_no_provider_can_mean_is_refused(count: Junk) -> None:
    """Case 48."""
    assert "Usage" in str(refused(lambda: Usage(input_tokens=count)))


def test_values_at_their_limits_are_accepted() -> None:
    at_limit = Generation(temperature=2, top_p=1, max_output_tokens=2**63 - 1, stop=("x",) * 16)
    tools = tuple(ToolSpec(name=f"t{n}") for n in range(512))
    machine = TurnMachine(
        config(generation=at_limit, tools=tools, max_iterations=0, max_context_tokens=0),
        (Message(id="a" * 128, role="user", parts=(Text(text="x"),) * 256),),
    )
    assert machine.state == "preparing"
