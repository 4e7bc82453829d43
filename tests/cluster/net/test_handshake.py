import dataclasses

import pytest

from mirrax.cluster.net import handshake

KEY = handshake.derive_key("a:1", "", "secret")
BODY = {"worker": 1}


def test_both_sides_recognise_each_other():
    challenge = handshake.make_challenge()
    hello = handshake.make_hello(KEY, challenge, BODY)
    answer = handshake.make_answer(KEY, challenge, hello)
    assert handshake.verify_hello(KEY, challenge, hello)
    assert handshake.verify_answer(KEY, challenge, hello, answer)


@pytest.mark.parametrize(
    "key",
    [
        handshake.derive_key("a:1", "", ""),
        handshake.derive_key("a:1", "token", "secret"),
        handshake.derive_key("b:1", "", "secret"),
    ],
    ids=["secret", "token", "job"],
)
def test_other_keys_are_refused(key):
    challenge = handshake.make_challenge()
    hello = handshake.make_hello(key, challenge, BODY)
    assert not handshake.verify_hello(KEY, challenge, hello)
    answer = handshake.make_answer(key, challenge, hello)
    assert not handshake.verify_answer(KEY, challenge, hello, answer)


def test_old_hello_does_not_answer_a_new_challenge():
    hello = handshake.make_hello(KEY, handshake.make_challenge(), BODY)
    assert not handshake.verify_hello(KEY, handshake.make_challenge(), hello)


def test_changed_hello_is_refused():
    challenge = handshake.make_challenge()
    hello = handshake.make_hello(KEY, challenge, BODY)
    forged = dataclasses.replace(hello, fields={**hello.fields, "body": {"worker": 0}})
    assert not handshake.verify_hello(KEY, challenge, forged)
    odd = dataclasses.replace(hello, fields={**hello.fields, "proof": 7})
    assert not handshake.verify_hello(KEY, challenge, odd)


def test_forged_refusal_is_not_believed():
    challenge = handshake.make_challenge()
    hello = handshake.make_hello(KEY, challenge, BODY)
    answer = handshake.make_answer(KEY, challenge, hello)
    forged = dataclasses.replace(answer, fields={**answer.fields, "refusal": "go away"})
    assert not handshake.verify_answer(KEY, challenge, hello, forged)
