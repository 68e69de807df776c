"""The table of bad calls: what is done, and what is to come of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from tests.abuse.bad_calls_scene import Parked, Scene
from windlass.errors import InvalidInput, WindlassError

Act: TypeAlias = Callable[[Scene], Awaitable[object]]


def bound(do: Callable[..., Awaitable[object]], *given: object) -> Act:
    """Return an act that does this with what is given."""
    return lambda scene: do(scene, *given)


class Row(NamedTuple):
    """One row. With an `error`, the act is refused so and nothing is stored; else the act looks for itself.

    `field` may end with `*`: the place is somewhere inside. `needs` is what has to wait before.
    `is_built`: it needs no runtime.
    `instead` says why the case cannot be had in full, and what is shown instead.
    """

    case: int
    what: str
    act: Act
    error: type[WindlassError] | None = None
    field: str = ""
    needs: Parked = ""
    instead: str = ""
    is_built: bool = False

    @property
    def name(self) -> str:
        return f"{self.case:02}: {self.what}"


class Table(list[Row]):
    """Rows, with short ways to write them down."""

    def refuse(
        self,
        case: int,
        what: str,
        act: Act,
        *,
        field: str,
        error: type[WindlassError] = InvalidInput,
        needs: Parked = "",
    ) -> None:
        """Add a call that is refused."""
        self.append(Row(case, what, act, error, field, needs))

    def build(
        self,
        case: int,
        what: str,
        make: Callable[[], object],
        *,
        field: str,
        error: type[WindlassError] = InvalidInput,
    ) -> None:
        """Add something that is refused when it is built."""

        async def act(_scene: Scene) -> object:
            return make()

        self.append(Row(case, what, act, error, field, is_built=True))

    def row(self, case: int, what: str, **more: Any) -> Callable[[Act], Act]:
        """Add an act that looks for itself what came of it."""

        def add(act: Act) -> Act:
            self.append(Row(case, what, act, **more))
            return act

        return add
