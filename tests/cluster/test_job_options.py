import pytest

from mirrax.cluster.job_options import JobOptions, read_options


def test_variables_set_options():
    options = read_options(
        {"MIRRAX_JOIN_TIMEOUT": "60", "MIRRAX_SECRET": "s", "MIRRAX_BIND": "0.0.0.0"}
    )
    assert options == JobOptions(join_timeout=60.0, secret="s", bind="0.0.0.0")


def test_secrets_are_not_shown():
    assert "hidden" not in repr(JobOptions(secret="hidden", token="hidden"))


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan"])
def test_wrong_time_is_refused(text):
    with pytest.raises(ValueError, match=r"must be a number of seconds.* Received"):
        read_options({"MIRRAX_STUCK_TIMEOUT": text})
