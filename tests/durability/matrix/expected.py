"""What has to come out of every cell, written by hand.

A row of `SEAMS` is a moment of the traced turn, in order. Behind the bar stands what a death there costs: `ask 3`: the third
request was under way and is sent again; `buy 3`: its reply was there and not kept, so it is bought again; `send
done`: how far the tool `send` had come without its result being kept. Nothing behind it: the next life goes on as if
nothing had been. What a window costs a tool is a matter of its contract alone: `WINDOWS`.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.durability.matrix.steps import ANSWER, AWAY_AT, CONTRACTS


class Window(NamedTuple):
    """How often the body was entered and how often it acted, over all lives, and what the model is told."""

    started: int = 1
    acted: int = 1
    status: str = "ok"
    reconciled: int = 0
    persons: int = 0


# claimed: its intent is kept, its body not entered. inside: entered, not acted. done: acted, its result not kept.
WINDOWS: dict[str, dict[str, Window]] = {
    "pure": {"inside": Window(2, 1), "done": Window(2, 2)},
    "idempotent": {"claimed": Window(1, 1), "inside": Window(2, 1), "done": Window(2, 2)},
    "keyed": {"claimed": Window(1, 1), "inside": Window(2, 1), "done": Window(2, 2)},
    "once": {
        "claimed": Window(0, 0, "unknown"),
        "inside": Window(1, 0, "unknown"),
        "done": Window(1, 1, "unknown"),
        # The wait for its result is there: the delivery decides.
        "waits": Window(1, 0),
    },
    "can tell": {
        "claimed": Window(1, 1, reconciled=1),
        "inside": Window(2, 1, reconciled=1),
        "done": Window(1, 1, reconciled=1),
    },
    "cannot tell": {
        "claimed": Window(0, 0, reconciled=1, persons=1),
        "inside": Window(1, 0, reconciled=1, persons=1),
        "done": Window(1, 1, reconciled=1, persons=1),
    },
}

SEAMS = """
before: join
after: join
tools looked up
model 0 asked                                               | ask 0
before: accept + start + begin + tools                      | ask 0
after: accept + start + begin + tools                       | ask 0
model 0 replied                                             | buy 0
look inside                                                 | buy 0, look inside
look done                                                   | buy 0, look done
tools looked up (2)                                         | buy 0, look done
model 1 asked                                               | buy 0, look done, ask 1
before: reply 0 + result look                               | buy 0, look done, ask 1
after: reply 0 + result look                                | ask 1
model 1 replied                                             | buy 1
before: reply 1 + claim index                               | buy 1
after: reply 1 + claim index                                | index claimed
index inside                                                | index inside
index done                                                  | index done
tools looked up (3)                                         | index done
model 2 asked                                               | index done, ask 2
before: result index + tools                                | index done, ask 2
after: result index + tools                                 | ask 2
model 2 replied                                             | buy 2
before: reply 2 + claim vault                               | buy 2
after: reply 2 + claim vault                                | vault claimed
vault inside                                                | vault inside
vault done                                                  | vault done
tools looked up (4)                                         | vault done
model 3 asked                                               | vault done, ask 3
before: result vault                                        | vault done, ask 3
after: result vault                                         | ask 3
model 3 replied                                             | buy 3
before: reply 3 + claim send                                | buy 3
after: reply 3 + claim send                                 | send claimed
send inside                                                 | send inside
send done                                                   | send done
tools looked up (5)                                         | send done
model 4 asked                                               | send done, ask 4
before: result send                                         | send done, ask 4
after: result send                                          | ask 4
model 4 replied                                             | buy 4
before: reply 4 + claim transfer                            | buy 4
after: reply 4 + claim transfer                             | transfer claimed
transfer inside                                             | transfer inside
transfer done                                               | transfer done
tools looked up (6)                                         | transfer done
model 5 asked                                               | transfer done, ask 5
before: result transfer                                     | transfer done, ask 5
after: result transfer                                      | ask 5
model 5 replied                                             | buy 5
before: reply 5 + claim parcel                              | buy 5
after: reply 5 + claim parcel                               | parcel claimed
parcel inside                                               | parcel inside
parcel done                                                 | parcel done
tools looked up (7)                                         | parcel done
model 6 asked                                               | parcel done, ask 6
before: result parcel                                       | parcel done, ask 6
after: result parcel                                        | ask 6
model 6 replied                                             | buy 6
before: reply 6 + claim post_a                              | buy 6
after: reply 6 + claim post_a                               | post_a claimed
post_a inside                                               | post_a inside
post_a done                                                 | post_a done
peek inside                                                 | post_a done, peek inside
peek done                                                   | post_a done, peek done
before: result post_a + claim post_b + result peek          | post_a done, peek done
after: result post_a + claim post_b + result peek           | post_b claimed
post_b inside                                               | post_b inside
post_b done                                                 | post_b done
before: result post_b                                       | post_b done
after: result post_b                                        |
tools looked up (8)                                         |
model 7 asked                                               | ask 7
model 7 replied                                             | buy 7
before: reply 7 + claim consult                             | buy 7
after: reply 7 + claim consult                              | consult claimed
model adviser asked                                         | consult claimed, ask adviser
model adviser replied                                       | consult claimed, buy adviser
before: reply adviser                                       | consult claimed, buy adviser
after: reply adviser                                        | consult claimed
consult inside                                              | consult inside
consult done                                                | consult done
tools looked up (9)                                         | consult done
model 8 asked                                               | consult done, ask 8
before: result consult                                      | consult done, ask 8
after: result consult                                       | ask 8
model 8 replied                                             | buy 8
before: reply 8 + claim order                               | buy 8
after: reply 8 + claim order                                | order claimed
order inside                                                | order inside
before: ask deferred                                        | order inside
after: ask deferred                                         | order waits
order done
before: pending + park
after: pending + park
before: release
after: release
before: answered deferred
after: answered deferred
before: claim
after: claim
tools looked up (10)
before: answer deferred + result order
after: answer deferred + result order
tools looked up (11)
model 9 asked                                               | ask 9
model 9 replied                                             | buy 9
before: reply 9 + ask approval + park                       | buy 9
after: reply 9 + ask approval + park
before: release (2)
after: release (2)
before: answered approval
after: answered approval
before: claim (2)
after: claim (2)
tools looked up (12)
before: answer approval + leave refund + claim refund
after: answer approval + leave refund + claim refund        | refund claimed
refund inside                                               | refund inside
refund done                                                 | refund done
before: result refund                                       | refund done
after: result refund
tools looked up (13)
model 10 asked                                              | ask 10
model 10 replied                                            | buy 10
before: reply 10 + claim ring                               | buy 10
after: reply 10 + claim ring                                | ring claimed
before: mail arrives                                        | ring claimed
after: mail arrives                                         | ring claimed
ring inside                                                 | ring inside
ring done                                                   | ring done
before: result ring                                         | ring done
after: result ring
before: mail is taken
after: mail is taken
tools looked up (14)
model 11 asked                                              | ask 11
before: mail                                                | ask 11
after: mail                                                 | ask 11
model 11 replied                                            | buy 11
tools looked up (15)                                        | buy 11
model 12 asked                                              | buy 11, ask 12
before: reply 11 + repair                                   | buy 11, ask 12
after: reply 11 + repair                                    | ask 12
before: ask provider + park                                 | ask 12
after: ask provider + park
before: release (3)
after: release (3)
before: expired provider
after: expired provider
before: claim (3)
after: claim (3)
tools looked up (16)
model 12 asked (2)                                          | ask 12
model 12 replied                                            | buy 12
before: reply 12                                            | buy 12
after: reply 12
before: commit
after: commit
before: leave
after: leave
"""

# What a second death costs, by how far the call was at the first one and at the second. Bodies entered, over all lives.
# early: before the next life has come as far as the call.
TWICE: dict[str, dict[str, dict[str, int]]] = {
    "idempotent": {
        "claimed": {"early": 1, "claimed": 1, "inside": 2, "done": 2},
        "inside": {"early": 2, "claimed": 2, "inside": 3, "done": 3},
        "done": {"early": 2, "claimed": 2, "inside": 3, "done": 3},
    },
    "keyed": {
        "claimed": {"early": 1, "claimed": 1, "inside": 2, "done": 2},
        "inside": {"early": 2, "claimed": 2, "inside": 3, "done": 3},
        "done": {"early": 2, "claimed": 2, "inside": 3, "done": 3},
    },
    "once": {"claimed": {"early": 0}, "inside": {"early": 1}, "done": {"early": 1}},
    "can tell": {
        # A question after it has acted is answered with that.
        "claimed": {"early": 1, "claimed": 1, "inside": 2, "done": 1},
        "inside": {"early": 2, "claimed": 2, "inside": 3, "done": 2},
        "done": {"early": 1},
    },
    "cannot tell": {"claimed": {"early": 0}, "inside": {"early": 1}, "done": {"early": 1}},
}

ASKED = {**{str(n): 1 for n in range(ANSWER + 1)}, "adviser": 1, str(AWAY_AT): 2}
REPLIED = {**{str(n): 1 for n in range(ANSWER + 1)}, "adviser": 1}
# 13 replies of 100 + n and 10 tokens, and the adviser's: kept once each, whatever was bought.
USAGE = {("turn", "main"): (13, 1378, 130), ("tool:consult", "adviser"): (1, 7, 3)}
WAITS = {"deferred": 1, "approval": 1, "provider": 1}


class Cell(NamedTuple):
    """A row of `SEAMS`: where to die, and what it costs."""

    seam: str
    asked: dict[str, int]
    replied: dict[str, int]
    windows: dict[str, str]


def nature_of(tool: str) -> str:
    """Return the row of the tables that a tool goes by."""
    contract = CONTRACTS[tool]
    if contract != "reconcile":
        return contract
    return "can tell" if tool == "transfer" else "cannot tell"


def window_of(tool: str, name: str | None) -> Window:
    """Return what is expected of a tool."""
    return Window() if name is None else WINDOWS[nature_of(tool)][name]


def _cell(row: str) -> Cell:
    seam, _, costs = row.partition("|")
    cell = Cell(seam.strip(), dict(ASKED), dict(REPLIED), {})
    for cost in filter(None, (part.strip() for part in costs.split(","))):
        first, second = cost.split()
        if first in ("ask", "buy"):
            cell.asked[second] += 1
            cell.replied[second] += first == "buy"
        else:
            cell.windows[first] = second
    return cell


CELLS = tuple(_cell(row) for row in SEAMS.strip().splitlines())
