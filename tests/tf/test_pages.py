"""The code in README.md and docs/ that is about this layer runs as it stands."""

import pytest

from tests.pages import LAYER, PAGES, run, uses_layer


@pytest.mark.parametrize("page", ["README.md", *filter(uses_layer, PAGES)])
def test_page_runs_as_it_stands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, wanted=lambda block: page != "README.md" or LAYER in block)
