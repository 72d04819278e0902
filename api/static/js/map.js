// Every point of a sweep as a cell, coloured by what has become of its runs.
import { number } from "./dom.js";
import { symbol } from "./words.js";

const GAP = 6; // pixels from which cells have a line between them
const WIDEST = 64, HIGHEST = 26; // pixels of a cell
const TALLEST = 900; // pixels of the map, unless that leaves less than one for a row
const ROOMY = 14; // pixels from which rows and columns have names
const LEFT = 130, BELOW = 22; // pixels for those names
export const STATUSES = { pending: "pending", under_way: "under way", done: "done", diverged: "diverged", failed: "failed", cancelled: "cancelled", skipped: "skipped" };

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

const STACK = ["done", "skipped", "diverged", "cancelled", "failed"]; // in a cell, from below
const LEAST = 0.15; // of a cell, for what went wrong with few of its runs

/** What a cell shows: its ground, and the shares of its runs that have ended, from below. */
export function look(map, at, underWay) {
  const stack = STACK.map((status) => [status, (map.counts[status]?.[at] ?? 0) / map.runs]).filter(([, share]) => share > 0);
  const ended = stack.reduce((sum, [, share]) => sum + share, 0);
  return { ground: underWay.has(at) && ended < 1 ? "under_way" : "pending", stack };
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

  /** `named(at)` gives the values of the axes at a point, for the names of rows and columns. */
  draw(map, named) {
    const canvas = this.canvas, room = canvas.parentElement.clientWidth;
    const where = arranged(map), underWay = new Set(map.under_way);
    const names = where.along !== null && (room - LEFT) / where.across >= ROOMY && where.down <= 60;
    const left = names ? Math.min(LEFT, room / 3) : 0;
    const wide = Math.max(1, Math.min(WIDEST, Math.floor((room - left) / where.across)));
    const high = names ? Math.max(ROOMY, Math.min(HIGHEST, wide)) : Math.max(1, Math.min(HIGHEST, wide, Math.floor(TALLEST / where.down)));
    const width = left + wide * where.across, height = high * where.down + (names ? BELOW : 0);
    const sharp = Math.min(wide, high) >= GAP ? devicePixelRatio : 1, shrunk = Math.min(1, room / width);
    if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
      Object.assign(canvas, { width: Math.round(width * sharp), height: Math.round(height * sharp) });
      Object.assign(canvas.style, { width: `${width * shrunk}px`, height: `${height * shrunk}px` });
    }
    const style = getComputedStyle(document.documentElement), hue = (name) => style.getPropertyValue(`--${name}`).trim();
    const colours = Object.fromEntries(Object.keys(STATUSES).map((name) => [name, hue(name)]));
    const pen = canvas.getContext("2d"), gap = Math.min(wide, high) >= GAP ? 1 : 0;
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, width, height);
    const box = (x, y, from, to, status) => {
      pen.fillStyle = colours[status];
      pen.fillRect(left + x * wide, y * high + (high - gap) * (1 - to), wide - gap, (high - gap) * (to - from));
    };
    for (let at = 0; at < map.points; at += 1) {
      const [x, y] = where.place(at), { ground, stack } = look(map, at, underWay);
      let from = 0;
      box(x, y, 0, 1, ground);
      for (const [status, share] of stack) {
        const to = Math.min(1, from + share);
        box(x, y, ["diverged", "failed"].includes(status) ? Math.min(from, to - LEAST) : from, to, status);
        from = to;
      }
      if (map.counts.failed?.[at] && Math.min(wide, high) >= 10) crossed(pen, left + x * wide, y * high, wide - gap, high - gap); // not by colour alone
    }
    if (names) label(pen, map, where, named, { left, wide, high, ink: hue("faint") });
    this.drawn = { map, where, left, wide, high, shrunk };
  }

  /** The number of the point below the pointer, or null. */
  at(event) {
    const { map, where, left, wide, high, shrunk } = this.drawn;
    if (!map) return null;
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / shrunk - left) / wide), y = Math.floor((event.clientY - box.top) / shrunk / high);
    if (x < 0 || y < 0 || x >= where.across || y >= where.down) return null;
    const found = where.index(x, y);
    return found < map.points ? found : null;
  }
}

function crossed(pen, x, y, wide, high) {
  const middle = x + wide / 2, arm = Math.min(wide, high) / 2 - 3;
  pen.strokeStyle = "#fff";
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (const side of [1, -1]) { pen.moveTo(middle - arm * side, y + high / 2 - arm); pen.lineTo(middle + arm * side, y + high / 2 + arm); }
  pen.stroke();
}

/** Values of the long axis below, those of the others on the left; as many as there is room for. */
function label(pen, map, where, named, { left, wide, high, ink }) {
  const along = map.dims[where.along], others = map.dims.filter((name, at) => name !== along && map.shape[at] > 1);
  pen.fillStyle = ink;
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (let y = 0; y < where.down; y += 1) {
    const here = named(where.index(0, y));
    const text = others.map((name) => `${symbol(name)} = ${number(here[name])}`).join(", ") || " ";
    pen.fillText(text, left - 8, (y + 0.5) * high, left - 10);
  }
  pen.textAlign = "center";
  const step = Math.ceil(52 / wide);
  for (let x = 0; x < where.across; x += step) pen.fillText(number(named(where.index(x, 0))[along]), left + (x + 0.5) * wide, where.down * high + 12);
  pen.textAlign = "right";
  pen.fillText(symbol(along), left - 8, where.down * high + 12);
}
