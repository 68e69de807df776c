"""The plugins of an agent together: what cannot be told apart, called or agreed on is refused, with its field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from windlass import Agent, Runtime, tool
from windlass.errors import ConfigError
from windlass.ports.plugin import HOOKS, Plugin
from windlass.ports.policy import Allow
from windlass.runtime.plugin_set import PluginSet, name_of
from windlass.testing import ScriptedModel


class Silent(Plugin):
    """Has no hooks."""


class TwoWords(Plugin):
    async def before_turn(self, turn: object) -> None: ...


class Presenter(Plugin):
    async def present_result(self, turn: object, call: object) -> None: ...


class OtherPresenter(Plugin):
    name = "other"

    async def present_result(self, turn: object, call: object) -> None: ...


class NotAwaited(Plugin):
    def before_tool(self, turn: object, call: object) -> None: ...  # type: ignore[override]  # that is the fault


class AwaitedPreview(Plugin):
    async def on_stream(self, turn: object, chunk: object) -> None: ...  # type: ignore[override]  # that is the fault


class BadName(Plugin):
    name = "no spaces, please"


class Numbered(Plugin):
    version = 1  # type: ignore[assignment]  # that is the fault


class LateTools(Plugin):
    async def tools(self) -> None: ...  # type: ignore[override]  # that is the fault


class Misspelt(Plugin):
    async def before_tools(self, turn: object, call: object) -> None: ...


class OwnMethods(Plugin):
    """Has methods that no hook is called like."""

    async def on_reload(self) -> None: ...
    async def close(self) -> None: ...
    def views(self) -> None: ...


class OneTool(Plugin):
    name = "handy"

    def __init__(self, given: Any) -> None:  # noqa: ANN401 - whatever a plugin gives
        self._given = given

    def tools(self) -> Any:  # noqa: ANN401 - the same
        return self._given


def of_agent(plugins: list[Any]) -> None:
    Agent("a", model=ScriptedModel([]), plugins=plugins)


def of_runtime(plugins: list[Any]) -> None:
    Runtime(Agent("a", model=ScriptedModel([])), store="memory:", plugins=plugins)


WRONG = [
    pytest.param([Silent], "[0]", "found Silent, wanted a Plugin; a class has to be called first", id="class"),
    pytest.param([object()], "[0]", "found object, wanted a Plugin", id="no plugin"),
    pytest.param([Silent(), NotAwaited()], "[1].before_tool", "has to be written with async def", id="sync hook"),
    pytest.param([AwaitedPreview()], "[0].on_stream", "has to be written with def", id="async preview"),
    pytest.param([LateTools()], "[0].tools", "has to be written with def", id="async tools"),
    pytest.param([Misspelt()], "[0].before_tools", "wanted the hook before_tool or another", id="typo"),
    pytest.param([BadName()], "[0].name", "found 'no spaces, please'", id="name"),
    pytest.param([Numbered()], "[0].version", 'found int, wanted clean text, such as "1"', id="version"),
    pytest.param([Silent(), Silent()], "", "found two plugins called silent", id="twice"),
    pytest.param(
        [Presenter(), OtherPresenter()], "", "found present_result in presenter and other", id="two owners"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("plugins", "at", "says"), WRONG)
@pytest.mark.parametrize(
    ("make", "field"), [(of_agent, "Agent.plugins"), (of_runtime, "Runtime.plugins")]
)
def test_what_is_no_set_of_plugins_is_refused_and_the_field_is_named(
    make: Callable[[list[Any]], None], field: str, plugins: list[Any], at: str, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        make(plugins)

    assert refused.value.field == f"{field}{at}"
    assert str(refused.value).startswith(f"{field}{at}" if "." not in at or "name" in at else field)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("own", "brought", "says"),
    [
        ([Silent()], [Silent()], "found two plugins called silent"),
        ([Presenter()], [OtherPresenter()], "found present_result in other and presenter"),
    ],
    ids=["name", "owner"],
)
def test_an_agent_and_its_runtime_may_not_disagree(
    own: list[Plugin], brought: list[Plugin], says: str
) -> None:
    agent = Agent("a", model=ScriptedModel([]), plugins=own)

    with pytest.raises(ConfigError, match=says):
        Runtime(agent, store="memory:", plugins=brought)


@pytest.mark.parametrize("given", [None, 5, Silent(), {"silent": Silent()}])
def test_plugins_come_in_a_list(given: Any) -> None:  # noqa: ANN401 - whatever somebody gives
    with pytest.raises(ConfigError, match="plugins"):
        of_agent(given)
    with pytest.raises(ConfigError, match="plugins"):
        of_runtime(given)


def test_a_plugin_without_a_name_is_called_by_its_class() -> None:
    assert name_of(TwoWords()) == "two_words"
    assert name_of(OtherPresenter()) == "other"


def test_a_hook_that_nobody_has_costs_nothing_and_those_who_have_it_stand_in_order() -> None:
    one, two, three = Presenter(), TwoWords(), Silent()
    plugins = PluginSet([one, two, three])

    assert {hook: plugins.having(hook) for hook in HOOKS if plugins.having(hook)} == {
        "present_result": (one,),
        "before_turn": (two,),
    }
    assert plugins.names == ("presenter", "two_words", "silent")
    assert (len(plugins), bool(plugins), bool(PluginSet())) == (3, True, False)


def test_of_a_set_only_those_that_a_turn_began_with_are_asked() -> None:
    plugins = PluginSet([Presenter(), TwoWords(), Silent()])
    some = plugins.only(("two_words", "silent"))

    assert some.names == ("two_words", "silent")
    assert some.having("present_result") == ()
    assert plugins.only(plugins.names) is plugins
    assert plugins.only(("two_words", "silent")) is some  # made once


def undescribed(port: type) -> set[str]:
    """Return the hooks that a port declares and the table lacks, and the other way round."""
    own = {name for name in vars(port) if not name.startswith("_")}
    # What a plugin is and brings, and how it divides its account: no hooks, for they decide nothing in a turn.
    return {*HOOKS} ^ (own - {"name", "version", "tools", "allot"})


def test_the_table_of_hooks_has_every_hook_of_the_port_and_no_other() -> None:
    class WithOneMore:
        """Declares a hook that the table lacks."""

    for name, hook in vars(Plugin).items():
        if not name.startswith("_"):
            setattr(WithOneMore, name, hook)
    assert undescribed(WithOneMore) == set()
    WithOneMore.on_sunrise = None  # type: ignore[attr-defined]  # that is the fault

    assert undescribed(WithOneMore) == {"on_sunrise"}
    assert undescribed(Plugin) == set()


@pytest.mark.parametrize("hook", HOOKS)
def test_the_table_of_hooks_allows_what_a_hook_is_declared_to_answer(hook: str) -> None:
    declared = get_type_hints(getattr(Plugin, hook))["return"]
    kinds = {*(get_args(declared) or (declared,))} - {type(None)}
    lists = {kind for kind in kinds if get_origin(kind) is Sequence}

    assert {*HOOKS[hook].answers} == kinds - lists
    assert [HOOKS[hook].each] == ([get_args(kind)[0] for kind in lists] or [None])


@pytest.mark.parametrize(
    ("hooks", "looks"),
    [
        ([], ()),
        (["before_turn", "before_model", "before_tool", "at_checkpoint"], ()),
        (["after_model"], ("model",)),
        (["after_tool"], ("tools",)),
        (["present_result"], ("tools",)),
        (["on_error"], ("tools",)),
        (["after_tool", "after_model", "on_error"], ("model", "tools")),
    ],
)
def test_a_set_says_what_its_hooks_look_at(hooks: list[str], looks: tuple[str, ...]) -> None:
    async def silent(_self: Plugin, _turn: object, _seen: object = None) -> None: ...

    plugin: Plugin = type("Looking", (Plugin,), dict.fromkeys(hooks, silent))()

    assert PluginSet([plugin]).looks == looks


@tool(effect="pure")
def hammer() -> None:
    """Hit something."""


@pytest.mark.parametrize("given", [5, None, hammer], ids=["number", "nothing", "tool"])
def test_tools_of_a_plugin_come_in_a_list(given: object) -> None:
    with pytest.raises(ConfigError, match="tools of the plugin handy: found"):
        of_runtime([OneTool(given)])


@pytest.mark.parametrize("version", [1, None, "a\x00"])
def test_the_version_of_a_policy_is_text(version: Any) -> None:  # noqa: ANN401 - whatever is given
    class Policy:
        def __init__(self) -> None:
            self.version = version

        def decide(self, call: object, session: object) -> Allow: ...  # type: ignore[empty-body]  # not asked

    with pytest.raises(ConfigError) as caught:
        Agent("a", model=ScriptedModel([]), policy=Policy())
    assert caught.value.field == "Agent.policy.version"


def test_a_plugin_may_have_methods_of_its_own() -> None:
    of_agent([OwnMethods()])
