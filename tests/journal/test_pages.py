"""Pages: each link covers the page and all before it, from the strand's own name on."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.refusals import refused
from windlass.errors import JournalCorrupt
from windlass.journal import (
    Emitted,
    FrameOpened,
    HistoryPage,
    JournalPage,
    NodeBody,
    PluginVersion,
    Released,
    TurnStarted,
    check_link,
    check_place,
    check_position,
    encode_page,
    lengthened,
    link_page,
    node_id,
    shortened,
    strand_seed,
)
from windlass.kernel import DriverRecord, Finished, Json, canonical

PAGES = tuple(
    canonical.encode(
        JournalPage(
            format=2,
            generation=1,
            entries=(TurnStarted(agent=f"a{at}", model="m", plugins=(PluginVersion(name="p"),)),),
        )
    )
    for at in range(4)
)

Strand = list[tuple[bytes, bytes]]
"""Pages with their links, as a store keeps them."""


def written(pages: Sequence[bytes], seed: bytes) -> Strand:
    strand, link = [], seed
    for page in pages:
        link = link_page(link, page)
        strand.append((page, link))
    return strand


def read(strand: Strand, seed: bytes) -> bytes:
    """Check a strand as a store does, and return its last link."""
    link = seed
    for at, (page, stored) in enumerate(strand):
        link = check_link(link, page, stored, place=f"page {at}")
    return link


SEED = strand_seed("s", "t")
STRAND = written(PAGES, SEED)


def test_a_strand_begins_with_its_own_name() -> None:
    assert strand_seed("s", "t") == sha256(b"journal/s/t").digest()
    assert strand_seed("s") == sha256(b"history/s").digest()


def test_no_two_strands_begin_alike() -> None:
    seeds = [
        strand_seed("s", "t"),
        strand_seed("s"),
        strand_seed("t"),
        strand_seed("s", "u"),
        strand_seed("t", "s"),
    ]
    assert len(set(seeds)) == 5


def test_a_link_covers_the_page_and_the_link_before() -> None:
    first = sha256(sha256(b"journal/s/t").digest() + PAGES[0]).digest()
    second = sha256(first + PAGES[1]).digest()
    assert [link for _, link in STRAND[:2]] == [first, second]
    assert read(STRAND[:2], SEED) == second


def test_what_was_written_is_read() -> None:
    assert read(STRAND, SEED) == STRAND[-1][1]
    assert read([], SEED) == SEED


def broken(strand: Strand, seed: bytes = SEED) -> str:
    """Return the place that is named when this strand is read."""
    error = refused(lambda: read(strand, seed), JournalCorrupt)
    assert error.field is not None
    return error.field


def test_a_missing_page_is_noticed() -> None:
    assert broken(STRAND[1:]) == "page 0"
    assert broken([*STRAND[:1], *STRAND[2:]]) == "page 1"


def test_a_doubled_page_is_noticed() -> None:
    assert broken([*STRAND[:2], STRAND[1], *STRAND[2:]]) == "page 2"


def test_swapped_pages_are_noticed() -> None:
    one, two, three, four = STRAND
    assert broken([two, one, three, four]) == "page 0"
    assert broken([one, three, two, four]) == "page 1"
    swapped = [one, (three[0], two[1]), (two[0], three[1]), four]
    assert broken(swapped) == "page 1"


def test_a_page_from_elsewhere_is_noticed() -> None:
    for seed in (strand_seed("s", "u"), strand_seed("r", "t"), strand_seed("s")):
        foreign = written(PAGES, seed)
        assert broken(foreign) == "page 0"
        assert broken([*STRAND[:2], foreign[2], STRAND[3]]) == "page 2"
        assert broken(STRAND, seed) == "page 0"


def test_one_flipped_bit_is_noticed_wherever_it_is() -> None:
    page, link = STRAND[1]
    for bit in range(len(page) * 8):
        assert broken([STRAND[0], (flipped(page, bit), link)]) == "page 1"
    for bit in range(len(link) * 8):
        assert broken([STRAND[0], (page, flipped(link, bit))]) == "page 1"


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_cut_or_lengthened_page_is_noticed() -> None:
    page, link = STRAND[0]
    for changed in (page[:-1], page[1:], b"", page + b" ", page + page):
        assert broken([(changed, link)]) == "page 0"


def test_a_broken_link_shows_no_payload() -> None:
    error = refused(
        lambda: check_link(SEED, b"canary", b"", place="journal s/t, page 3"), JournalCorrupt
    )
    assert "journal s/t, page 3" in str(error)
    assert "canary" not in str(error)


# --- places --------------------------------------------------------------------------------------


def test_a_node_id_derives_from_where_it_stands() -> None:
    digest = sha256(b'["s","t",0]').hexdigest()
    assert node_id("s", "t", 0) == f"n_{digest[:32]}"
    ids = {
        node_id(*place) for place in (("s", "t", 0), ("s", "t", 1), ("s", "u", 0), ("r", "t", 0))
    }
    assert len(ids) == 4


@pytest.mark.parametrize("bad", ["", "a/b", "x" * 129, None])
def test_a_place_is_two_ids(bad: Json) -> None:
    check_place("s", "t")
    assert refused(lambda: check_place(bad, "t")).field == "session_id"
    assert refused(lambda: check_place("s", bad)).field == "turn_id"


def test_a_position_is_a_count() -> None:
    check_position(0, field="head")
    check_position(2**40, field="head")
    negative = refused(lambda: check_position(-1, field="head"))
    assert (negative.field, negative.found) == ("head", -1)
    bad: Json = "1"
    assert refused(lambda: check_position(bad, field="head")).wanted == "int"


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ((), False),
        ((DriverRecord(),), False),
        ((FrameOpened(frame_id="f"),), False),
        ((FrameOpened(frame_id="f", carries=True), DriverRecord()), True),
        # What stands before it on the page would be missed.
        ((DriverRecord(), FrameOpened(frame_id="f", carries=True)), False),
    ],
    ids=str,
)
def test_a_page_is_a_beginning_if_it_opens_with_a_frame_that_carries(
    nodes: tuple[NodeBody, ...], wanted: bool
) -> None:
    page = HistoryPage(format=1, turn_id="t", nodes=nodes, outcome=Finished(text="ho"))

    assert page.is_beginning is wanted


# --- as it is stored -----------------------------------------------------------------------------


def test_one_byte_stands_for_the_place_of_a_turn() -> None:
    entry = Released(key="s-1/t-1/2/3/model_call/e-1")
    data = encode_page((entry, entry), 4)
    stored = shortened(data, "s-1", "t-1")

    assert stored == (
        b'{"entries":[{"key":"\x012/3/model_call/e-1","type":"released"},'
        b'{"key":"\x012/3/model_call/e-1","type":"released"}],'
        b'"format":2,"generation":4,"type":"journal_page"}'
    )
    assert lengthened(stored, "s-1", "t-1") == data


@given(
    text=st.text('s/t\x01\\"u0', max_size=40),
    session_id=st.text("st", min_size=1, max_size=2),
    turn_id=st.text("st", min_size=1, max_size=2),
)
def test_whatever_stands_on_a_page_it_is_read_as_it_was(
    text: str, session_id: str, turn_id: str
) -> None:
    """Also a text that looks like the place, or like what stands for it."""
    data = encode_page((Emitted(key="k", name="n", value=[text, {text: 1}]),), 1)
    stored = shortened(data, session_id, turn_id)
    assert f"{session_id}/{turn_id}/".encode() not in stored
    assert lengthened(stored, session_id, turn_id) == data


def test_a_page_of_the_first_format_is_read_and_none_is_written() -> None:
    first = canonical.encode(JournalPage(format=1, generation=1, entries=()))
    assert canonical.decode(first, JournalPage).format == 1
    assert canonical.read(first, JournalPage).format == 1
    assert canonical.decode(encode_page((), 1), JournalPage).format == 2
