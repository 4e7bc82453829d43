"""Adds to the site what is not in docs/: the API reference, README, examples.

mkdocs.yml names this file twice: as hooks of MkDocs, and as an extension of Griffe,
which reads the docstrings. As a program, it writes docs/api.md.
"""

import enum
import functools
import inspect
import pathlib
import re
import types
from collections.abc import Iterator
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import mirrax
import mirrax.testing

ROOT = pathlib.Path(__file__).resolve().parent.parent

HOME = "README.md"
"""The first page."""

DOCUMENTS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Other pages that are not in docs/."""

GROUPS = {
    "strategy": "Strategies and contexts",
    "variables": "Variables",
    "values": "Values",
    "run": "Functions, gradients, control flow",
    "input": "Distributed input",
    "collectives": "Collectives",
    "options": "Options",
}
"""The pages of the reference for names in `mirrax`, by the folder they come from."""

INNER = {
    "Function": {
        *("call", "compiled", "fn", "last_call", "last_replica_function", "name"),
        *("over", "programs", "remember", "runs_eagerly"),
    },
    "Variable": {
        *("is_aliased", "is_written_together", "read_stored", "refuse_read_in_jit"),
        *("refuse_write_in_transformation", "shared_name", "shared_view", "slot"),
        *("store", "stored", "traced_aval"),
    },
}
"""Members of classes that are for the engines of `run`, not for users."""


def list_reference() -> dict[str, list[str]]:
    """Returns the names (`Variable`, `nn.moments`) on each page, by its title."""
    pages: dict[str, list[str]] = {title: [] for title in GROUPS.values()}
    modules = []
    for name in mirrax.__all__:
        thing = getattr(mirrax, name)
        if isinstance(thing, types.ModuleType):
            modules.append(thing)
        else:
            folder = thing.__module__.split(".")[1]
            title = GROUPS.get(folder, f"mirrax.{folder}")
            pages.setdefault(title, []).append(name)
    for module in [*modules, mirrax.testing]:
        title = module.__name__
        prefix = title.removeprefix("mirrax.")
        names = [f"{prefix}.{name}" for name in list_members(module)]
        pages.setdefault(title, []).extend(names)
    return pages


def list_members(thing: Any) -> list[str]:
    """Returns the public names that a class or a module of ours has for users.

    A class has those of its bases, too, if the reference does not show the bases.
    """
    if isinstance(thing, enum.EnumType):
        return list(thing.__members__)
    if isinstance(thing, types.ModuleType):
        own = [name for name in sorted(vars(thing)) if _is_own(thing, name)]
        return list(getattr(thing, "__all__", own))
    public = _public_classes()
    hidden = set().union(*(INNER.get(each.__name__, ()) for each in thing.__mro__))
    homes = [each for each in thing.__mro__ if each is thing or each not in public]
    return sorted(
        {
            name
            for home in homes
            if home.__module__.startswith("mirrax")
            for name in vars(home)
            if not name.startswith("_") and name not in hidden
        }
    )


@functools.cache
def _public_classes() -> set[type]:
    names = [name for names in list_reference().values() for name in names]
    return {thing for thing in map(find, names) if isinstance(thing, type)}


def _is_own(module: types.ModuleType, name: str) -> bool:
    if name.startswith("_"):
        return False
    home = getattr(getattr(module, name), "__module__", "") or ""
    is_package = (module.__file__ or "").endswith("__init__.py")
    return home.startswith("mirrax") if is_package else home == module.__name__


def find(name: str) -> Any:
    """Returns what has a name of the reference, such as `nn.moments`."""
    thing: Any = mirrax
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def summarize(thing: Any) -> str:
    """Returns the first line of a docstring."""
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


def write_page(title: str, names: list[str]) -> str:
    """Returns a page of the reference in Markdown, for mkdocstrings to fill."""
    is_module = title.startswith("mirrax.")
    about = f"{summarize(find(title.removeprefix('mirrax.')))}\n" if is_module else ""
    parts = [f"# {f'`{title}`' if is_module else title}\n", about]
    for name in names:
        parts.append(f"::: mirrax.{name}\n    options:\n      heading_level: 2\n")
        thing = find(name)
        if inspect.isclass(thing):
            members = ", ".join(list_members(thing))
            parts.append(f"      members: [{members}]\n")
            parts.append(f"      inherited_members: [{members}]\n")
    return "\n".join(parts[:2]) + "\n" + "".join(parts[2:])


def write_overview(reference: dict[str, list[str]]) -> str:
    """Returns the list of all names, each with the first line of its docstring."""
    lines = []
    for title, names in reference.items():
        shown = f"`{title}`" if title.startswith("mirrax.") else title
        lines += [f"\n## {shown}\n", "| name | what it is |", "|---|---|"]
        for name in names:
            about = summarize(find(name)).replace("|", "\\|")
            lines.append(f"| `{name}` | {about} |")
    return "\n".join(lines)


def link_overview(markdown: str) -> str:
    """Makes links of the headings and names, to the pages that only the site has."""
    for title, names in list_reference().items():
        page = path_of(title)
        for shown in (title, f"`{title}`"):
            markdown = markdown.replace(f"\n## {shown}\n", f"\n## [{shown}]({page})\n")
        for name in names:
            link = f"\n| [`{name}`]({page}#mirrax.{name}) |"
            markdown = markdown.replace(f"\n| `{name}` |", link)
    return markdown


def path_of(title: str) -> str:
    """Returns the file of a page of the reference."""
    short = {title: folder for folder, title in GROUPS.items()}.get(title, title)
    return f"api/{short.removeprefix('mirrax.')}.md"


def list_linked_files() -> Iterator[str]:
    """Returns the programs in examples/ that pages link to, as they are."""
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield path.relative_to(ROOT).as_posix()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are not in docs/."""
    reference = list_reference()
    for title, names in reference.items():
        content = write_page(title, names)
        files.append(File.generated(config, path_of(title), content=content))
    for name in (HOME, *DOCUMENTS):
        path = "index.md" if name == HOME else name
        content = (ROOT / name).read_text()
        files.append(File.generated(config, path, content=content))
    for name in list_linked_files():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Makes links that work in the repository work on the site."""
    if page.file.src_uri == "api.md":
        markdown = link_overview(markdown)
    markdown = re.sub(r"\]\((?:\.\./|docs/)", "](", markdown)
    return re.sub(rf"\]\({HOME}", "](index.md", markdown)


class Doctests(griffe.Extension):
    """Shows examples in docstrings as code: `>>>` means a quotation in Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Puts fences around the examples of a docstring."""
        if obj.docstring:
            obj.docstring.value = fence(obj.docstring.value)


def fence(text: str) -> str:
    """Returns a docstring with its doctests in fences."""
    blocks = re.compile(r"^>>> .*?(?=\n\s*\n(?!>>> )|\Z)", re.DOTALL | re.MULTILINE)
    return blocks.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)


if __name__ == "__main__":
    path = ROOT / "docs" / "api.md"
    introduction = path.read_text().partition("\n## ")[0]
    path.write_text(f"{introduction}{write_overview(list_reference())}\n")
