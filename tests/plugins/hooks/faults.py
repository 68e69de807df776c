"""The faults: every hook raises, with a secret in what it says; and what comes of it, by Law 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.plugins.hooks.acts import (
    DECISION,
    END,
    ENVIRONMENT,
    PLAIN,
    PRESENTED,
    START,
    TAIL,
    UNLUCKY,
    WORKED,
)
from tests.plugins.hooks.ledger import Acting, Make
from tests.plugins.hooks.playing import Act
from windlass.errors import InvalidInput
from windlass.kernel.outcomes import Stopped
from windlass.ports.plugin_turn import PluginTurn

SECRET = "sk-live-4242"


def raising(
    hook: str,
    error: type[BaseException] = ValueError,
    when: Callable[[PluginTurn], bool] = lambda _turn: True,
) -> Make:
    """Return what makes a plugin whose hook raises."""

    async def run(self: Acting, turn: PluginTurn, *_given: Any) -> Any:  # noqa: ANN401 - as the hook says
        if when(turn):
            await self.act(turn)
            raise error(SECRET)

    return type("Raising", (Acting,), {"name": "raising", hook: run})


def first(turn: PluginTurn) -> bool:
    """Whether the model has answered once."""
    return turn.iteration == 0


def later(turn: PluginTurn) -> bool:
    """Whether the model has answered already."""
    return turn.iteration > 0


def said_of(hook: str, error: str = "ValueError") -> str:
    """Return what is said of such a plugin."""
    return f"the plugin raising raised {error} in {hook}"


def failed(hook: str) -> Stopped:
    """Return how a turn ends that could not be built."""
    return Stopped(reason="runtime_error", detail=said_of(hook))


FAULTS = (
    Act(
        name="on_input",
        plugin=raising("on_input"),
        records=START,
        said=(),  # whoever was to look at it has not
        outcome=failed("on_input"),
        issues=(said_of("on_input"),),
        bodies=(),
    ),
    Act(
        name="before_turn",
        plugin=raising("before_turn"),
        records=START,
        said=("user: Go.",),
        outcome=failed("before_turn"),
        issues=(said_of("before_turn"),),
        bodies=(),
    ),
    Act(
        name="prompt, at the start",
        plugin=raising("prompt"),
        records=START,
        said=("user: Go.",),
        outcome=failed("prompt"),
        issues=(said_of("prompt"),),
        bodies=(),
    ),
    Act(
        name="prompt, later",
        plugin=raising("prompt", when=later),
        records=ENVIRONMENT,
        said=WORKED,
        outcome=failed("prompt"),
        issues=(said_of("prompt"),),
        bodies=(1,),
    ),
    Act(
        name="view",
        plugin=raising("view", when=later),
        records=ENVIRONMENT,
        said=WORKED,
        outcome=failed("view"),
        issues=(said_of("view"),),
        bodies=(1,),
    ),
    Act(
        name="before_model",
        plugin=raising("before_model", when=later),
        records=END,
        said=WORKED,
        outcome=failed("before_model"),
        issues=(said_of("before_model"),),
        bodies=(1,),
    ),
    Act(
        name="after_model",
        plugin=raising("after_model"),
        records=END,
        said=("user: Go.",),
        outcome=failed("after_model"),
        issues=(said_of("after_model"),),
        bodies=(),
    ),
    Act(
        name="before_tool",
        plugin=raising("before_tool", when=first),
        records=DECISION,
        said=(
            *WORKED[:2],
            f"user: denied: Not run: {said_of('before_tool')}.",
            *TAIL,
        ),
        issues=(f"{said_of('before_tool')}; act was denied",),
        bodies=(5,),
    ),
    Act(
        name="before_tool, with an error of ours",
        plugin=raising("before_tool", InvalidInput, when=first),
        records=DECISION,
        said=(
            *WORKED[:2],
            f"user: denied: Not run: {said_of('before_tool', 'InvalidInput')}.",
            *TAIL,
        ),
        issues=(f"{said_of('before_tool', 'InvalidInput')}; act was denied",),
        bodies=(5,),
    ),
    Act(
        name="after_tool",
        plugin=raising("after_tool", when=first),
        records=PRESENTED,
        said=(
            *WORKED[:2],
            f"user: ok: (Its result is withheld: {said_of('after_tool')}.)",
            *TAIL,
        ),
        issues=(f"{said_of('after_tool')}; a result was withheld",),
    ),
    Act(
        name="present_result",
        plugin=raising("present_result", when=first),
        records=PRESENTED,
        said=(
            *WORKED[:2],
            f"user: ok: (Its result is withheld: {said_of('present_result')}.)",
            *TAIL,
        ),
        issues=(f"{said_of('present_result')}; a result was withheld",),
    ),
    Act(
        name="on_error of a tool",
        plugin=raising("on_error"),
        records=PRESENTED,
        replies=UNLUCKY,
        said=(
            "user: Go.",
            "assistant: act(x=13)",
            "user: error: Bad luck.",
            *TAIL,
        ),
        issues=(said_of("on_error"),),
        bodies=(13, 5),
    ),
    Act(
        name="on_error of a model",
        plugin=raising("on_error"),
        records=END,
        is_broken=True,
        said=("user: Go.",),
        outcome=Stopped(reason="provider_error", detail="The line is down."),
        issues=(said_of("on_error"), "The line is down."),
        bodies=(),
    ),
    Act(
        name="at_checkpoint",
        plugin=raising("at_checkpoint"),
        records=END,
        said=WORKED,
        outcome=failed("at_checkpoint"),
        issues=(said_of("at_checkpoint"),),
        bodies=(1,),
    ),
    Act(
        name="after_turn",
        plugin=raising("after_turn"),
        records=END,
        said=PLAIN,
        issues=(said_of("after_turn"),),
    ),
)
