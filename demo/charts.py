"""The charts of the demo, as SVG: the losses of all runs, and the kill of a worker."""

import html

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 20, 40
# Wide lines below, narrow ones above: all can be seen where they coincide.
LINES = (("#8fb3e2", 11, ""), ("#e0861a", 5, ""), ("currentColor", 2, "7 5"))
RED = "#d0443e"
PICTURE_STYLE = "text { font-family: system-ui, sans-serif; font-size: 20px }"


def draw_picture(runs):
    """Returns both charts side by side, on a background that suits any page."""
    top = 44
    charts = (
        ("The same loss on 1 replica, 2 replicas, 2 workers", draw_losses(runs)),
        ("Worker 1 is killed: the job resumes by itself", draw_recovery(runs[-1])),
    )
    shapes = "".join(
        f"<g transform='translate({number * WIDTH} {top})'>"
        f"{text(LEFT, -14, title, weight='bold')}{chart}</g>"
        for number, (title, chart) in enumerate(charts)
    )
    width, height = 2 * WIDTH, HEIGHT + top
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"color='#24292f'><style>{PICTURE_STYLE}</style>"
        f"<rect width='{width}' height='{height}' rx='10' fill='#fbfbfd'/>"
        f"{shapes}</svg>\n"
    )


def draw_losses(runs):
    """Returns the loss of each step; the lines of equal runs coincide."""
    longest = max(len(run.losses) for run in runs)
    highest = max(max(run.losses) for run in runs)
    x, y = (
        scale(1, longest, LEFT, WIDTH - RIGHT),
        scale(0, highest, HEIGHT - BOTTOM, TOP),
    )
    shapes = [grid(y, range(int(highest) + 1))]
    for number, (run, line) in enumerate(zip(runs, LINES, strict=True)):
        points = ((x(i), y(loss)) for i, loss in enumerate(run.losses, 1))
        shapes.append(polyline(points, line))
        height = TOP + 14 + 30 * number
        shapes.append(polyline([(WIDTH - 300, height), (WIDTH - 250, height)], line))
        shapes.append(text(WIDTH - 240, height + 5, run.name))
    shapes.append(text(LEFT, HEIGHT - 10, "step 1"))
    shapes.append(text(WIDTH / 2, HEIGHT - 10, "loss, by step", "middle"))
    shapes.append(text(WIDTH - RIGHT, HEIGHT - 10, f"step {longest}", "end"))
    return "".join(shapes)


def draw_recovery(run):
    """Returns how many steps are done at each moment, and where a worker is killed."""
    start, seconds = run.steps[0]["time"], run.steps[-1]["time"] - run.steps[0]["time"]
    num_steps = len(run.losses)
    x = scale(0, seconds, LEFT, WIDTH - RIGHT)
    y = scale(0, num_steps, HEIGHT - BOTTOM, TOP)
    points = [(step["time"] - start, step["step"]) for step in run.steps]
    resumed = run.killed + run.seconds_to_resume - start
    parts = (
        [(x(t), y(n)) for t, n in points if t < resumed],
        [(x(t), y(n)) for t, n in points if t >= resumed],
    )
    killed = x(run.killed - start)
    color, _, _ = LINES[2]
    return (
        grid(y, (0, num_steps // 2, num_steps))
        + f"<rect x='{killed:.1f}' y='{TOP}' width='{x(resumed) - killed:.1f}' "
        f"height='{HEIGHT - TOP - BOTTOM}' fill='{RED}' opacity='.15'/>"
        + polyline([(killed, TOP), (killed, HEIGHT - BOTTOM)], (RED, 2, ""))
        + "".join(polyline(part, (color, 3, "")) for part in parts)
        + text(killed + 8, TOP + 22, "SIGKILL")
        + text(killed + 8, TOP + 50, f"{run.seconds_to_resume:.1f} s to the next step")
        + text(LEFT, HEIGHT - 10, "0 s")
        + text(WIDTH / 2, HEIGHT - 10, "steps done, by time", "middle")
        + text(WIDTH - RIGHT, HEIGHT - 10, f"{seconds:.1f} s", "end")
    )


def scale(low, high, start, end):
    """Returns a function that maps numbers from `low` to `high` to coordinates.

    >>> scale(0, 10, 100, 200)(5)
    150.0
    """
    return lambda value: start + (value - low) / ((high - low) or 1) * (end - start)


def grid(y, values):
    """Returns horizontal lines with their numbers."""
    return "".join(
        f"<path d='M{LEFT} {y(v):.1f}H{WIDTH - RIGHT}' stroke='#888' opacity='.35'/>"
        + text(LEFT - 8, y(v) + 5, f"{v}", "end")
        for v in values
    )


def polyline(points, line):
    """Returns a line in a color, a width and a pattern of dashes."""
    color, width, dashes = line
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f"<polyline points='{places}' fill='none' stroke='{color}' "
        f"stroke-width='{width}' stroke-dasharray='{dashes}' stroke-linejoin='round'/>"
    )


def text(x, y, content, anchor="start", weight="normal"):
    """Returns a text that begins, or ends, at a place."""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' "
        f"fill='currentColor' font-weight='{weight}'>{html.escape(content)}</text>"
    )
