"""Checks that the modules of src/mirrax import only earlier layers.

    python tools/check_layers.py [package folder]

Prints `file:line: rule: finding. Fix.` for each violation; exits with 1 on any.
"""

import ast
import dataclasses
import pathlib
import sys
from collections.abc import Iterator, Sequence

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "src" / "mirrax"

# Each stage may import itself and earlier ones. Modules of a folder can be stages of
# their own; the rest of the folder comes after them.
STAGES = (
    "lazy_modules",
    "errors",
    "html_tables",
    "options",
    "trees",
    "user_frames",
    "_jax",
    "devices",
    "cluster.cluster_spec",
    "cluster.membership",
    "cluster.job_options",
    "cluster.step_record",
    "cluster.net",
    "cluster.failure",
    "cluster.resolvers",
    "cluster.coordinator",
    "cluster.worker",
    "cluster",
    "context",
    "values",
    "collectives",
    "variables",
    "data",
    "input",
    "run.function_identity",
    "run.replica_context",
    "run.control_flow",
    "run.varying",
    "run.gradients",
    "run.eager",
    "run.sharded",
    "run.uneven",
    "run.compiled",
    "run.dispatch",
    "run",
    "strategy",
    "summary",
    "train",
    "launch",
    "integrations",
)
# These may import every stage and each other; no stage may import them.
TOP_MODULES = (
    "cluster_resolver",
    "config",
    "nn",
    "random",
    "testing",
    "__init__",
    "__main__",
)
# TensorFlow's names come last, and use only the public API.
LEGACY = "tf"
PUBLIC_MODULES = (
    "cluster_resolver",
    "config",
    "data",
    "errors",
    "nn",
    "random",
    "summary",
    "testing",
    "train",
)

# The modules that may use private names of a library.
HOMES_OF_PRIVATE_NAMES = {
    "jax": ("_jax/private.py",),
    "jaxlib": ("_jax/jaxlib.py",),
    "keras": ("integrations/keras/internals.py", "tf/keras_support/internals.py"),
    "flax": ("integrations/flax/internals.py",),
}
REQUIRED_PACKAGES = {
    "cloudpickle",
    "google_crc32c",
    "greenlet",
    "jax",
    "jaxlib",
    "numpy",
    "typing_extensions",
}


@dataclasses.dataclass(frozen=True)
class Violation:
    """One violation of a rule."""

    path: pathlib.Path
    line: int
    rule: str
    found: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.found}. {self.fix}"


@dataclasses.dataclass(frozen=True)
class Use:
    """A dotted name that a module imports, or reaches through an imported package."""

    name: str
    line: int
    is_import: bool = False
    in_function: bool = False

    @property
    def parts(self) -> list[str]:
        """The components of the name; the first is empty in a relative import."""
        return self.name.split(".")


def find_modules(package: pathlib.Path) -> list[pathlib.Path]:
    """Returns the Python files of a package, in a stable order."""
    return sorted(package.rglob("*.py"))


def check_package(package: pathlib.Path) -> list[Violation]:
    """Returns all violations in a package."""
    return [
        violation
        for path in find_modules(package)
        for violation in check_module(path, package)
    ]


def check_module(path: pathlib.Path, package: pathlib.Path) -> list[Violation]:
    """Returns the violations in one file of a package."""
    inside = path.relative_to(package)
    layer = _layer_of(inside.with_suffix("").as_posix().split("/"))
    if layer is None:
        layer = inside.parts[0].removesuffix(".py")
        fix = "Move the file into a layer, or add the layer to `tools/check_layers.py`."
        return [Violation(path, 1, "unknown-layer", f"`{layer}` is not a layer", fix)]
    violations = []
    for use in find_uses(ast.parse(path.read_text(), filename=str(path))):
        for rule, found, fix in (
            *_check_form(use),
            *_check_direction(use, layer),
            *_check_private_name(use, inside.as_posix()),
        ):
            violations.append(Violation(path, use.line, rule, found, fix))
    return violations


def find_uses(tree: ast.Module) -> list[Use]:
    """Returns the names that a module imports or reaches by attributes, in order."""
    collector = _UseCollector()
    collector.visit(tree)
    return collector.uses


Finding = tuple[str, str, str]


def _check_form(use: Use) -> Iterator[Finding]:
    if not use.parts[0]:
        yield (
            "relative-import",
            f"`{use.name}` is imported relatively",
            "Name the stage: `from mirrax.devices.topology import Topology`.",
        )
    elif use.in_function and not _is_optional(use.parts[0]):
        yield (
            "import-in-function",
            f"`{use.name}` is imported inside a function",
            "Import it at the top; only optional third-party packages may be here.",
        )


def _check_direction(use: Use, layer: str) -> Iterator[Finding]:
    if use.parts[0] != "mirrax":
        return
    target = _layer_of_use(use)
    if layer == LEGACY:
        if target != LEGACY and not _is_public(use):
            yield (
                "private-mirrax",
                f"`{LEGACY}` uses `{use.name}`, which is not public",
                f"Use `mirrax` or one of its public modules: {_join(PUBLIC_MODULES)}.",
            )
    elif _rank(target) > _rank(layer):
        yield (
            "upward-import",
            f"`{layer}` uses `{use.name}`, which belongs to `{target}` above it",
            f"Move the name down, or declare a Protocol in `{layer}`.",
        )


def _check_private_name(use: Use, inside: str) -> Iterator[Finding]:
    library = use.parts[0]
    homes = HOMES_OF_PRIVATE_NAMES.get(library, (inside,))
    if inside in homes or not any(map(_is_private, use.parts[1:])):
        return
    yield (
        "private-name",
        f"`{use.name}` is a private name of {library}",
        f"Use a public name, or wrap this one in `{homes[0]}`.",
    )


def _layer_of(parts: Sequence[str]) -> str | None:
    """Returns the layer of a dotted name below `mirrax`; None if it has none."""
    names = [".".join(parts[:count]) for count in (2, 1)]
    return next((n for n in names if n in (*STAGES, *TOP_MODULES, LEGACY)), None)


def _layer_of_use(use: Use) -> str:
    """Returns the layer that a `mirrax.` name belongs to; bare exports are the top."""
    return _layer_of(use.parts[1:]) or "__init__"


def _rank(layer: str) -> int:
    if layer in STAGES:
        return STAGES.index(layer)
    return len(STAGES) if layer in TOP_MODULES else len(STAGES) + 1


def _is_public(use: Use) -> bool:
    """Whether every user may write the name: `mirrax.X` or `mirrax.module.X`."""
    if any(map(_is_private, use.parts)):
        return False
    # Attributes may go deeper, as in `mirrax.data.Dataset.range`; imports may not.
    if use.is_import and len(use.parts) > 3:
        return False
    return _layer_of_use(use) == "__init__" or use.parts[1] in PUBLIC_MODULES


def _is_private(part: str) -> bool:
    is_dunder = part.startswith("__") and part.endswith("__")
    # Keras keeps everything private under `keras.src`.
    return part == "src" or (part.startswith("_") and not is_dunder)


def _is_optional(library: str) -> bool:
    return library not in {*sys.stdlib_module_names, *REQUIRED_PACKAGES, "mirrax"}


def _join(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


class _UseCollector(ast.NodeVisitor):
    def __init__(self) -> None:
        self.uses: list[Use] = []
        self._function_depth = 0

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add_import(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        separator = "" if module.endswith(".") else "."
        for alias in node.names:
            self._add_import(node, f"{module}{separator}{alias.name}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = ast.unparse(node)
        if name.replace(".", "").isidentifier():
            self.uses.append(Use(name, node.lineno))
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._function_depth += 1
        self.generic_visit(node)
        self._function_depth -= 1

    def _add_import(self, node: ast.Import | ast.ImportFrom, name: str) -> None:
        use = Use(
            name, node.lineno, is_import=True, in_function=self._function_depth > 0
        )
        self.uses.append(use)


def main(arguments: list[str]) -> int:
    """Prints the violations of a package and returns the exit code."""
    package = pathlib.Path(arguments[0]) if arguments else PACKAGE
    modules = find_modules(package)
    if not modules:
        print(f"There is no Python file to check. Received: {package}. Name a package.")
        return 1
    violations = check_package(package)
    print(
        *violations, f"{len(modules)} modules, {len(violations)} violations.", sep="\n"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
