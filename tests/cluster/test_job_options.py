import pytest

from mirrax.cluster.job_options import JobOptions, read_options


def test_variables_set_options():
    options = read_options(
        {"MIRRAX_JOIN_TIMEOUT": "60", "MIRRAX_SECRET": "s", "MIRRAX_BIND": "0.0.0.0"}
    )
    assert options == JobOptions(join_timeout=60.0, secret="s", bind="0.0.0.0")


def test_secrets_are_not_shown():
    assert "hidden" not in repr(JobOptions(secret="hidden", token="hidden"))


def test_grace_after_a_failure_can_be_set():
    assert read_options({"MIRRAX_FAILURE_GRACE": "60"}).failure_grace == 60.0


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan"])
def test_wrong_time_is_refused(text):
    with pytest.raises(ValueError, match=r"must be a number of seconds.* Received"):
        read_options({"MIRRAX_STUCK_TIMEOUT": text})
