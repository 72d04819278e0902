// The map of a sweep by keyboard: arrow keys move over its cells, Enter opens the curves of a point.

const MOVES = {
  ArrowRight: [1, 0],
  ArrowLeft: [-1, 0],
  ArrowDown: [0, 1],
  ArrowUp: [0, -1],
  Home: [-Infinity, 0],
  End: [Infinity, 0],
  PageUp: [0, -Infinity],
  PageDown: [0, Infinity],
};

/**
 * Keeps one point of a map selected while its canvas has the focus. `onMove(point)` shows it, or with null
 * shows none; `onOpen(point)` opens it.
 */
export class MapKeyboard {
  constructor(statusMap, onMove, onOpen) {
    this.statusMap = statusMap;
    this.onMove = onMove;
    this.onOpen = onOpen;
    this.lastPoint = 0;
    const { canvas } = statusMap;
    canvas.addEventListener("keydown", (event) => this.handleKey(event));
    canvas.addEventListener("focus", () => this.select(this.lastPoint));
    canvas.addEventListener("blur", () => onMove(null));
  }

  /** The selected point, or null without the focus of a keyboard. */
  get point() {
    return this.statusMap.canvas.matches(":focus-visible") && this.statusMap.map ? this.lastPoint : null;
  }

  select(point) {
    this.lastPoint = point;
    this.onMove(this.point);
  }

  handleKey(event) {
    if (this.point === null) return;
    const move = MOVES[event.key];
    if (move) this.select(this.statusMap.getNeighbour(this.lastPoint, ...move));
    else if (event.key === "Enter" || event.key === " ") this.onOpen(this.lastPoint);
    else return;
    event.preventDefault(); // else the page scrolls
  }
}
