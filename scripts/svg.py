"""A sheet to draw on, written out as SVG by hand: few shapes, one style sheet, readable on light and on dark pages."""

from __future__ import annotations

from xml.sax.saxutils import escape

FONT = "-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"

#: Class -> colour on a light and on a dark page. e1 … e5 are the epochs; the names say the rest.
COLOURS = {
    "e1": ("#0969da", "#58a6ff"),
    "e2": ("#bc4c00", "#f0883e"),
    "e3": ("#8250df", "#bc8cff"),
    "e4": ("#1a7f37", "#3fb950"),
    "e5": ("#9a6700", "#d29922"),
    "ink": ("#1f2328", "#e6edf3"),
    "quiet": ("#59636e", "#9198a1"),
    "grid": ("#d1d9e0", "#3d444d"),
    "page": ("#ffffff", "#0d1117"),
    "late": ("#cf222e", "#ff7b72"),
}
#: What a class does beside its colour. Later ones win.
SHAPES = (
    "text{font-size:12px;stroke:none!important}"
    ".s{font-size:11px}.h{font-size:15px;font-weight:600}.b{font-weight:600}"
    ".m{text-anchor:middle}.r{text-anchor:end}"
    ".band{fill-opacity:.13}.past{fill-opacity:.07;stroke:none}.line{fill:none}.thick{fill:none;stroke-width:2}"
    ".dash{stroke-dasharray:4 3}.bare{stroke:none}"
)


class Sheet:
    """Collects shapes; classes, not attributes, say how they look."""

    def __init__(self, width: int, height: int, title: str, description: str):
        self.width = width
        self.height = height
        self.title = title
        self.description = description
        self._shapes: list[str] = []
        self._used: set[str] = {"page", "grid", "ink"}

    def text(self, x: float, y: float, words: str, look: str = "ink") -> None:
        """Words whose baseline is at y. Looks: ``m`` centres them on x, ``r`` ends them there."""
        self._add(f'<text class="{self._look(look)}" x="{_n(x)}" y="{_n(y)}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, look: str, round_by: float = 5) -> None:
        """A rectangle with round corners."""
        at = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        rounded = f' rx="{_n(round_by)}"' if round_by else ""
        self._add(f'<rect class="{self._look(look)}" {at}{rounded}/>')

    def band(self, x: float, y: float, width: float, height: float, look: str) -> None:
        """A box in a light shade of its colour; nothing shines through."""
        self.box(x, y, width, height, "page bare")
        self.box(x, y, width, height, f"{look} band")

    def line(self, x1: float, y1: float, x2: float, y2: float, look: str) -> None:
        """A straight line."""
        self._add(f'<path class="{self._look(look)}" d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}"/>')

    def dot(self, x: float, y: float, words: str, look: str) -> None:
        """A record: its value in a disc."""
        self._add(f'<circle class="{self._look(look)}" cx="{_n(x)}" cy="{_n(y)}" r="9"/>')
        self.text(x, y + 4, words, "page s b m")

    def ring(self, x: float, y: float, look: str) -> None:
        """A circle around a dot."""
        self._add(f'<circle class="{self._look(look)} line" cx="{_n(x)}" cy="{_n(y)}" r="12.5"/>')

    def flag(self, x: float, y: float, look: str) -> None:
        """A triangle that points down at (x, y)."""
        self._add(f'<path class="{self._look(look)}" d="M{_n(x)} {_n(y)}l-5 -8h10z"/>')

    def svg(self) -> str:
        """The whole file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
            f' height="{self.height}" role="img" aria-labelledby="t d" font-family="{FONT}">\n'
            f'<title id="t">{escape(self.title)}</title>\n<desc id="d">{escape(self.description)}</desc>\n'
            f"<style>{self._style()}</style>\n"
            f'<rect class="page" x=".5" y=".5" width="{self.width - 1}" height="{self.height - 1}" rx="8"'
            ' style="stroke-opacity:0"/>\n' + "\n".join(self._shapes) + "\n</svg>\n"
        )

    def _style(self) -> str:
        light, dark = (
            "".join(
                f".{name}{{fill:{colours[side]};stroke:{colours[side]}}}"
                for name, colours in COLOURS.items()
                if name in self._used
            )
            for side in (0, 1)
        )
        return f"{light}@media(prefers-color-scheme:dark){{{dark}}}{SHAPES}"

    def _look(self, look: str) -> str:
        self._used.update(look.split())
        return look

    def _add(self, shape: str) -> None:
        self._shapes.append(shape)


def _n(number: float) -> str:
    """A coordinate with one decimal at most.

    >>> _n(3.0), _n(2.25)
    ('3', '2.2')
    """
    return f"{number:.1f}".removesuffix(".0")
