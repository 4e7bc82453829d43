"""How one worker stops after the step that all have agreed on."""

from mirrax.cluster.net.messages import Message
from mirrax.cluster.worker.stop_agreement import StopAgreement


def make():
    sent = []

    def wait_until(is_done):
        agreement.receive(Message("stop_after", {"step": 4}))
        assert is_done()

    agreement = StopAgreement(sent.append, wait_until)
    return agreement, sent


def test_request_is_sent_once():
    agreement, sent = make()
    agreement.announce()
    assert not sent
    agreement.request()
    agreement.announce()
    agreement.announce()
    assert [message.kind for message in sent] == ["stop"]
    assert agreement.is_coming


def test_worker_that_was_asked_waits_for_the_answer_and_stops_there():
    agreement, sent = make()
    assert not agreement.finish_step()
    agreement.receive(Message("count_steps"))
    assert [message["count"] for message in sent] == [1]
    assert [agreement.finish_step() for _ in range(4)] == [False, False, True, True]


def test_worker_that_asks_begins_no_step_before_the_answer():
    agreement, sent = make()
    agreement.request()
    assert not agreement.finish_step()
    assert [message.kind for message in sent] == ["stop"]
    assert [agreement.finish_step() for _ in range(3)] == [False, False, True]
