"""A chain grows without copying, never changes, and knows its digest."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from operator import add

import pytest

from tests.kernel.builders import user
from windlass.errors import InvalidInput, LimitExceeded
from windlass.kernel import Chain, Message, Text, TurnSnapshot, canonical


def hexdigest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


# sha256 of the empty text, of "1", of "2", from sha256sum; then H(previous + item) by hand.
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
ONE = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"
TWO = "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35"


def test_a_chain_is_a_sequence() -> None:
    chain = Chain([1, 2, 3])

    assert len(chain) == 3
    assert list(chain) == [1, 2, 3]
    assert (chain[0], chain[2], chain[-1], chain[-3]) == (1, 3, 3, 1)
    assert (chain[1:], chain[3:], chain[::-1]) == ((2, 3), (), (3, 2, 1))
    assert chain.since(1) == [2, 3]
    assert (2 in chain, 4 in chain) == (True, False)
    assert (chain.index(2), chain.count(3)) == (1, 1)


@pytest.mark.parametrize("index", [3, -4, 100])
def test_a_place_outside_is_refused(index: int) -> None:
    with pytest.raises(IndexError):
        Chain([1, 2, 3])[index]


def test_a_shorter_chain_does_not_see_what_came_later() -> None:
    short = Chain([1])
    long = short.append(2)

    assert (list(short), list(long)) == ([1], [1, 2])
    assert (short[-1], len(short)) == (1, 1)
    assert (short[:], short.since(1)) == ((1,), [])
    with pytest.raises(IndexError):
        short[1]
    with pytest.raises(IndexError):
        short.item_digest(1)


def test_two_chains_that_grow_from_one_do_not_meet() -> None:
    root = Chain([1])
    left, right = root.append(2), root.append(3)

    assert (list(root), list(left), list(right)) == ([1], [1, 2], [1, 3])
    assert list(right.append(4)) == [1, 3, 4]
    assert list(left.append(5)) == [1, 2, 5]


def test_a_chain_holds_what_longer_ones_show() -> None:
    root = Chain([1])
    grown = root.append(2).append(3)

    assert (len(root), root.n_held, grown.n_held) == (1, 3, 3)


def test_a_chain_that_grows_by_what_is_there_already_shares_it() -> None:
    root = Chain([1])
    grown = root.append(2).append(3)
    again = root.append(2)

    assert list(again) == [1, 2]
    assert list(again.append(3).append(4)) == [1, 2, 3, 4]
    assert list(grown) == [1, 2, 3]
    kept = grown.memo("key", object)
    assert again.memo("key", object) is kept
    assert again.append(3).memo("key", object) is kept


def test_what_is_merely_equal_is_not_what_is_there() -> None:
    root: Chain[int] = Chain([0])
    grown, other = root.append(1), root.append(True)

    assert (list(grown), list(other)) == ([0, 1], [0, 1])
    assert (grown[1], other[1]) == (1, True)
    assert type(other[1]) is bool
    assert grown.chain_digest() != other.chain_digest()


def test_nothing_is_shared_with_a_storage_that_somebody_owns() -> None:
    root = Chain([1])
    put = root.grower()
    put(2)

    assert list(root.append(3)) == [1, 3]
    assert list(root.append(2)) == [1, 2]
    assert list(root.prefix(2)) == [1, 2]


def test_a_tail_is_seen_in_its_own_version_only() -> None:
    root = Chain([1, 2])
    with_tail = root.with_tail(9)
    grown = root.append(3)

    assert (list(root), list(with_tail), list(grown)) == ([1, 2], [1, 2, 9], [1, 2, 3])
    assert list(with_tail.append(4)) == [1, 2, 9, 4]


def test_a_prefix_shows_the_first_items() -> None:
    chain = Chain([1, 2, 3])

    assert tuple(list(chain.prefix(n)) for n in (0, 2, 3)) == ([], [1, 2], [1, 2, 3])


def test_what_is_a_chain_already_is_taken_as_it_is() -> None:
    chain = Chain([1])

    assert chain is Chain.of(chain)
    assert list(Chain.of(iter([1, 2]))) == [1, 2]
    assert list(Chain.of(())) == []


def test_the_list_handed_in_may_go_on_changing() -> None:
    items = [1]
    chain = Chain(items)
    items.append(2)

    assert list(chain) == [1]


def test_a_chain_equals_any_sequence_of_equal_items() -> None:
    chain = Chain([1, 2])
    grown = Chain([1]).append(2)

    assert chain == grown
    assert chain == (1, 2)
    assert chain == [1, 2]
    assert grown.append(3) != grown
    assert chain != Chain([1])
    assert chain != Chain([1, 3])
    assert chain != (1,)
    assert chain != [1, 3]
    assert chain != "12"
    assert chain != {1, 2}
    same = grown.append(9)
    assert same == same.prefix(3)
    assert same.prefix(2) != same


def test_a_chain_cannot_be_a_key() -> None:
    with pytest.raises(TypeError):
        hash(Chain([1]))


def test_a_chain_shows_its_end_and_its_length() -> None:
    assert repr(Chain([])) == "Chain(; 0 items)"
    assert repr(Chain([1, 2, 3])) == "Chain(1, 2, 3; 3 items)"
    assert repr(Chain([1, 2, 3, 4])) == "Chain(… 2, 3, 4; 4 items)"


# --- digests -----------------------------------------------------------------------------------


def test_the_digest_of_a_chain_links_the_digests_of_its_items() -> None:
    first = hexdigest(EMPTY + ONE)

    assert Chain([]).chain_digest() == EMPTY
    assert Chain([1]).chain_digest() == first
    assert Chain([1, 2]).chain_digest() == hexdigest(first + TWO)
    assert (Chain([1, 2]).item_digest(0), Chain([1, 2]).item_digest(1)) == (ONE, TWO)


def test_the_digest_does_not_depend_on_how_the_chain_came_about() -> None:
    whole = Chain([1, 2, 3]).chain_digest()

    grown = Chain([1])
    grown.chain_digest()
    grown = grown.append(2)
    other = grown.append(7)
    assert other.chain_digest() != whole
    assert grown.append(3).chain_digest() == whole
    assert Chain([1, 2]).with_tail(3).chain_digest() == whole
    assert grown.chain_digest() == Chain([1, 2]).chain_digest()
    assert other.prefix(1).chain_digest() == Chain([1]).chain_digest()


@pytest.mark.parametrize("index", [-1, 2, 5])
def test_the_digest_of_an_item_outside_is_refused(index: int) -> None:
    with pytest.raises(IndexError):
        Chain([1, 2]).item_digest(index)


def test_each_item_is_digested_once_for_all_chains_over_it() -> None:
    class Counted:
        n_read = 0

        def canonical_items(self) -> tuple[int, ...]:
            return ()

        def chain_digest(self) -> str:
            Counted.n_read += 1
            return "x"

    chain = Chain([Counted(), Counted()])
    for version in (chain, chain.append(Counted()), chain.prefix(1)):
        version.chain_digest()
        version.item_digest(0)

    assert Counted.n_read == 3


def test_a_chain_is_written_as_its_items_and_digested_as_its_link() -> None:
    chain = Chain([1, 2])

    assert canonical.encode(chain) == b"[1,2]"
    assert chain.canonical_items() == (1, 2)
    assert canonical.digest(chain) == hexdigest(f'"chain:{chain.chain_digest()}"')


def test_a_chain_is_read_item_by_item_by_type() -> None:
    message = user("hi")
    kept = canonical.encode(Chain([message]))

    assert list(canonical.decode(kept, Chain[Message])) == [message]


def test_an_item_of_another_type_is_refused_by_its_place() -> None:
    with pytest.raises(InvalidInput) as refused:
        canonical.decode(b'[{"id":7,"parts":[],"role":"user","type":"message"}]', Chain[Message])
    assert refused.value.field == "$[0].id"


def test_an_item_inside_a_value_is_refused_by_its_whole_path() -> None:
    kept = b'{"format":1,"messages":[{"id":7}],"records":[],"session_id":"s","state":{}}'

    with pytest.raises(InvalidInput) as refused:
        canonical.decode(kept, TurnSnapshot)
    assert refused.value.field is not None
    assert refused.value.field.startswith("$")


# --- memos -------------------------------------------------------------------------------------


def test_a_memo_is_made_once_and_shared_by_all_versions() -> None:
    chain = Chain([Text(text="x")])

    made: list[int] = chain.memo("key", list)

    assert made is chain.append(Text(text="y")).memo("key", list)
    assert made is chain.memo("key", lambda: pytest.fail("made twice"))
    assert made is not chain.memo("other", list)


def test_a_memo_is_made_of_what_is_given() -> None:
    chain = Chain([1])

    assert chain.memo("key", dict.fromkeys, "ab", 0) == {"a": 0, "b": 0}
    assert chain.memo("key", dict.fromkeys, "cd", 1) == {"a": 0, "b": 0}


def test_a_copy_has_memos_of_its_own() -> None:
    chain = Chain([1])
    chain.append(2)
    made: list[int] = chain.memo("key", list)

    copied = chain.append(3)

    assert made is not copied.memo("key", list)


def test_the_oldest_memo_makes_room_for_a_new_one() -> None:
    chain = Chain([1])
    made: list[list[int]] = [chain.memo(n, list) for n in range(4)]

    assert made[0] is chain.memo(0, list)
    chain.memo("fifth", list)

    assert made[1] is chain.memo(1, list)
    assert made[3] is chain.memo(3, list)
    assert made[0] is not chain.memo(0, list)


def test_a_chain_of_what_is_nested_too_deeply_is_refused() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]

    with pytest.raises(LimitExceeded) as refused:
        canonical.encode(Chain([nested]))
    assert refused.value.field == "$"
    while nested:  # so that freeing it does not recurse either
        nested = nested.pop()  # type: ignore[assignment] # a list inside, all the way down


@pytest.mark.parametrize("more", [(3, 4), [3, 4], Chain([3, 4])], ids=["tuple", "list", "chain"])
def test_chains_add_up_as_tuples_do(more: Sequence[int]) -> None:
    chain = Chain([1, 2])

    assert add(chain, more) == (1, 2, 3, 4)
    assert add(more, chain) == (3, 4, 1, 2)
    assert add(chain, ()) is chain
    assert chain == (1, 2)


def test_a_sum_leaves_a_storage_that_somebody_owns_alone() -> None:
    owned = Chain([1])
    grow = owned.grower()

    longer = add(owned, (2,))
    grow(3)

    assert longer == (1, 2)
    assert owned.prefix(2) == (1, 3)


@pytest.mark.parametrize("other", [3, None, "ab", {1}])
def test_a_chain_adds_up_with_sequences_only(other: object) -> None:
    with pytest.raises(TypeError):
        add(Chain([1]), other)
    with pytest.raises(TypeError):
        add(other, Chain([1]))


def test_a_digest_that_is_known_is_gone_on_from() -> None:
    whole = Chain([1, 2, 3])
    chain = Chain([1, 2])
    chain.take_digest(Chain([1, 2]).chain_digest())

    assert chain.append(3).chain_digest() == whole.chain_digest()
    assert chain.chain_digest() == Chain([1, 2]).chain_digest()
    # What nobody computed is computed when it is asked for.
    assert chain.prefix(1).chain_digest() == hexdigest(EMPTY + ONE)
    assert (chain.item_digest(0), chain.item_digest(1)) == (ONE, TWO)


def test_a_digest_that_was_computed_is_not_taken() -> None:
    chain = Chain([1, 2])
    wanted = chain.chain_digest()
    chain.take_digest("0" * 64)

    assert chain.chain_digest() == wanted


def test_a_digest_is_taken_behind_what_was_computed() -> None:
    root = Chain([1])
    root.chain_digest()
    longer = root.append(2).append(3)
    longer.take_digest("0" * 64)

    assert longer.chain_digest() == "0" * 64
    assert root.chain_digest() == hexdigest(EMPTY + ONE)
    assert longer.prefix(2).chain_digest() == Chain([1, 2]).chain_digest()
