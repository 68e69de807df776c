"""What the sessions of a round do to each other.

A task is a line of words, one to a reply: `tool:argument`, several joined with `+`. Sessions begin at different places of the
round, so that at any moment all kinds of errands are on their way.

    r00, r01, …   chats that work: they start children, post to the next of them, signal it, answer, cancel, send to what is
                  gone, and give a process to another
    x00, x01, …   chats at the top of trees that hold still until one of the others cancels them
    i00, i01, …   chats that only hear: an item for one of them is settled soon, and reclaimed
    d00, d01, …   were deleted before the round begins
    g00, g01, …   are deleted while it goes on: what is sent there arrives or is dropped
"""

from __future__ import annotations

AGENT = "yard"
TURN = "t0"
N_ROOTS = 12
N_TREES = 3
N_HEARING = 4
N_DELETED = 4
N_LEAVING = 3
# How many errands to gone targets the tool `lose` runs, and how many of them one session drops in all.
N_LOST = 8
N_DROPPED = N_LOST + 1
AT_END = ("c",)
"""The children that answer with their commit; the others do so with the result of their last call."""
SIGNAL = "note"
"""The signal that each session sends to another, and hears from a third."""
ADOPTED = "p"
"""The name of the process that a session starts and gives to another."""
CANCELLED = ("u", "v")
"""The names of the child and of its child in a tree that is cancelled."""


def roots() -> tuple[str, ...]:
    """Return the sessions that work."""
    return tuple(f"r{number:02}" for number in range(N_ROOTS))


def trees() -> tuple[str, ...]:
    """Return the sessions at the top of trees that are cancelled."""
    return tuple(f"x{number:02}" for number in range(N_TREES))


def hearing() -> tuple[str, ...]:
    """Return the sessions that do nothing until something comes."""
    return tuple(f"i{number:02}" for number in range(N_HEARING))


def deleted() -> tuple[str, ...]:
    """Return the sessions that are gone."""
    return tuple(f"d{number:02}" for number in range(N_DELETED))


def leaving() -> tuple[str, ...]:
    """Return the sessions that go meanwhile."""
    return tuple(f"g{number:02}" for number in range(N_LEAVING))


def task_of(session_id: str) -> str:
    """Return what a session at the top of a tree is asked to do."""
    number = int(session_id[1:])
    if session_id in trees():
        return task(f"ask:u:{number}")
    words = [
        f"post:{_next(number, 1)}+spawn:a:{number}",
        f"post:{hearing()[number % N_HEARING]}+rest:2",
        f"ask:b:{number}",
        f"lose:{deleted()[number % N_DELETED]}",
        f"send:{_next(number, 2)}",
        f"post:{_next(number, 5)}+rest:3",
        f"post:{hearing()[(number + 1) % N_HEARING]}+rest:2",
        f"ask:c:{number}",
        f"miss:{deleted()[number % N_DELETED]}",
        f"later:{_next(number, 7)}+rest:1",
        f"risk:{leaving()[number % N_LEAVING]}",
        # Each signals before it hears, so that none of them waits for itself in a round.
        f"signal:{_next(number, 4)}+rest:1",
        "hear:",
        f"adopt:{hearing()[number % N_HEARING]}",
    ]
    if number < N_TREES:
        words.append(f"stop:{trees()[number]}")
    begin = number % len(words)
    return task(*words[begin:], *words[:begin])


def child_task(name: str, number: int) -> str:
    """Return what a child is asked to do."""
    words = {
        "a": ("rest:2",),
        "b": ("rest:1", f"post:{_next(number, 3)}", "tell:"),
        "c": (f"ask:q:{number}", "rest:1"),
        "q": ("rest:2", "tell:"),
        ADOPTED: ("rest:2",),
        "u": (f"ask:v:{number}", "tell:"),
        "v": ("hold:parked" if number % 2 else "hold:asleep", "tell:"),
    }
    return task(*words[name])


def task(*words: str) -> str:
    """Return a task."""
    return f"Do {' '.join(words)}"


def words_of(asked: str) -> list[str]:
    """Return the words of a task; what begins with # only tells it from others."""
    return [word for word in asked.removeprefix("Do ").split() if not word.startswith("#")]


def _next(number: int, step: int) -> str:
    return roots()[(number + step) % N_ROOTS]
