"""The wheel and the source archive."""

import pathlib
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest

import mirrax
from tools import check_dist

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True, timeout=600)
    return folder


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(dist):
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "mirrax/py.typed" in names
    assert "mirrax/tf/__init__.py" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"mirrax"}
    assert not [name for name in names if "/tests/" in name or "/test_" in name]


@pytest.mark.slow
def test_source_archive_holds_sources_docs_and_licence(dist):
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    wanted = {"src/mirrax/__init__.py", "README.md", "LICENSE", "docs/data.md"}
    assert wanted <= names
    # The site needs files that are only in the repository.
    unwanted = ("tests", "benchmarks", "mkdocs.yml")
    assert not any(name.startswith(unwanted) for name in names)


@pytest.mark.slow
def test_wheel_works_in_a_new_environment(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=600)
    python = environment / "bin" / "python"
    install = [python, "-m", "pip", "install", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, timeout=600)
    # JAX and the rest come from here, without the network.
    (packages,) = environment.glob("lib/python*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "here.pth").write_text("\n".join(here))
    program = "import mirrax, mirrax.tf, mirrax.launch.cli; print(mirrax.__file__)"
    done = subprocess.run(
        [python, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert done.stdout.strip() == str(packages / "mirrax" / "__init__.py")


def test_missing_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(check_dist, "DIST", tmp_path)
    with pytest.raises(SystemExit, match=r"must hold one \*.whl. Received: \[\]. Run"):
        check_dist.find_package("*.whl")


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {project['version']}\n" in citation
    assert mirrax.__version__ == project["version"]


def test_all_is_every_extra_that_users_need():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (everything,) = extras["all"]
    assert everything == "mirrax[data,flax,keras,tf]"
