"""A function becomes a tool: what it is called, what it takes, how it is declared, what is refused."""

from __future__ import annotations

import functools
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest

from windlass.errors import ConfigError, ToolError
from windlass.kernel.tool_call import ToolSpec
from windlass.ports.tool import Tool, ToolContext, Unknown
from windlass.tools import tool

if typing.TYPE_CHECKING:
    from somewhere import Deps  # type: ignore[import-not-found]
    from somewhere import ToolContext as Hidden

CTX: ToolContext[Any] = ToolContext(deps="the deps", call_id="c1")


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@tool(effect="pure", name="get_url", description="Get it.")
async def fetch(url: str) -> str:
    """Not this."""
    return f"got {url}"


ADD = ToolSpec(
    name="add",
    description="Add two numbers.",
    parameters={
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "integer", "description": "The second.", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    },
)


def test_a_function_is_described_by_its_name_its_docstring_and_its_hints() -> None:
    assert add.spec == ADD


def test_what_is_not_declared_is_the_careful_choice() -> None:
    declared = (
        add.effect, add.approval, add.risk, add.timeout, add.retries, add.sequential,
        add.output_limit, add.expose, add.is_async,
    )  # fmt: skip

    assert declared == ("once", "never", "low", None, 0, False, None, "always", False)


def test_what_a_hint_says_of_its_parameter_goes_before_the_docstring() -> None:
    @tool
    def f(a: typing.Annotated[int, "from the hint"], b: int) -> None:
        """Do.

        Args:
            a: from the docstring
            b: from the docstring
        """

    properties = f.spec.parameters["properties"]
    assert properties["a"]["description"] == "from the hint"
    assert properties["b"]["description"] == "from the docstring"


async def test_a_tool_is_still_the_function_that_it_was() -> None:
    assert add(1) == 3
    assert add(1, b=5) == 6
    assert await fetch("x") == "got x"
    assert add.__name__ == "add"
    assert add.__doc__ is not None
    assert add.__doc__.startswith("Add two numbers.")
    assert fetch.spec == ToolSpec(
        name="get_url",
        description="Get it.",
        parameters={
            "type": "object",
            "properties": {"url": {"type": "string"}},
            "required": ["url"],
            "additionalProperties": False,
        },
    )


async def test_every_form_of_the_decorator_makes_a_tool_that_runs() -> None:
    @tool()
    def one(x: int) -> int:
        return x

    def two(x: int) -> int:
        return x

    made: list[Tool] = [one, tool(two), tool(two, name="three", effect="pure")]

    assert [each.spec.name for each in made] == ["one", "two", "three"]
    assert [await each.run(CTX, each.check({"x": 7})) for each in made] == [7, 7, 7]


def test_the_version_changes_with_the_spec_and_with_the_effect() -> None:
    def fn(x: int) -> None: ...

    def other(x: str) -> None: ...

    versions = [
        tool(fn).version,
        tool(fn, effect="pure").version,
        tool(fn, description="d").version,
        tool(other, name="fn").version,
    ]

    assert len(set(versions)) == 4
    assert tool(fn, risk="high", timeout=3).version == versions[0]
    assert all(len(version) == 16 for version in versions)


# --------------------------------------------------------------------------------- the context


def plain(ctx: ToolContext, x: int) -> tuple[Any, int]:  # type: ignore[type-arg]
    return ctx.deps, x


def generic(context: ToolContext[str], x: int) -> tuple[Any, int]:
    return context.deps, x


def hidden(c: Hidden[Deps], x: int) -> tuple[Any, int]:
    return c.deps, x


def unknown_deps(c: ToolContext[Deps], x: int) -> tuple[Any, int]:
    return c.deps, x


def by_name(*, ctx: ToolContext[str], x: int) -> tuple[Any, int]:
    return ctx.deps, x


def by_place(ctx: ToolContext[str], /, x: int) -> tuple[Any, int]:
    return ctx.deps, x


Alias = ToolContext[str]


def aliased(ctx: Alias, x: int) -> tuple[Any, int]:
    return ctx.deps, x


def quoted(ctx: "ToolContext[Deps]", x: int) -> tuple[Any, int]:  # noqa: UP037 - quoted twice over
    return ctx.deps, x


@pytest.mark.parametrize(
    "fn", [plain, generic, unknown_deps, by_name, by_place, aliased, quoted], ids=lambda fn: fn.__name__
)  # fmt: skip
async def test_the_context_is_given_by_the_turn_and_hidden_from_the_model(
    fn: Callable[..., object],
) -> None:
    made = tool(fn)

    assert made.spec.parameters["properties"] == {"x": {"type": "integer"}}
    assert await made.run(CTX, made.check({"x": 1})) == ("the deps", 1)


def test_a_context_under_another_name_that_cannot_be_evaluated_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"hidden\(c\): found a hint that cannot be evaluated"):
        tool(hidden)


def test_a_context_in_a_later_place_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"f\(ctx\): .*first parameter"):

        @tool
        def f(x: int, ctx: ToolContext[None]) -> None: ...


# ------------------------------------------------------------------------- what can be a tool


class Shop:
    def buy(self, item: str) -> str:
        """Buy it."""
        return f"bought {item}"

    def __call__(self, item: str) -> str:
        return f"called for {item}"


async def test_bound_methods_partials_and_callable_objects_can_be_tools() -> None:
    def send(to: str, key: str) -> str:
        """Send it."""
        return f"{to} {key}"

    bought = tool(Shop().buy)
    called = tool(Shop(), name="shop")
    sent = tool(functools.partial(send, key="secret"))

    assert (bought.name, bought.spec.description) == ("buy", "Buy it.")
    assert await bought.run(CTX, bought.check({"item": "nut"})) == "bought nut"
    assert await called.run(CTX, called.check({"item": "nut"})) == "called for nut"
    assert (sent.name, sent.spec.description) == ("send", "Send it.")
    assert list(sent.spec.parameters["properties"]) == ["to"]
    assert "secret" not in str(sent.spec)
    assert await sent.run(CTX, sent.check({"to": "me"})) == "me secret"


def test_types_that_are_known_only_where_the_tool_is_made_are_found() -> None:
    class Local(typing.TypedDict):
        a: int

    @tool
    def f(x: Local) -> None: ...

    assert f.spec.parameters["properties"]["x"]["properties"] == {"a": {"type": "integer"}}


def unhinted(x) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - the claim
    ...


def half_hinted(x: int, y="a") -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - the claim
    ...


def star(*args: int) -> None: ...


def double_star(**kwargs: int) -> None: ...


def positional(x: int, /) -> None: ...


def generator() -> Any:  # noqa: ANN401 - the claim
    yield 1


async def async_generator() -> Any:  # noqa: ANN401 - the claim
    yield 1


def bad_hint(x: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821 - the claim
    ...


@pytest.mark.parametrize(
    ("fn", "options", "message"),
    [
        (unhinted, {}, "unhinted(x): found no type hint, wanted a type hint"),
        (half_hinted, {}, "half_hinted(y): found no type hint"),
        (Shop.buy, {}, "Shop.buy(self): found no type hint, wanted a type hint; of a method"),
        (star, {}, "star(args): found variadic positional arguments, wanted named parameters"),
        (double_star, {}, "double_star(kwargs): found variadic keyword arguments"),
        (positional, {}, "positional(x): found a positional-only parameter"),
        (generator, {}, "generator: found a generator function"),
        (async_generator, {}, "async_generator: found a generator function"),
        (bad_hint, {}, "bad_hint(x): found a hint that cannot be evaluated (NameError"),
        (lambda: None, {}, "<lambda>: ToolSpec.name: found a name that not every provider takes"),
        (add, {}, "tool add: found a tool already, wanted a function"),
        (int, {}, "tool: found a class, wanted a function"),
        (7, {}, "tool: found int, wanted a function"),
        (generic, {"name": ""}, "generic: ToolSpec.name"),
        (generic, {"name": "a" * 300}, "generic: ToolSpec.name"),
        (generic, {"name": "two words"}, "generic: ToolSpec.name"),
        (generic, {"description": "a\x00"}, "generic: ToolSpec.description: found NUL"),
        (generic, {"effect": "twice"}, "effect: found 'twice', wanted one of: pure, idempotent"),
        (generic, {"effect": None}, "effect: found NoneType"),
        (generic, {"approval": "maybe"}, "approval: found 'maybe', wanted 'never', 'ask' or"),
        (generic, {"approval": lambda: True}, "approval: found another signature"),
        (generic, {"approval": lambda a, b, c: True}, "approval: found another signature"),
        (generic, {"risk": "huge"}, "risk: found 'huge', wanted one of: low, medium, high"),
        (generic, {"timeout": 0}, "timeout: found 0, wanted a finite number"),
        (generic, {"timeout": -1}, "timeout: found -1"),
        (generic, {"timeout": float("nan")}, "timeout: found nan"),
        (generic, {"timeout": float("inf")}, "timeout: found inf"),
        (generic, {"timeout": True}, "timeout: found True"),
        (generic, {"timeout": "5 parsecs"}, "timeout: found '5 parsecs'"),
        (generic, {"effect": "pure", "retries": -1}, "retries: found -1"),
        (generic, {"effect": "pure", "retries": 1.5}, "retries: found 1.5"),
        (generic, {"sequential": 1}, "sequential: found 1, wanted True or False"),
        (generic, {"output_limit": 0}, "output_limit: found 0"),
        (generic, {"expose": "never"}, "expose: found 'never', wanted one of: always"),
        (generic, {"reconcile": 7}, "reconcile: found int, wanted a function"),
        (generic, {"effect": "reconcile"}, "found effect='reconcile' without a function"),
        (generic, {"retries": 1}, "wanted another effect, or not_started_retries=True"),
        (generic, {"color": 1}, "found the option color, wanted one of: effect, approval"),
        (
            generic,
            {"effect": "pure", "reconcile": lambda ctx, args: Unknown()},
            "found reconcile and effect='pure', wanted one of the two",
        ),
        (
            generic,
            {"effect": "once", "reconcile": lambda ctx, args: Unknown()},
            "found reconcile and effect='once', wanted one of the two",
        ),
    ],
)
def test_a_bad_declaration_is_refused_when_it_is_made(
    fn: Callable[..., object], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        tool(fn, **options)

    assert message in str(caught.value)


def test_retries_on_once_are_for_a_body_that_can_say_that_it_did_not_start() -> None:
    @tool(retries=2, not_started_retries=True)
    def pay() -> None:
        raise ToolError("busy", not_started=True)

    assert (pay.effect, pay.retries) == ("once", 2)


def test_importing_tools_does_not_import_pydantic() -> None:
    probe = "import windlass.tools, sys; print(*{'pydantic', 'httpx', 'apsw'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""


def test_a_misspelt_effect_is_told_the_effects_that_one_may_write() -> None:
    with pytest.raises(ConfigError) as refused:
        tool(generic, effect="puer")  # type: ignore[call-overload]  # misspelt on purpose

    assert str(refused.value).endswith("wanted one of: pure, idempotent, keyed, once")
