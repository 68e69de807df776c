"""The acts: one for each thing that a hook may do to a turn."""

from __future__ import annotations

import msgspec

from tests.plugins.hooks import doers
from tests.plugins.hooks.ledger import AGAIN
from tests.plugins.hooks.playing import SCRIPT, Act
from windlass.kernel.outcomes import Finished, Stopped
from windlass.testing import call, say

START = "its start"
ENVIRONMENT = "tools that were looked up"
DECISION = "a decision"
REPLY_HOOKED = "what plugins made of a reply"
PRESENTED = "what plugins made of a result"
ENTERED = "input that came meanwhile"
END = "the turn's end"

WORKED = ("user: Go.", "assistant: act(x=1)", "user: ok: did 1")
# A second call, before whose body all that came before is written down.
TAIL = ("assistant: act(x=5)", "user: ok: did 5", "assistant: Done.")
PLAIN = (*WORKED, *TAIL)
UNLUCKY = (call("act", x=13), call("act", x=5), say("Done."))

ACTS = (
    Act(name="on_input", plugin=doers.Cleans, records=START, said=("user: Cleaned.", *PLAIN[1:])),
    Act(
        name="on_input, refused",
        plugin=doers.Refuses,
        records=START,
        said=(),
        outcome=Stopped(reason="refused", detail="Not that."),
        issues=("Not that.",),
        bodies=(),
    ),
    Act(
        name="before_turn",
        plugin=doers.Reminds,
        records=START,
        said=("user: Think of the milk.", *PLAIN),
    ),
    Act(
        name="before_turn, aborted",
        plugin=doers.Aborts,
        records=START,
        said=("user: Go.",),
        outcome=Stopped(reason="refused", detail="Not today."),
        issues=("Not today.",),
        bodies=(),
    ),
    Act(
        name="prompt, at the start",
        plugin=doers.Prompts,
        records=START,
        said=PLAIN,
        asked=("system: Act.\n\nBe brief.", *WORKED),
    ),
    Act(
        name="prompt, later",
        plugin=doers.PromptsLater,
        records=ENVIRONMENT,
        said=PLAIN,
        asked=("system: Act.\n\nBe brief.", *WORKED),
    ),
    Act(
        name="view",
        plugin=doers.Views,
        records=ENVIRONMENT,
        said=PLAIN,
        asked=("system: Act.", *WORKED[:2], "user: ok: did it"),
    ),
    Act(
        name="before_model, a word more",
        plugin=doers.Whispers,
        records="reply 2",
        said=PLAIN,
        asked=("system: Act.", *WORKED, "user: Psst."),
    ),
    Act(name="before_model, another model", plugin=doers.Redirects, records="reply 2", said=PLAIN),
    Act(
        name="before_model, stopped",
        plugin=doers.StopsBefore,
        records=END,
        said=WORKED,
        bodies=(1,),
        outcome=Stopped(reason="limit", detail="That will do."),
        issues=("That will do.",),
    ),
    Act(
        name="after_model, other words",
        plugin=doers.Louder,
        records=REPLY_HOOKED,
        replies=(msgspec.structs.replace(call("act", x=1), text="Hm."), *SCRIPT[1:]),
        said=("user: Go.", "assistant: Hm! | act(x=1)", *PLAIN[2:]),
    ),
    Act(
        name="after_model, no calls",
        plugin=doers.DropsCalls,
        records=REPLY_HOOKED,
        said=("user: Go.", "assistant: No calls."),
        outcome=Finished(text="No calls."),
        bodies=(),
    ),
    Act(
        name="after_model, stopped",
        plugin=doers.StopsAfter,
        records=END,
        said=("user: Go.",),
        outcome=Stopped(reason="limit", detail="That will do."),
        issues=("That will do.",),
        bodies=(),
    ),
    Act(
        name="before_tool, other arguments",
        plugin=doers.Replaces,
        records=DECISION,
        said=(*WORKED[:2], "user: ok: did 2", *TAIL),
        bodies=(2, 5),
    ),
    Act(
        name="before_tool, short-circuited",
        plugin=doers.ShortCircuits,
        records=DECISION,
        said=(*WORKED[:2], "user: ok: from the cache", *TAIL),
        bodies=(5,),
    ),
    Act(
        name="before_tool, denied",
        plugin=doers.Denies,
        records=DECISION,
        said=(*WORKED[:2], "user: denied: No.", *TAIL),
        bodies=(5,),
    ),
    Act(name="before_tool, asked", plugin=doers.Asks, records=DECISION, said=PLAIN),
    Act(
        name="after_tool, edited",
        plugin=doers.Edits,
        records=PRESENTED,
        said=(*WORKED[:2], "user: ok: edited", *TAIL),
    ),
    Act(
        name="after_tool, withheld",
        plugin=doers.Withholds,
        records=PRESENTED,
        said=(*WORKED[:2], "user: ok: (Its result is withheld: secret)", *TAIL),
    ),
    Act(
        name="present_result",
        plugin=doers.Presents,
        records=PRESENTED,
        said=(*WORKED[:2], "user: ok: in short", *TAIL),
    ),
    Act(
        name="on_error of a tool, stopped",
        plugin=doers.GivesUp,
        records=PRESENTED,
        replies=UNLUCKY,
        said=("user: Go.", "assistant: act(x=13)", "user: error: Bad luck."),
        outcome=Stopped(reason="tool_failure", detail="Enough."),
        issues=("Enough.",),
        bodies=(13,),
    ),
    Act(
        name="on_error of a tool, retried",
        plugin=doers.Advises,
        records=PRESENTED,
        replies=UNLUCKY,
        said=(
            "user: Go.",
            "assistant: act(x=13)",
            "user: error: Bad luck.\nTake another number.",
            *TAIL,
        ),
        bodies=(13, 5),
    ),
    Act(
        name="on_error of a tool, as if nothing were",
        plugin=doers.GoesOn,
        records=PRESENTED,
        replies=UNLUCKY,
        said=(
            "user: Go.",
            "assistant: act(x=13)",
            "user: error: Bad luck.",
            *TAIL,
        ),
        bodies=(13, 5),
    ),
    Act(
        name="on_error of a model, asked again",
        plugin=doers.AsksAgain,
        records="reply 1",
        is_broken=True,
        replies=(say("Done."),),
        said=("user: Go.", "assistant: Done."),
        asked=("system: Act.", "user: Go.", f"user: {AGAIN}"),
        asked_at=0,
        bodies=(),
    ),
    Act(
        name="on_error of a model, another asked",
        plugin=doers.AsksAnother,
        records="reply 1",
        is_broken=True,
        replies=(say("Done."),),
        said=("user: Go.", "assistant: Done."),
        bodies=(),
    ),
    Act(
        name="on_error of a model, stopped",
        plugin=doers.GivesUp,
        records=END,
        is_broken=True,
        said=("user: Go.",),
        outcome=Stopped(reason="provider_error", detail="Enough."),
        issues=("Enough.",),
        bodies=(),
    ),
    Act(
        name="at_checkpoint, a message",
        plugin=doers.Enters,
        records=ENTERED,
        said=(*WORKED, "user: By the way.", *TAIL),
    ),
    Act(
        name="at_checkpoint, a message that is not kept",
        plugin=doers.EntersUnseen,
        records=ENTERED,
        said=PLAIN,
        asked=("system: Act.", *WORKED, "user: Between us."),
    ),
    Act(
        name="at_checkpoint, stopped",
        plugin=doers.StopsThere,
        records=END,
        said=WORKED,
        bodies=(1,),
        outcome=Stopped(reason="limit", detail="That will do."),
        issues=("That will do.",),
    ),
    Act(
        name="at_checkpoint, back from the end",
        plugin=doers.GoesBack,
        records=ENTERED,
        said=(*PLAIN, "user: By the way.", "assistant: More."),
        outcome=Finished(text="More."),
    ),
    Act(
        name="after_turn",
        plugin=doers.Follows,
        records=END,
        turns=2,
        said=(*PLAIN, "user: And then?", "assistant: More."),
        issues=("worth a look",),
    ),
)
