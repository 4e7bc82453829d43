"""Writes the tables of README.md, docs/performance.md and docs/scale.md.

    python benchmarks/page.py

What is between marks is replaced: `<!-- results -->` and `<!-- end of results -->`.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
README = HERE.parent / "README.md"
# The columns of the README's table: group, contender, and what it is called there.
SHOWN = (
    ("2 replicas", "JAX", "JAX by hand"),
    ("2 replicas", "TensorFlow", "TensorFlow"),
    ("2 workers", "PyTorch DDP", "PyTorch DDP, 2 workers"),
)


def performance_tables(results, plots):
    """Returns a section for each group of rows."""
    machine = results["machine"]
    versions = "".join(f", {k} {v}" for k, v in sorted(results["versions"].items()))
    days = sorted({row["measured"] for row in results["rows"]})
    period = f"Measured from {days[0]} to {days[-1]}" if days else "Nothing measured"
    lines = [
        f"{period} on {machine['cores']} cores, with Python {machine['python']}"
        f"{versions}.",
    ]
    skipped = {}
    for record in results["skipped"]:
        skipped.setdefault((record["name"], record["why"]), []).append(record["group"])
    for (name, why), groups in skipped.items():
        titles = ", ".join(f'"{title(group)}"' for group in groups)
        lines.append(f"\nNot measured under {titles}: {name} ({why}).")
    groups = {}
    for row in results["rows"]:
        groups.setdefault(row["group"], []).append(row)
    for group, rows in groups.items():
        lines += ["", f"## {title(group)}", ""]
        plot = f"{group.replace(' ', '_').lower()}.svg"
        if (plots / plot).exists():
            lines += [f"![{group}](plots/{plot})", ""]
        if any("ratios" in row for row in rows):
            lines += ["| | ms | against | ms | ratio | quartiles | target |"]
            lines += ["|---|---|---|---|---|---|---|"]
            lines += [line for row in rows for line in comparison_lines(row)]
        else:
            lines += seconds_table(rows)
    return "\n".join(lines)


def title(group):
    """Returns the heading of a group.

    >>> title("by workers")
    'By workers'
    """
    return f"{group[0].upper()}{group[1:]}"


def short_table(results):
    """Returns the ratios that the README shows, with a line for each model."""
    ratios = {
        (row["group"], row["name"], label): f"{ratio['median']:.2f}"
        for row in results["rows"]
        for label, ratio in row.get("ratios", {}).items()
    }
    models = dict.fromkeys(name for group, name, _ in ratios if group == SHOWN[0][0])
    lines = [
        f"| | {' | '.join(title for _, _, title in SHOWN)} |",
        "|---" * (len(SHOWN) + 1) + "|",
    ]
    for model in models:
        cells = [ratios.get((group, model, label), "") for group, label, _ in SHOWN]
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def seconds_table(rows):
    """Returns the lines of a table with a column for each contender."""
    labels = list(dict.fromkeys(label for row in rows for label in row["seconds"]))
    lines = [f"| seconds | {' | '.join(labels)} |", "|---" * (len(labels) + 1) + "|"]
    for row in rows:
        found = row["seconds"]
        cells = [f"{found[label]:.2f}" if label in found else "" for label in labels]
        lines.append(f"| {row['name']} | {' | '.join(cells)} |")
    return lines


def comparison_lines(row):
    """Yields a line of a table for each other contender."""
    first = next(label for label in row["seconds"] if label not in row["ratios"])
    name, ours = row["name"], milliseconds(row["seconds"][first])
    for label, ratio in row["ratios"].items():
        limit = f"{ratio['limit']:.2f}" if "limit" in ratio else ""
        missed = "" if ratio.get("is_kept", True) else " (missed)"
        theirs = milliseconds(row["seconds"][label])
        median, low, high = (f"{ratio[k]:.2f}" for k in ("median", "low", "high"))
        yield (
            f"| {name} | {ours} | {label} | {theirs} | {median} | {low} to {high} "
            f"| {limit}{missed} |"
        )
        name = ours = ""


def milliseconds(seconds):
    """Returns three digits, or more before the point.

    >>> milliseconds(0.0012345), milliseconds(2.2606)
    ('1.23', '2,261')
    """
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def scale_table(rows):
    """Returns a table with a column for each fact."""
    heads = [head.replace("_", " ") for head in rows[0]]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(map(shown, row.values()))} |" for row in rows]
    return "\n".join(lines)


def shown(value):
    """Returns a number as text.

    >>> shown(104492), shown(0.1234)
    ('104,492', '0.12')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def replace(page, name, text):
    r"""Returns the page with that text between the marks of that name.

    >>> replace("<!-- a --> old <!-- end of a -->.", "a", "new")
    '<!-- a -->\nnew\n<!-- end of a -->.'
    """
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = page.split(start)
    _, after = rest.split(end)
    return f"{before}{start}\n{text}\n{end}{after}"


def make_pages():
    """Returns by path the pages that there are results for."""
    pages = {}
    if (results := HERE / "results.json").exists():
        found = json.loads(results.read_text())
        path = DOCS / "performance.md"
        tables = performance_tables(found, DOCS / "plots")
        pages[path] = replace(path.read_text(), "results", tables)
        pages[README] = replace(README.read_text(), "results", short_table(found))
    if (results := HERE / "scale.json").exists():
        path = DOCS / "scale.md"
        pages[path] = path.read_text()
        for name in ("programs", "coordinator"):
            if rows := json.loads(results.read_text())[name]:
                pages[path] = replace(pages[path], name, scale_table(rows))
    return pages


def main():
    for path, text in make_pages().items():
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()
