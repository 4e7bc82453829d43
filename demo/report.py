"""The report of the demo: one self-contained page of HTML and SVG."""

import dataclasses
import html
import statistics

import numpy as np

# Found beside this file.
from charts import HEIGHT, WIDTH, draw_losses, draw_recovery, text

PARTS = {
    "input": "#8e6bbf",
    "Python": "#8a8a8a",
    "compute": "#3b6fb6",
    "communication": "#d9822b",
}

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto;
       padding: 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
svg { width: 100%; height: auto; } svg text { font-size: 13px; }
.table { overflow-x: auto; margin-bottom: 1rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .25rem .7rem .25rem 0; vertical-align: top;
         border-bottom: 1px solid #8884; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
th.number { white-space: normal; } .long { overflow-wrap: anywhere; min-width: 9rem; }
@media (max-width: 600px) { body { font-size: 15px; } svg text { font-size: 22px; }
  table { font-size: 12px; } td, th { padding-right: .4rem; }
  .long { min-width: 7rem; } }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
.keys span { margin-right: 1.2em; white-space: nowrap; }
"""


@dataclasses.dataclass
class Run:
    """What one training run left."""

    name: str
    steps: list[dict]
    parameters: list[np.ndarray]
    devices: list[str]
    variables: list[dict]
    accuracy: float
    times: dict[str, float]
    killed: float | None = None

    @property
    def losses(self):
        """The loss of each step; of a step that was done again, the last one."""
        return list({step["step"]: step["loss"] for step in self.steps}.values())

    @property
    def num_repeated(self):
        """How many steps were done again after the kill."""
        return len(self.steps) - len(self.losses)

    @property
    def seconds_to_resume(self):
        """The seconds from the kill to the end of the next step."""
        # The survivor may end a step after the kill, so the next one is that of a new
        # process.
        first = self.steps[0]["process"]
        resumed = next(step for step in self.steps if step["process"] != first)
        return resumed["time"] - self.killed

    def difference(self, other):
        """Returns the largest difference between the parameters of two runs."""
        pairs = zip(self.parameters, other.parameters, strict=True)
        return float(max(np.abs(a - b).max() for a, b in pairs))


def write_report(runs):
    """Returns the page."""
    losses = svg(draw_losses(runs), "Loss by step")
    recovery = svg(draw_recovery(runs[-1]), "Steps done over time")
    sections = [
        ("Loss", losses, LOSSES),
        ("How exactly they agree", comparison_table(runs), EXACT),
        ("A worker is killed", recovery, describe_recovery(runs[-1])),
        ("Where the time of a step goes", time_chart(runs), TIMES),
        ("Where replicas and variables are", placement_table(runs), PLACEMENT),
    ]
    body = "".join(
        f"<section><h2>{title}</h2>{figure}<p>{text}</p></section>"
        for title, figure, text in sections
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Mirrax demo</title><style>{STYLE}</style></head><body>"
        "<h1>One script, three ways to run it</h1>"
        "<p>A small CNN learns handwritten digits on 1 replica, on 2 replicas, and on "
        "2 workers of which one is killed in the middle. Only the strategy differs.</p>"
        f"{body}</body></html>"
    )


LOSSES = "One line is drawn over the other: the three runs have the same losses."
EXACT = (
    "The last batch of each epoch is smaller than the others. One and two replicas add "
    "up in a different order, hence the last digits. Two replicas and two workers add "
    "up in the same order and give the same bits, also through a kill and a restart."
)
TIMES = (
    "Milliseconds, medians. Python: a step that computes nothing. Compute: the same "
    "step without sums between replicas, less that. Communication: the rest of the "
    "whole step. Input: waiting for the next batch, checkpoints included."
)
PLACEMENT = (
    "Every replica holds a copy of every variable; the copies are kept equal. The "
    "second table shows the variables of the run on 2 replicas."
)


def describe_recovery(run):
    return (
        f"Worker 1 got SIGKILL. The launcher started the job again, which restored the "
        f"newest checkpoint and repeated <b>{run.num_repeated}</b> steps. The next "
        f"step was done <b>{run.seconds_to_resume:.1f} s</b> after the kill. The chart "
        "shows how many steps were done at each moment; it is flat while XLA compiles "
        "for the smaller last batch."
    )


def comparison_table(runs):
    first, second, _ = runs
    rows = [
        (
            run.name,
            f"{run.accuracy:.1%}",
            f"{run.losses[-1]:.6f}",
            *(shown(run.difference(other)) for other in (first, second)),
        )
        for run in runs
    ]
    others = (f"parameters differ from {run.name} by" for run in (first, second))
    return table(("run", "accuracy", "last loss", *others), rows)


def shown(difference):
    return f"{difference:.1e}" if difference else "0"


def time_chart(runs):
    parts = [
        {"input": statistics.median(s["input"] for s in run.steps), **run.times}
        for run in runs
    ]
    longest = max(sum(part.values()) for part in parts)
    shapes = []
    for number, (run, part) in enumerate(zip(runs, parts, strict=True)):
        y, left = 24 + 56 * number, 0.0
        shapes.append(text(0, y, run.name))
        for name, color in PARTS.items():
            width = part[name] / longest * (WIDTH - 80)
            label = f"{name} {part[name] * 1e3:.2f} ms"
            shapes.append(
                f"<rect x='{left:.1f}' y='{y + 6}' width='{width:.1f}' height='20' "
                f"fill='{color}'><title>{label}</title></rect>"
            )
            left += width
        shapes.append(text(left + 6, y + 21, f"{sum(part.values()) * 1e3:.1f} ms"))
    rows = [
        (run.name, *(f"{part[name] * 1e3:.2f}" for name in PARTS))
        for run, part in zip(runs, parts, strict=True)
    ]
    return (
        keys(PARTS.items())
        + svg("".join(shapes), "Time of a step", height=56 * len(runs) + 10)
        + table(("run", *PARTS), rows)
    )


def placement_table(runs):
    rows = [
        (run.name, " ".join(run.devices), f"{len(run.variables)}", f"{size:,}")
        for run in runs
        for size in [sum(v["bytes"] for v in run.variables)]
    ]
    variables = [
        (
            variable["name"],
            " x ".join(map(str, variable["shape"])),
            f"{variable['bytes']:,}",
            " ".join(name.split("/replica:0/")[1] for name in variable["devices"]),
        )
        for variable in runs[1].variables
    ]
    return table(("run", "replicas on", "variables", "bytes each"), rows) + table(
        ("variable", "shape", "bytes", "a copy on each of"), variables
    )


def table(heads, rows):
    # By column: names first, long texts to the left, numbers to the right.
    longest = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kinds = ["name", *("long" if size > 24 else "number" for size in longest[1:])]

    def line(tag, values):
        cells = (
            f"<{tag} class='{kind}'>{html.escape(value)}</{tag}>"
            for kind, value in zip(kinds, values, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    lines = [line("th", heads), *(line("td", row) for row in rows)]
    return f"<div class='table'><table>{''.join(lines)}</table></div>"


def keys(pairs):
    mark = "<i class='key' style='background:{}'></i>"
    shown = "".join(
        f"<span>{mark.format(color)}{html.escape(name)}</span>" for name, color in pairs
    )
    return f"<p class='keys'>{shown}</p>"


def svg(shapes, title, height=HEIGHT):
    return (
        f"<svg viewBox='0 0 {WIDTH} {height}' role='img'><title>{title}</title>"
        f"{shapes}</svg>"
    )
