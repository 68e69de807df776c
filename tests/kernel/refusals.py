"""How a refusal is looked at: the exact class, and the place it names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from windlass.errors import InvalidInput, WindlassError


def refused(do: Callable[[], object], kind: type[WindlassError] = InvalidInput) -> WindlassError:
    """Return the error with which `do` is refused: of exactly this class, and naming its place."""
    with pytest.raises(WindlassError) as caught:
        do()
    assert type(caught.value) is kind
    assert caught.value.field
    assert caught.value.field.rpartition(".")[2] in str(caught.value)
    return caught.value
