"""Spend limits: what a turn and a session may use up, kept across crashes.

    reserve   before a call: the most that it can take is written down, or refused if that is over a budget
    call      the model is asked
    settle    the reply is recorded with what it took, in place of the reservation

A crash between the first and the last leaves the reservation, which counts as spent, once, as `lost`. So what counts
is never less than what was bought, and is over a budget by no more than one call took beyond its reservation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias, get_args

import msgspec

from windlass.errors import ConfigError
from windlass.guards.text import is_clean
from windlass.journal.patch import add
from windlass.kernel.model_call import ModelReply, ModelRequest, Usage
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tokens import tokens_of_request
from windlass.plugins.budgets import Account, Budget, Over, Scope, Unpriced
from windlass.plugins.options import choice, whole
from windlass.plugins.prices import Price
from windlass.ports.directives import Hold, Send, Stop
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn

__all__ = ["Budget", "Price", "SpendLimits", "WhenSpent"]

WhenSpent: TypeAlias = Literal["stop", "ask", "cheaper"]


class SpendLimits(Plugin):
    """Keeps turns and sessions within budgets of tokens, money, time and calls.

    When the next call does not fit: `stop` ends the turn with `Stopped("limit")`; `ask` parks it until a person lets
    the budget grow by itself once more; `cheaper` sends the request to another model, as long as that fits.
    """

    name = "spend_limits"
    version = "1"
    # Calls that a tool makes with ctx.complete are paid from the same budgets.
    covers_direct_calls: ClassVar[bool] = True

    def __init__(
        self,
        *,
        turn: Budget | None = None,
        session: Budget | None = None,
        when_spent: WhenSpent = "stop",
        cheaper: str | None = None,
        prices: Mapping[str, Price] | None = None,
        max_output: int = 4096,
    ) -> None:
        self._budgets = {"turn": _budget(turn, "turn"), "session": _budget(session, "session")}
        given = [budget for budget in self._budgets.values() if budget is not None]
        if not given:
            raise ConfigError(
                "SpendLimits: found no budget, wanted one for the turn or the session",
                field="SpendLimits",
            )
        choice(when_spent, get_args(WhenSpent), field="when_spent")
        self._asks = when_spent == "ask"
        self._prices = _prices(prices)
        has_cost = any(budget.cost is not None for budget in given)
        if has_cost and not self._prices:
            raise ConfigError("prices: found none, but a budget has a cost", field="prices")
        if when_spent == "cheaper":
            _check_cheaper(cheaper, self._prices, has_cost=has_cost)
        elif cheaper is not None:
            raise ConfigError('cheaper: wants when_spent="cheaper"', field="cheaper")
        self._cheaper = cheaper
        self._max_output = whole(max_output, field="max_output", low=1)

    # ------------------------------------------------------------------ hooks

    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> Send | Hold | Stop:
        """Reserve what the call may take, if every budget has room for it."""
        if request.generation.max_output_tokens is None:
            # A reservation is a bound only if the model is bound by it, too.
            generation = msgspec.structs.replace(
                request.generation, max_output_tokens=self._max_output
            )
            request = msgspec.structs.replace(request, generation=generation)
        accounts = [each for each in self._accounts(turn) if each.budget is not None]
        for account in accounts:
            if not account.take_answers():
                return Stop(f"The {account.scope} may not spend more: so it was answered.", "limit")
        short, reserve = self._reserve(accounts, request)
        if isinstance(short, Over) and self._cheaper is not None:
            request = msgspec.structs.replace(request, model=self._cheaper)
            short, reserve = self._reserve(accounts, request)
        if short is None:
            return Send(request=request, reserve=reserve)
        if self._asks and isinstance(short, Over):
            return short.question()
        return Stop(short.sentence(), "limit")

    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> None:  # noqa: ARG002 - the port's
        """Show what is spent by now."""
        turn.emit("spend", {each.scope: each.report() for each in self._accounts(turn)})

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> None:  # noqa: ARG002 - the port's
        """Keep how long the turn took, if the session's time is counted."""
        session = self._budgets["session"]
        if session is not None and session.seconds is not None:
            turn.remember(took_ms=add(turn.now_ms - turn.started_ms))

    # ------------------------------------------------------------------ one call

    def _accounts(self, turn: PluginTurn) -> list[Account]:
        scopes: tuple[Scope, ...] = get_args(Scope)
        return [Account(turn, scope, self._budgets[scope], self._prices) for scope in scopes]

    def _reserve(
        self, accounts: list[Account], request: ModelRequest
    ) -> tuple[Over | Unpriced | None, Usage]:
        """Return the most that a call can take, and what has no room for it."""
        prompt = tokens_of_request(request)
        output = request.generation.max_output_tokens or self._max_output
        price = self._prices.get(request.model)
        reserve = Usage(input_tokens=prompt, output_tokens=output)
        if price is not None:
            reserve = price.dearest(prompt, output)
        found = (account.lacks(request.model, reserve) for account in accounts)
        return next((lack for lack in found if lack is not None), None), reserve


def _budget(given: object, field: str) -> Budget | None:
    if given is None or isinstance(given, Budget):
        return given
    found = type(given).__name__
    raise ConfigError(f"{field}: found {found}, wanted a Budget", field=field, found=found)


def _prices(given: object) -> dict[str, Price]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        found = type(given).__name__
        raise ConfigError(f"prices: found {found}, wanted a mapping", field="prices", found=found)
    for model, price in given.items():
        if not isinstance(model, str) or not isinstance(price, Price):
            raise ConfigError("prices: wanted a Price for each model's name", field="prices")
    return dict(given)


def _check_cheaper(name: object, prices: Mapping[str, Price], *, has_cost: bool) -> None:
    if not isinstance(name, str) or not name or not is_clean(name):
        raise ConfigError("cheaper: wanted the name of a model", field="cheaper")
    if not has_cost:
        raise ConfigError(
            "cheaper: wants a budget with a cost; tokens, time and calls are no cheaper elsewhere",
            field="cheaper",
        )
    if name not in prices:
        raise ConfigError(f"prices: found none for {name}, the cheaper model", field="prices")
