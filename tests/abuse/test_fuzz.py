"""A value or a WindlassError, nothing else: many damaged inputs at every door of the kernel.

The loops are seeded by the test run's own seed, so `--randomly-seed=N` repeats one; each failure shows
its input. Hypothesis goes the same way more slowly, for the sake of a small example.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.abuse.mutations import mutated
from tests.kernel.golden_snapshots import VALUES
from tests.limits import times
from windlass.errors import WindlassError
from windlass.kernel import (
    Action,
    Chain,
    Effect,
    Event,
    Message,
    Outcome,
    Part,
    Record,
    Response,
    TurnSnapshot,
    Value,
    canonical,
)

# Whatever the types say should not be there.
Junk: TypeAlias = Any

N_MUTATED = 60_000
N_CROSSED = 20_000

SEEDS: list[tuple[bytes, type[Value]]] = [
    (canonical.encode(value), type(value)) for value in VALUES.values()
]
UNIONS: list[Any] = [
    Action, Effect, Event, Outcome, Part, Record, Response, Chain[Message], TurnSnapshot,
    tuple[Part, ...], list[Record], dict[str, Part],
]  # fmt: skip

Decode = Callable[[bytes, Any], object]


class Fault(NamedTuple):
    """An input that got something else than a value or a refusal."""

    kind: str
    data: bytes
    what: str


class Tally(NamedTuple):
    """What a run of inputs came to."""

    n_run: int
    n_accepted: int
    faults: list[Fault]


def try_decoding(
    inputs: Iterator[tuple[bytes, Any]], decode: Decode = canonical.decode, most_faults: int = 5
) -> Tally:
    """Decode each input; stop early once there are faults enough to read."""
    n_run = n_accepted = 0
    faults: list[Fault] = []
    for data, kind in inputs:
        n_run += 1
        what = None
        try:
            value = decode(data, kind)
        except WindlassError as error:
            if not error.field:
                what = f"a refusal without a place: {error!r}"
        except BaseException as error:  # noqa: BLE001 - that is the question
            what = repr(error)[:200]
        else:
            n_accepted += 1
            if canonical.encode(value) != data:
                what = "accepted, but not its canonical bytes"
        if what is not None:
            faults.append(Fault(getattr(kind, "__name__", str(kind)), data[:500], what))
            if len(faults) == most_faults:
                break
    return Tally(n_run, n_accepted, faults)


def mutations_of_everything(n_inputs: int) -> Iterator[tuple[bytes, Any]]:
    dice = random.Random(random.getrandbits(64))
    for at in range(n_inputs):
        data, kind = SEEDS[at % len(SEEDS)]
        yield mutated(dice, data), kind


def crossings(n_inputs: int) -> Iterator[tuple[bytes, Any]]:
    """Bytes of one type at the door of another, whole and damaged."""
    dice = random.Random(random.getrandbits(64))
    for _ in range(n_inputs):
        data, _kind = dice.choice(SEEDS)
        kind = dice.choice(UNIONS) if dice.random() < 0.7 else dice.choice(SEEDS)[1]
        yield mutated(dice, data) if dice.random() < 0.6 else data, kind


def test_damaged_bytes_give_a_value_or_a_refusal() -> None:
    tally = try_decoding(mutations_of_everything(N_MUTATED))
    assert tally.faults == []
    assert tally.n_run == N_MUTATED
    # Damage that is still canonical bytes of the type must not be too rare, or nothing was tested.
    assert N_MUTATED // 100 < tally.n_accepted < N_MUTATED // 2


def test_bytes_at_a_foreign_door_give_a_value_or_a_refusal() -> None:
    tally = try_decoding(crossings(N_CROSSED))
    assert tally.faults == []
    assert tally.n_run == N_CROSSED
    assert tally.n_accepted > N_CROSSED // 100


@settings(max_examples=times(150))
@given(
    data=st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode()),
    kind=st.sampled_from([kind for _, kind in SEEDS]),
)
def test_noise_gives_a_refusal(data: bytes, kind: type[Value]) -> None:
    assert try_decoding(iter([(data, kind)])).faults == []


@settings(max_examples=times(150))
@given(seed=st.integers(0, 2**32), at=st.integers(0, len(SEEDS) - 1))
def test_damaged_bytes_with_a_small_example(seed: int, at: int) -> None:
    data, kind = SEEDS[at]
    damaged = mutated(random.Random(seed), data)
    assert try_decoding(iter([(damaged, kind)])).faults == []


# --- the fuzzer notices what it is there to notice ------------------------------------------------


def leaky(data: bytes, kind: Junk) -> object:
    """Decode, but let a KeyError through for a tag it does not know."""
    if b'"type":"text"' not in data and b"text" in data:
        raise KeyError("text")
    return canonical.decode(data, kind)


def lenient(data: bytes, kind: Junk) -> object:
    """Decode, but forgive white space around the document."""
    return canonical.decode(data.strip(), kind)


def placeless(data: bytes, kind: Junk) -> object:
    """Decode, but keep the place of a refusal to itself."""
    try:
        return canonical.decode(data, kind)
    except WindlassError as error:
        raise type(error)("no") from None


@pytest.mark.parametrize(
    ("decode", "what"),
    [(leaky, "KeyError('text')"), (lenient, "not its canonical bytes"), (placeless, "place")],
)
def test_a_bad_decoder_is_caught(decode: Decode, what: str) -> None:
    inputs = list(mutations_of_everything(N_MUTATED))
    tally = try_decoding(iter(inputs), decode, most_faults=1)
    (fault,) = tally.faults
    assert what in fault.what
    assert tally.n_run < N_MUTATED
    assert fault.data == inputs[tally.n_run - 1][0]  # it can be tried again
