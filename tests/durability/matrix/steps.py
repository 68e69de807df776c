"""What the model asks for, reply by reply, and which contract each tool has."""

from __future__ import annotations

SESSION, TURN, INPUT = "s", "t", "Do it all."

CONTRACTS = {
    "look": "pure",
    "index": "idempotent",
    "vault": "keyed",
    "send": "once",
    "transfer": "reconcile",
    "parcel": "reconcile",
    "post_a": "once",
    "post_b": "once",
    "peek": "pure",
    "consult": "idempotent",
    "order": "once",
    "refund": "once",
    "ring": "idempotent",
}

STEPS: tuple[tuple[str, ...], ...] = (
    ("look",),  # reads only
    ("index",),  # may be repeated; from then on there is a vault
    ("vault",),  # repeated under the same key; the provider of tools brings it
    ("send",),  # never repeated
    ("transfer",),  # can tell whether it was done
    ("parcel",),  # cannot tell: a person is asked
    ("post_a", "post_b", "peek"),  # post_a runs alone: the others wait for their places
    ("consult",),  # asks another model
    ("order",),  # its result is delivered from outside
    ("refund",),  # a person allows it
    ("ring",),  # meanwhile a message arrives in the session
)
"""Then words of the wrong shape, and the answer: after an hour in which the provider is away."""

WRONG_SHAPE = len(STEPS)
ANSWER = WRONG_SHAPE + 1
AWAY_AT = ANSWER
