"""What happens in each turn of a long session: chosen by chance, the same for the same seed."""

from __future__ import annotations

import random
from typing import Literal, NamedTuple, get_args

from windlass.ports.upload import Upload

Kind = Literal["plain", "approval", "steered", "cancelled", "mailed"]
Shape = Literal["lines", "line", "wide", "rows", "object", "parts", "files", "error"]
SHAPES: tuple[Shape, ...] = get_args(Shape)

_KINDS: dict[Kind, float] = {
    "plain": 0.76, "approval": 0.05, "steered": 0.08, "cancelled": 0.07, "mailed": 0.04,
}  # fmt: skip
_WORDS = [
    "harbour",
    "rope",
    "anchor",
    "winch",
    "depth",
    "cargo",
    "tide",
    "crane",
    "signal",
    "deck",
    "engine",
    "chart",
    "rudder",
    "buoy",
    "mast",
    "ferry",
    "lantern",
    "keel",
    "pilot",
    "berth",
]
_MEDIA = (
    ("image/png", "png", b"\x89PNG\r\n\x1a\n"),
    ("application/pdf", "pdf", b"%PDF-1.7\n"),
    ("text/csv", "csv", b""),
)
MOST_BYTES = 1 << 20


class Asked(NamedTuple):
    """A call that the model makes."""

    name: str
    args: dict[str, int | str]


class TurnPlan(NamedTuple):
    """A turn: how it begins, and what the model does in it, step by step.

    `reads` are the chances, by step, that it reads on in what was cut or cleared; `repeats_ids` that it counts its calls
    anew for each reply, as some providers do.
    """

    n: int
    kind: Kind
    text: str
    files: tuple[Upload, ...]
    steps: tuple[tuple[Asked, ...], ...]
    reads: tuple[float, ...]
    answer: str
    repeats_ids: bool


def words(chance: random.Random, n_chars: int) -> str:
    """Return words of about so many characters."""
    line = " ".join(chance.choices(_WORDS, k=min(40, 2 + n_chars // 6)))
    return (line + "\n") * (n_chars // (len(line) + 1)) + line[: n_chars % (len(line) + 1)]


def size(chance: random.Random, most_bytes: int) -> int:
    """Return how long an output is: mostly short, now and then up to the most."""
    most = chance.choices((2_000, 20_000, MOST_BYTES), (0.83, 0.15, 0.02))[0]
    return min(chance.randint(1, most), most_bytes)


def plan(
    seed: str,
    n: int,
    *,
    like: int | None = None,
    kind: Kind | None = None,
    most_bytes: int = MOST_BYTES,
) -> TurnPlan:
    """Return the plan of a turn; all is of the same size as in the turn that it is `like`."""
    chance = random.Random(f"{seed}:{n if like is None else like}")
    chosen = chance.choices(tuple(_KINDS), tuple(_KINDS.values()))[0]
    kind = kind or chosen
    steps = [
        _step(chance, (n, at), most_bytes)
        for at in range(chance.choices((0, 1, 2, 3), (2, 4, 3, 1))[0])
    ]
    if kind == "approval":
        steps.append((*_step(chance, (n, len(steps)), most_bytes)[:2], Asked("sign", {"n": n})))
    if kind in ("steered", "cancelled"):
        steps.append((*_step(chance, (n, len(steps)), most_bytes)[:1], Asked("hold", {"n": n})))
    n_files = chance.choices((0, 1, 2), (0.88, 0.08, 0.04))[0]
    return TurnPlan(
        n=n,
        kind=kind,
        text=f"[input {n}] {words(chance, chance.choice((20, 200, 1_500)))}",
        files=tuple(_file(chance, n, at) for at in range(n_files)),
        steps=tuple(steps),
        reads=tuple(chance.random() for _ in range(len(steps) + 1)),
        answer=f"[answer {n}] {words(chance, chance.choice((10, 150, 800)))}",
        repeats_ids=chance.random() < 0.2,
    )


def _step(chance: random.Random, place: tuple[int, int], most: int) -> tuple[Asked, ...]:
    n, at = place
    n_calls = chance.choices((1, 2, 5), (0.7, 0.2, 0.1))[0]
    return tuple(
        Asked(
            "look",
            {
                "n": n * 100 + at * 10 + which,
                "shape": chance.choice(SHAPES),
                "size": size(chance, most),
            },
        )
        for which in range(n_calls)
    )


def _file(chance: random.Random, n: int, at: int) -> Upload:
    media_type, ending, begins = chance.choice(_MEDIA)
    data = begins + f"{n}".encode() + chance.randbytes(chance.randint(10, 3_000))
    return Upload(data, media_type=media_type, name=f"input-{n}-{at}.{ending}")
