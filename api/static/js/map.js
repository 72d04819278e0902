// Every point of a sweep as a cell, coloured by what has become of its runs.
import { number } from "./dom.js";

const GAP = 6; // pixels from which cells have a line between them
const LARGEST = 30; // pixels of a cell
// The worse goes before the better; what is done fills in with its share.
export const STATUSES = { failed: "failed", diverged: "diverged", cancelled: "cancelled", under_way: "under way", skipped: "skipped", done: "done", pending: "pending" };

/** Columns along the longest axis, the others one below the other; points without axes in rows. */
export function arranged(map) {
  const { dims, shape, points } = map;
  if (dims.length === 1 && dims[0] === "point") {
    const across = Math.max(1, Math.ceil(Math.sqrt(2 * points)));
    return { across, down: Math.ceil(points / across), place: (at) => [at % across, Math.floor(at / across)], index: (x, y) => y * across + x, along: null };
  }
  const along = shape.indexOf(Math.max(...shape));
  const stride = shape.slice(along + 1).reduce((a, b) => a * b, 1), across = shape[along];
  return {
    across, down: points / across, along,
    place: (at) => [Math.floor(at / stride) % across, Math.floor(at / (stride * across)) * stride + (at % stride)],
    index: (x, y) => Math.floor(y / stride) * stride * across + x * stride + (y % stride),
  };
}

/** The status that a cell shows, and the share of its runs that have ended. */
export function look(map, at, underWay) {
  const count = (name) => map.counts[name]?.[at] ?? 0;
  const ended = map.runs - count("pending");
  const status = ["failed", "diverged", "cancelled"].find((name) => count(name) > 0)
    ?? (underWay.has(at) && ended < map.runs ? "under_way" : count("skipped") === map.runs ? "skipped" : count("done") > 0 ? "done" : "pending");
  return { status, share: ended / map.runs };
}

/** Statuses of one point in words. */
export function told(map, at) {
  return Object.keys(STATUSES).filter((name) => map.counts[name]?.[at]).map((name) => `${number(map.counts[name][at])} ${STATUSES[name]}`).join(", ");
}

export class StatusMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.drawn = {};
  }

  draw(map) {
    const canvas = this.canvas, room = canvas.parentElement.clientWidth;
    const where = arranged(map), underWay = new Set(map.under_way);
    const cell = Math.max(1, Math.min(LARGEST, Math.floor(room / where.across)));
    const width = cell * where.across, height = Math.max(1, cell * where.down);
    const sharp = cell >= GAP ? devicePixelRatio : 1;
    if (canvas.width !== width * sharp || canvas.height !== height * sharp) {
      Object.assign(canvas, { width: width * sharp, height: height * sharp });
      Object.assign(canvas.style, { width: `${Math.min(width, room)}px`, height: `${height * Math.min(1, room / width)}px` });
    }
    const style = getComputedStyle(document.documentElement);
    const colours = Object.fromEntries(Object.keys(STATUSES).map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const pen = canvas.getContext("2d");
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, width, height);
    const side = cell >= GAP ? cell - 1 : cell;
    for (let at = 0; at < map.points; at += 1) {
      const [x, y] = where.place(at), { status, share } = look(map, at, underWay);
      pen.fillStyle = colours[status === "done" || status === "under_way" ? "pending" : status];
      pen.fillRect(x * cell, y * cell, side, side);
      if (status === "under_way") {
        pen.fillStyle = colours.under_way;
        pen.fillRect(x * cell, y * cell, side, side);
      }
      if ((status === "done" || status === "under_way") && share > 0) { // it fills from below
        pen.fillStyle = colours.done;
        pen.fillRect(x * cell, y * cell + side * (1 - share), side, side * share);
      }
      if (status === "failed" && cell >= 10) { // not by colour alone
        pen.strokeStyle = "#fff";
        pen.lineWidth = 1.5;
        pen.beginPath();
        pen.moveTo(x * cell + 3, y * cell + 3);
        pen.lineTo(x * cell + side - 3, y * cell + side - 3);
        pen.moveTo(x * cell + side - 3, y * cell + 3);
        pen.lineTo(x * cell + 3, y * cell + side - 3);
        pen.stroke();
      }
    }
    this.drawn = { map, where, cell: cell * Math.min(1, room / width) };
  }

  /** The number of the point below the pointer, or null. */
  at(event) {
    const { map, where, cell } = this.drawn;
    if (!map) return null;
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / cell), y = Math.floor((event.clientY - box.top) / cell);
    if (x < 0 || y < 0 || x >= where.across || y >= where.down) return null;
    const found = where.index(x, y);
    return found < map.points ? found : null;
  }
}
