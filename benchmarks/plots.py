"""Draws the plots of docs/performance.md from `results.json`, as SVG and PNG.

python benchmarks/plots.py [--results FILE] [--folder docs/plots]
"""

import argparse
import json
import pathlib

import matplotlib as mpl

mpl.use("agg")
from matplotlib import pyplot, ticker

# Text stays text, and equal results give equal files.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mirrax"})

HERE = pathlib.Path(__file__).resolve().parent
COMPARED = ("2 replicas", "2 workers", "Keras fit")
# By group: what grows.
GROWTH = {
    "by variables": "variables that a step changes",
    "by batch": "rows of a batch",
    "by dataset": "rows of a dataset",
    "by replicas": "replicas on one CPU, the same batch divided among them",
    "by workers": "workers on one machine",
    "start-up": "replicas",
}
# A contender has the same color in all plots.
COLORS = {
    "Mirrax": "#3f51b5",
    "JAX": "#26a69a",
    "JAX, psum": "#80cbc4",
    "JAX, exchange": "#26a69a",
    "DataParallel": "#26a69a",
    "TensorFlow": "#ef6c00",
    "tf_keras": "#ef6c00",
    "tf.data": "#ef6c00",
    "PyTorch DDP": "#c62828",
    "Accelerate": "#ad1457",
    "Fabric": "#8e24aa",
}
# Longer bars are cut, and say how long they are.
MAX_LENGTH = 4


def draw_comparison(rows):
    """Returns bars: how long a step takes, for each model and library."""
    height = sum(len(row["seconds"]) + 1 for row in rows)
    figure, axes = pyplot.subplots(figsize=(6.4, 1.4 + 0.22 * height))
    place, ticks = 0.0, []
    for row in rows:
        start = place
        for label in sorted(row["seconds"], key=list(COLORS).index):
            ratio = row["ratios"].get(label, {"median": 1.0})
            length = 1 / ratio["median"]
            shown = min(length, MAX_LENGTH)
            axes.barh(place, shown, 0.85, color=COLORS[label], label=label)
            text = f"{length:.2f}  ({row['seconds'][label] * 1e3:.3g} ms)"
            axes.text(shown + 0.03, place, text, va="center", fontsize=8)
            place += 1
        ticks.append(((start + place - 1) / 2, row["name"]))
        place += 1
    axes.set_yticks(*zip(*ticks, strict=True))
    axes.set(xlim=(0, MAX_LENGTH + 1.4), ylim=(place - 1, -1))
    axes.axvline(1, color="gray", linewidth=0.8)
    axes.set_xlabel("time of a step, relative to Mirrax (shorter is faster)")
    show_legend(axes)
    return figure


def draw_growth(rows, name, title):
    """Returns lines: how the time grows with something."""
    rows = [row for row in rows if row.get("x")]
    is_seconds = title == "start-up"
    figure, axes = pyplot.subplots(figsize=(6.4, 4))
    for label in dict.fromkeys(label for row in rows for label in row["seconds"]):
        points = [
            (row["x"], row["seconds"][label] * (1 if is_seconds else 1e3))
            for row in rows
            if label in row["seconds"]
        ]
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, marker="o", color=COLORS[label], label=label)
    axes.set(xscale="log", xlabel=name)
    if is_seconds:
        axes.set(ylim=(0, None), ylabel="seconds to the end of the first step")
    else:
        axes.set(yscale="log", ylabel="milliseconds")
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_formatter("{x:,g}")
    ticks = [row["x"] for row in rows]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.grid(alpha=0.3)
    show_legend(axes)
    return figure


def show_legend(axes):
    """Names each color once, above the plot: that leaves its width to the plot."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    options = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "frameon": False}
    axes.legend(once.values(), once.keys(), ncols=3, fontsize="small", **options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results.json")
    folder = HERE.parent / "docs" / "plots"
    parser.add_argument("--folder", type=pathlib.Path, default=folder)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    groups = {}
    for row in json.loads(options.results.read_text())["rows"]:
        groups.setdefault(row["group"], []).append(row)
    for group, rows in groups.items():
        if group in COMPARED:
            figure = draw_comparison(rows)
        elif group in GROWTH:
            figure = draw_growth(rows, GROWTH[group], group)
        else:
            continue
        figure.tight_layout()
        path = options.folder / f"{group.replace(' ', '_').lower()}.svg"
        figure.savefig(path, metadata={"Date": None})
        figure.savefig(path.with_suffix(".png"), dpi=130)
        pyplot.close(figure)
        print(path)


if __name__ == "__main__":
    main()
