"""Digests: SHA-256 of the canonical bytes, with message sequences as chains that share their links."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.golden_snapshots import VALUES
from tests.kernel.other_encoder import chained, digested
from windlass.kernel import (
    Chain,
    Done,
    Generation,
    Message,
    ModelMessage,
    ModelRequest,
    Progress,
    Text,
    Value,
    canonical,
)

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def said(text: str) -> ModelMessage:
    return ModelMessage(role="user", parts=(Text(text=text),))


def by_hand(*texts: str) -> str:
    """Return the chain digest of what `said` makes of these texts, all of it with hashlib."""
    link = sha256(b"").hexdigest()
    for text in texts:
        spelled = (
            f'{{"parts":[{{"text":"{text}","type":"text"}}],"role":"user","type":"model_message"}}'
        )
        item = sha256(spelled.encode()).hexdigest()
        link = sha256((link + item).encode()).hexdigest()
    return link


def test_a_digest_is_the_sha_256_of_the_bytes() -> None:
    written = b'{"text":"hi","type":"text"}'
    assert sha256(written).hexdigest() == canonical.digest(Text(text="hi"))
    assert sha256(b"abcd").hexdigest() == canonical.link("ab", "cd")


def test_a_chain_digests_link_by_link() -> None:
    chain: Chain[ModelMessage] = Chain()
    assert EMPTY == chain.chain_digest() == by_hand()
    for n, text in enumerate(("one", "two", "three"), start=1):
        chain = chain.append(said(text))
        assert by_hand(*("one", "two", "three")[:n]) == chain.chain_digest()


def test_a_request_digests_its_messages_as_one_link() -> None:
    request = ModelRequest(model="m", messages=[said("one"), said("two")])
    link = by_hand("one", "two")
    spelled = f'{{"messages":"chain:{link}","model":"m","type":"model_request"}}'
    assert sha256(spelled.encode()).hexdigest() == canonical.digest(request)


def grown() -> Chain[ModelMessage]:
    return Chain([said("one")]).append(said("two"))


def one_of_two_tails() -> Chain[ModelMessage]:
    start = Chain([said("one")])
    start.append(said("another"))
    return start.append(said("two"))


def tailed() -> Chain[ModelMessage]:
    return Chain([said("one")]).with_tail(said("two"))


def warmed() -> Chain[ModelMessage]:
    chain = Chain([said("one")])
    chain.chain_digest()
    longer = chain.append(said("two"))
    longer.append(said("three")).chain_digest()
    return longer


def a_prefix() -> Chain[ModelMessage]:
    chain = Chain([said("one")])
    grow = chain.grower()
    grow(said("two"))
    grow(said("three"))
    return chain.prefix(2)


def decoded() -> Chain[ModelMessage]:
    written = canonical.encode(ModelRequest(model="m", messages=grown()))
    return Chain.of(canonical.decode(written, ModelRequest).messages)


@pytest.mark.parametrize(
    "make", [grown, one_of_two_tails, tailed, warmed, a_prefix, decoded], ids=lambda f: f.__name__
)
def test_a_request_has_one_digest_however_it_was_built(
    make: Callable[[], Chain[ModelMessage]],
) -> None:
    messages = (said("one"), said("two"))
    plain = ModelRequest(model="m", messages=messages)
    built = ModelRequest(
        model="".join(["m"]), messages=make(), tools=(), generation=Generation(), session_id=None
    )
    assert plain == built
    assert canonical.encode(plain) == canonical.encode(built)
    assert canonical.digest(plain) == canonical.digest(built)
    assert canonical.digest(plain) == canonical.digest(
        ModelRequest(model="m", messages=list(messages))
    )
    assert canonical.digest(plain) == canonical.digest(msgspec.structs.replace(built, model="m"))


@pytest.mark.parametrize("kind", [Progress, Done])
def test_progress_digests_alike_with_a_tuple_and_with_a_chain(
    kind: type[Progress | Done],
) -> None:
    history = (Message(id="m", role="user", parts=(Text(text="hi"),)),)
    assert canonical.encode(kind(messages=history)) == canonical.encode(
        kind(messages=Chain(history))
    )
    assert canonical.digest(kind(messages=history)) == canonical.digest(
        kind(messages=Chain(history))
    )


@pytest.mark.parametrize("name", VALUES)
def test_a_decoded_value_is_equal_with_an_equal_digest(name: str) -> None:
    value: Value = VALUES[name]
    written = canonical.encode(value)
    back = canonical.decode(written, type(value))
    assert value == back
    assert written == canonical.encode(back)
    assert canonical.digest(value) == canonical.digest(back)
    assert digested(json.loads(written)) == canonical.digest(back)


# --- sharing -------------------------------------------------------------------------------------


def test_appending_never_changes_the_shorter_chain() -> None:
    short = Chain([said("one")])
    before = short.chain_digest()
    longer = short.append(said("two"))
    assert [said("one")] == list(short)
    assert before == short.chain_digest() == by_hand("one")
    assert by_hand("one", "two") == longer.chain_digest()
    assert (len(short), len(longer)) == (1, 2)
    with pytest.raises(IndexError):
        short[1]
    with pytest.raises(IndexError):
        short.item_digest(1)


def test_two_tails_of_one_chain_do_not_see_each_other() -> None:
    start = Chain([said("one")])
    left = start.append(said("left"))
    right = start.append(said("right"))
    longer_left = left.append(said("again"))
    assert by_hand("one", "left") == left.chain_digest()
    assert by_hand("one", "right") == right.chain_digest()
    assert by_hand("one", "left", "again") == longer_left.chain_digest()
    assert left != right
    assert [said("one")] == list(start)


def test_a_tail_that_is_dropped_leaves_no_trace() -> None:
    start = Chain([said("one")])
    tailed = start.with_tail(said("tail"))
    longer = start.append(said("two"))
    assert by_hand("one", "tail") == tailed.chain_digest()
    assert by_hand("one", "two") == longer.chain_digest()


steps = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(["append", "tail", "digest", "item"])),
    max_size=20,
)


@given(steps)
def test_a_family_of_chains_behaves_like_tuples(wanted: list[tuple[int, str]]) -> None:
    """Whatever is grown from whatever, in any order, each chain stays what it was."""
    family: list[tuple[Chain[ModelMessage], tuple[str, ...]]] = [(Chain(), ())]
    for at, (which, step) in enumerate(wanted):
        chain, texts = family[which % len(family)]
        if step == "append":
            family.append((chain.append(said(f"t{at}")), (*texts, f"t{at}")))
        elif step == "tail":
            family.append((chain.with_tail(said(f"t{at}")), (*texts, f"t{at}")))
        elif step == "item" and texts:
            chain.item_digest(len(texts) - 1)
        else:
            chain.chain_digest()
    for chain, texts in family:
        assert tuple(map(said, texts)) == tuple(chain) == chain[:]
        assert by_hand(*texts) == chain.chain_digest()
        documents = [json.loads(canonical.encode(item)) for item in chain]
        assert chained(documents) == chain.chain_digest()
        assert [canonical.digest(said(text)) for text in texts] == [
            chain.item_digest(at) for at in range(len(chain))
        ]
