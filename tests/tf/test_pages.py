"""The code in docs/ that is about this layer runs as it stands."""

import pytest

from tests.pages import PAGES, run, uses_layer


@pytest.mark.parametrize("page", [*filter(uses_layer, PAGES)])
def test_page_runs_as_it_stands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page)
