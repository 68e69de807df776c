"""The pytest plugin: the fixtures `runtime`, `scripted` and `virtual_clock`. pytest finds it by its entry point.

Law 1. Loading it loads nothing of windlass but the names of its errors: it is there in every suite of an environment.
Law 2. It touches only tests that ask for one of its fixtures.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from windlass import Agent, Runtime
    from windlass.models.scripted import ScriptedModel, ScriptLine
    from windlass.testing.clock import VirtualClock

_FIXTURES: Final = ("runtime", "scripted", "virtual_clock")
_SCRIPTS: Final = pytest.StashKey["list[ScriptedModel]"]()


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that stands still until the test calls `virtual_clock.advance(seconds)`."""
    from windlass.testing.clock import VirtualClock  # noqa: PLC0415 - Law 1

    return VirtualClock()


@pytest.fixture
def runtime(virtual_clock: VirtualClock) -> Callable[..., Runtime[Any]]:
    """Make runtimes on one store in memory, under the virtual clock.

    Write `async with runtime(agent) as rt`; it takes what `Runtime` takes. All runtimes of a test share the store, so a second one is the process that is started
    after the first: it finds the sessions, the waits and the unfinished turns.
    """
    from windlass import Runtime  # noqa: PLC0415 - Law 1
    from windlass.stores.memory import MemoryStore  # noqa: PLC0415

    store = MemoryStore()

    def make(*agents: Agent[Any, Any], **settings: Any) -> Runtime[Any]:
        return Runtime(*agents, **{"store": store, "clock": virtual_clock, **settings})

    return make


@pytest.fixture
def scripted(request: pytest.FixtureRequest) -> Callable[..., ScriptedModel]:
    """Make models that play a script.

    Write `scripted([call("add", a=1), say("Done.")])`; it takes what `ScriptedModel` takes. The test fails if a model is asked for more replies than its script has, or if
    replies are left over at the end.
    """
    from windlass.models.scripted import ScriptedModel  # noqa: PLC0415 - Law 1

    made: list[ScriptedModel] = request.node.stash.setdefault(_SCRIPTS, [])

    def make(replies: Iterable[ScriptLine], **options: Any) -> ScriptedModel:
        made.append(ScriptedModel(replies, **options))
        return made[-1]

    return make


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Fail a test whose scripts were not played to the end, or beyond it."""
    ended = yield
    scripts = item.stash.get(_SCRIPTS, None)
    if scripts and ended.excinfo is None:
        told = [line for model in scripts if (line := _told(model))]
        if told:
            ended.force_exception(pytest.fail.Exception("\n".join(told), pytrace=False))


def _told(model: ScriptedModel) -> str:
    of_all = "1 reply" if model.n_replies == 1 else f"{model.n_replies} replies"
    if model.n_missing:
        return f"{model.name}: the script ran out: it has {of_all}, and was asked for {model.n_missing} more"
    if model.n_left:
        return f"{model.name}: {model.n_left} of {of_all} were never asked for"
    return ""


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test that asks for one of these fixtures, where no other plugin runs it."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test) or not _asks_for_ours(pyfuncitem):
        return None
    names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - as pytest's own does
    asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _asks_for_ours(item: pytest.Function) -> bool:
    """Whether a test gets a fixture from here, and not one of its own of that name."""
    found = item._fixtureinfo.name2fixturedefs  # noqa: SLF001 - as above
    return any(name in found and found[name][-1].func.__module__ == __name__ for name in _FIXTURES)
