"""The example of the README that is about this layer runs as it stands."""

from tests.test_readme import EXAMPLES, EXPECTED, require_output


def test_readme_example_runs_as_it_stands():
    (program,) = EXAMPLES[len(EXPECTED) :]
    assert "mirrax.tf" in program
    require_output(program, r"^16\.875")
