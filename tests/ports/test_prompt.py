"""The system prompt: slots in their order, layers over layers, the same bytes whatever order the pieces come in."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import InvalidInput
from windlass.ports.prompt import LAYERS, SLOTS, Contribution, render_prompt

INSTRUCTIONS = "You run a harbor.\n\n  Be brief.  \n"


def intro(text: str = INSTRUCTIONS) -> Contribution:
    return Contribution(text, slot="intro", priority=-1_000_000)


# --- by hand ----------------------------------------------------------------------------------------


def test_no_pieces_are_no_prompt() -> None:
    assert render_prompt([]) == ""


def test_instructions_alone_are_the_prompt_byte_for_byte() -> None:
    assert render_prompt([intro()]) == INSTRUCTIONS


def test_instructions_that_stand_alone_in_their_slot_begin_the_prompt_byte_for_byte() -> None:
    prompt = render_prompt([Contribution("Sound first."), intro()])

    assert prompt == "You run a harbor.\n\n  Be brief.  \n\n\n## Guidance\n\nSound first."


def test_every_slot_has_its_place_and_its_heading() -> None:
    pieces = [Contribution(f"About {slot}.", slot=slot) for slot in SLOTS]

    assert render_prompt(pieces) == (
        "About intro.\n\n"
        "## Execution\n\nAbout execution.\n\n"
        "## Guidance\n\nAbout guidance.\n\n"
        "## Project\n\nAbout project.\n\n"
        "## Context\n\nAbout context.\n\n"
        "## Environment\n\nAbout environment."
    )


def test_pieces_of_a_slot_stand_by_priority_then_title_then_text() -> None:
    pieces = [
        Contribution("zebra", priority=1),
        Contribution("apple", priority=2),
        Contribution("pear", title="Fruit", priority=1),
        Contribution("  fig \n", title="Fruit", priority=1),
        Contribution("last", priority=10),
        Contribution("first", priority=-1),
    ]

    assert render_prompt(pieces) == (
        "## Guidance\n\nfirst\n\nzebra\n\n### Fruit\n\nfig\n\n### Fruit\n\npear\n\napple\n\nlast"
    )


def test_instructions_with_company_are_joined_to_it() -> None:
    prompt = render_prompt([Contribution("You like ships.", slot="intro"), intro()])

    assert prompt == "You run a harbor.\n\n  Be brief.\n\nYou like ships."


def test_an_intro_with_a_title_gets_its_heading_even_alone() -> None:
    assert render_prompt([Contribution(" Hi. ", slot="intro", title="Who")]) == "### Who\n\nHi."


def test_higher_layers_come_behind_lower_ones_whatever_their_priority() -> None:
    pieces = [
        Contribution("of the turn", layer="turn", priority=-9),
        Contribution("of the session", layer="session"),
        Contribution("of the agent", layer="agent", priority=9),
    ]

    assert render_prompt(pieces) == ("## Guidance\n\nof the agent\n\nof the session\n\nof the turn")


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        ("agent", "agent\n\nnew\n\nsession\n\nturn"),
        ("session", "new\n\nsession\n\nturn"),
        ("turn", "new\n\nturn"),
    ],
)
def test_a_piece_that_replaces_takes_the_place_of_lower_layers_only(
    layer: str, wanted: str
) -> None:
    pieces = [Contribution(name, layer=name) for name in LAYERS]
    pieces.append(Contribution("new", layer=layer, replaces=True))  # type: ignore[arg-type]  # one of them
    pieces.append(Contribution("elsewhere", slot="project"))

    assert render_prompt(pieces) == f"## Guidance\n\n{wanted}\n\n## Project\n\nelsewhere"


def test_an_override_takes_the_place_of_the_instructions() -> None:
    override = Contribution("Speak French.\n", slot="intro", layer="turn", replaces=True)

    assert render_prompt([intro(), override]) == "Speak French.\n"


@pytest.mark.parametrize(
    ("offered", "wanted"),
    [
        ((), "always"),
        (("other",), "always"),
        (("pay",), "always\n\nwith money"),
        (("ship", "other"), "always\n\nwith money"),
    ],
)
def test_a_gated_piece_is_there_if_any_of_its_tools_is_on_offer(
    offered: tuple[str, ...], wanted: str
) -> None:
    pieces = [Contribution("always"), Contribution("with money", gate=("pay", "ship"))]

    assert render_prompt(pieces, offered) == f"## Guidance\n\n{wanted}"


def test_a_piece_behind_a_closed_gate_replaces_nothing() -> None:
    pieces = [Contribution("old"), Contribution("new", layer="turn", replaces=True, gate=("pay",))]

    assert render_prompt(pieces) == "## Guidance\n\nold"
    assert render_prompt(pieces, ["pay"]) == "## Guidance\n\nnew"


def test_what_two_plugins_say_alike_is_said_once() -> None:
    assert render_prompt([Contribution("Be kind."), Contribution("Be kind.")]) == (
        "## Guidance\n\nBe kind."
    )


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_what_is_blank_is_not_there_and_clears_its_slot_if_it_replaces(blank: str) -> None:
    old = Contribution("old")

    assert render_prompt([intro(blank), Contribution(blank, slot="project")]) == ""
    assert render_prompt([intro(blank), Contribution("Be kind.", slot="intro")]) == "Be kind."
    assert render_prompt([old, Contribution(blank, layer="turn", title="Empty")]) == (
        "## Guidance\n\nold"
    )
    cleared = Contribution(blank, layer="turn", replaces=True)
    assert render_prompt([old, cleared]) == ""
    kept = Contribution("of the turn", layer="turn")
    assert render_prompt([old, cleared, kept]) == "## Guidance\n\nof the turn"


def test_a_prompter_writes_what_is_in_force_in_its_order() -> None:
    pieces = [
        Contribution("late", slot="environment"),
        Contribution("old", slot="project"),
        Contribution("new", slot="project", layer="turn", replaces=True),
        Contribution("gated", gate=("pay",)),
        intro("You run a harbor."),
    ]

    prompt = render_prompt(pieces, ["look"], lambda those: " | ".join(one.text for one in those))

    assert prompt == "You run a harbor. | new | late"


# --- laws -------------------------------------------------------------------------------------------

TEXTS = st.text("ab \n#", min_size=1, max_size=6)
PIECES = st.builds(
    Contribution,
    text=TEXTS,
    slot=st.sampled_from(SLOTS),
    title=st.sampled_from(["", "One", "Two"]),
    priority=st.integers(-1, 1),
    gate=st.sampled_from([(), ("pay",), ("pay", "ship")]),
    layer=st.sampled_from(LAYERS),
    replaces=st.booleans(),
)


@given(
    st.lists(PIECES, max_size=8),
    st.randoms(use_true_random=False),
    st.sets(st.sampled_from(["pay", "ship"])),
)
def test_the_order_in_which_pieces_and_tools_come_changes_no_byte(
    pieces: list[Contribution], luck: random.Random, offered: set[str]
) -> None:
    shuffled = luck.sample(pieces, len(pieces))

    assert render_prompt(shuffled, sorted(offered, reverse=True)) == render_prompt(pieces, offered)


@given(TEXTS)
def test_any_instructions_alone_are_the_prompt(text: str) -> None:
    assert render_prompt([intro(text)]) == (text if text.strip() else "")


@given(st.lists(PIECES, max_size=6), PIECES)
def test_a_gate_that_is_closed_is_as_good_as_no_piece(
    pieces: list[Contribution], one: Contribution
) -> None:
    closed = Contribution(
        one.text, slot=one.slot, layer=one.layer, replaces=one.replaces, gate=("never",)
    )

    assert render_prompt([*pieces, closed], ["pay"]) == render_prompt(pieces, ["pay"])


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"text": 5}, "Contribution.text"),
        ({"text": "\ud800"}, "Contribution.text"),
        ({"title": None}, "Contribution.title"),
        (
            {"slot": "introduction"},
            "Contribution.slot: found 'introduction', wanted one of intro, execution, guidance",
        ),
        ({"slot": ["intro"]}, "Contribution.slot"),
        (
            {"layer": "runtime"},
            "Contribution.layer: found 'runtime', wanted one of agent, session, turn",
        ),
        ({"priority": "first"}, "Contribution.priority"),
        ({"gate": "pay"}, "Contribution.gate"),
        ({"gate": ("pay", 5)}, "Contribution.gate[1]"),
    ],
)
def test_what_would_silently_not_be_shown_is_refused(bad: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Contribution(**{"text": "Be kind.", **bad})  # type: ignore[arg-type]  # that is the point

    assert named in str(refused.value)
    assert refused.value.field is not None


def test_a_gate_may_be_written_as_a_list() -> None:
    assert Contribution("x", gate=["pay"]).gate == ("pay",)  # type: ignore[arg-type]  # that is the point
