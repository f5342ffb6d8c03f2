"""Just enough SVG for the plots of the documentation: text, bars, lines, in light and in dark.

The same data gives the same bytes. Colours are classes, which a style sheet in the picture sets for
the theme of the reader.
"""

from collections.abc import Iterable, Iterator
from html import escape

STYLE = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px } .small { font-size: 11.5px; fill: #59636e }
.end { text-anchor: end } .middle { text-anchor: middle } .strong { font-weight: 600 }
.ours { fill: #2f6fde } .other { fill: #a9b4c0 } .second { fill: #8250df } .third { fill: #bf8700 }
line { stroke: #d1d9e0; stroke-width: 1 } .mark { stroke: #59636e; stroke-dasharray: 4 3 }
polyline { fill: none !important; stroke-width: 2; stroke: #a9b4c0 }
polyline.ours { stroke: #2f6fde } polyline.second { stroke: #8250df }
polyline.third { stroke: #bf8700 }
.good { fill: #b7e0c2 } .even { fill: #e3e7eb } .bad { fill: #f4d3a1 } .none { fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9198a1 } .ours { fill: #58a6ff } .other { fill: #656d76 }
.second { fill: #bc8cff } .third { fill: #d29922 }
line { stroke: #3d444d } .mark { stroke: #9198a1 }
polyline { stroke: #656d76 } polyline.ours { stroke: #58a6ff }
polyline.second { stroke: #bc8cff } polyline.third { stroke: #d29922 }
.good { fill: #1f5130 } .even { fill: #2b3138 } .bad { fill: #6b4a12 }
}"""


def number(value: float) -> str:
    """A coordinate."""
    return f"{value:.1f}".removesuffix(".0")


def element(name: str, text: str = "", cls: str = "", **attributes: float | str) -> str:
    words = [name]
    words += [f'class="{cls}"'] if cls else []
    for key, value in attributes.items():
        shown = value if isinstance(value, str) else number(value)
        words.append(f'{key.replace("_", "-")}="{escape(shown)}"')
    return f"<{' '.join(words)}>{text}</{name}>" if text else f"<{' '.join(words)}/>"


def text(x: float, y: float, words: str, cls: str = "") -> str:
    return element("text", escape(words), cls, x=x, y=y)


def rect(x: float, y: float, width: float, height: float, cls: str) -> str:
    return element("rect", cls=cls, x=x, y=y, width=width, height=height, rx=2)


def line(x1: float, y1: float, x2: float, y2: float, cls: str = "") -> str:
    return element("line", cls=cls, x1=x1, y1=y1, x2=x2, y2=y2)


def polyline(points: Iterable[tuple[float, float]], cls: str) -> str:
    return element(
        "polyline", cls=cls, points=" ".join(f"{number(x)},{number(y)}" for x, y in points)
    )


def picture(width: float, height: float, title: str, parts: Iterable[str]) -> Iterator[str]:
    """The lines of the file; `title` is for those who cannot see it."""
    size = f'viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} height="{number(height)}" role="img">'
    yield f"<title>{escape(title)}</title>"
    yield f"<style>\n{STYLE}\n</style>"
    yield from parts
    yield "</svg>"
