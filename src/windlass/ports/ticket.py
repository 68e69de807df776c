"""A ticket: a write that was handed in to a store, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

A_co = TypeVar("A_co", covariant=True)


class Ticket(Protocol[A_co]):
    """A write that was handed in."""

    @property
    def is_settled(self) -> bool:
        """Whether it is known how it ended."""
        ...

    @property
    def refusal(self) -> BaseException | None:
        """Why it was refused, once it is."""
        ...

    @property
    def receipt(self) -> A_co | None:
        """What it was answered with, once it is durable."""
        ...

    def settle_now(self) -> bool:
        """Write it in this call, with all that was handed in before it, if nothing has to be waited for.

        True: it is settled, and its listeners were told. False: it will be written as without this call. For the
        loop's thread, while a single turn is being driven; a store that cannot do it returns False.
        """
        ...

    def when_settled(self, tell: Callable[[], None]) -> None:
        """Call `tell` on the loop once it is known how it ended; soon, if it is already."""
        ...

    async def durable(self) -> A_co:
        """Wait until it is durable and return the receipt.

        Raises:
            StoreError: it was refused, or that is not known yet; handing in the same again is safe.
        """
        ...
