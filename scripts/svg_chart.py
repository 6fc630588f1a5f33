"""Charts as SVG files, without other libraries: lines and horizontal bars, in panels beside each other."""
import math
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b")
WIDTH, HEIGHT, MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 520, 340, 64, 16, 40, 48


def ticks(low, high, about=5):
    """Returns round numbers from `low` to `high`, about as many as asked for."""
    span = (high - low) / about
    power = 10 ** math.floor(math.log10(span))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span)
    first = math.ceil(low / step - 1e-9)
    return [step * i for i in range(first, math.floor(high / step + 1e-9) + 1)]


def text(x, y, words, anchor="middle", size=12, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def line(x1, y1, x2, y2, colour="#ccc", width=1):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


@dataclass
class Lines:
    """A panel with a line for each of `series`, which maps names to lists of (x, y). Values above `top` are cut off."""
    title: str
    x_label: str
    y_label: str
    series: dict = field(default_factory=dict)
    top: float | None = None

    def draw(self):
        finite = {name: [(x, y) for x, y in points if math.isfinite(y)] for name, points in self.series.items()}
        xs = [x for points in finite.values() for x, _ in points]
        ys = [y for points in finite.values() for _, y in points]
        left, right, low, high = min(xs), max(xs), min(ys), self.top or max(ys)
        low, high = low - 0.04 * (high - low), high + (0 if self.top else 0.04 * (high - low))

        def at(x, y):
            return (MARGIN_LEFT + (x - left) / (right - left) * (WIDTH - MARGIN_LEFT - MARGIN_RIGHT),
                    HEIGHT - MARGIN_BOTTOM - (min(y, high) - low) / (high - low) * (HEIGHT - MARGIN_TOP - MARGIN_BOTTOM))
        parts = [text(WIDTH / 2, 20, self.title, size=14), text(WIDTH / 2, HEIGHT - 10, self.x_label),
                 text(16, HEIGHT / 2, self.y_label, more=f' transform="rotate(-90 16 {HEIGHT / 2})"')]
        for x in ticks(left, right):
            parts += [line(*at(x, low), *at(x, high)), text(at(x, low)[0], at(x, low)[1] + 16, f"{x:g}")]
        for y in ticks(low, high):
            parts += [line(*at(left, y), *at(right, y)), text(MARGIN_LEFT - 6, at(left, y)[1] + 4, f"{y:g}", "end")]
        for number, (name, points) in enumerate(finite.items()):
            colour = COLOURS[number % len(COLOURS)]
            path = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
            y = MARGIN_TOP + 14 + 17 * number
            parts += [line(WIDTH - 28, y - 4, WIDTH - MARGIN_RIGHT - 2, y - 4, colour, 3),
                      text(WIDTH - 34, y, name, "end")]
        return parts


@dataclass
class Bars:
    """A panel with a horizontal bar for each of `values`, which maps names to numbers, and a vertical line at `goal`."""
    title: str
    x_label: str
    values: dict = field(default_factory=dict)
    goal: float | None = None

    def draw(self):
        left, right = 170, WIDTH - 56
        high = max([*self.values.values(), self.goal or 0])
        row = (HEIGHT - MARGIN_TOP - MARGIN_BOTTOM) / len(self.values)
        parts = [text(WIDTH / 2, 20, self.title, size=14), text((left + right) / 2, HEIGHT - 14, self.x_label)]
        for number, (name, value) in enumerate(self.values.items()):
            y, length = MARGIN_TOP + row * number, value / high * (right - left)
            parts += [f'<rect x="{left}" y="{y + 0.2 * row:.1f}" width="{length:.1f}" height="{0.6 * row:.1f}" '
                      f'fill="{COLOURS[number % len(COLOURS)]}"/>',
                      text(left - 6, y + 0.5 * row + 4, name, "end"),
                      text(left + length + 5, y + 0.5 * row + 4, f"{value:.1f}", "start")]
        if self.goal:
            x = left + self.goal / high * (right - left)
            parts += [line(x, MARGIN_TOP, x, HEIGHT - MARGIN_BOTTOM, "#555", 1.5),
                      text(x, HEIGHT - MARGIN_BOTTOM + 14, f"{self.goal:g}")]
        return parts


def write(path, panels):
    """Writes the panels, side by side, to the file `path`."""
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(panels)} {HEIGHT}" font-family="sans-serif">',
             '<rect width="100%" height="100%" fill="white"/>']
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({WIDTH * number} 0)">', *panel.draw(), "</g>"]
    path.write_text("\n".join([*parts, "</svg>", ""]))


def smooth(losses, steps):
    """Returns (step, mean loss) of each run of `steps` losses."""
    return [(end, sum(losses[end - steps:end]) / steps) for end in range(steps, len(losses) + 1, steps)]
