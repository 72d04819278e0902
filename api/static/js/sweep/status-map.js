// A map of a sweep: every point is a cell that fills from below with the runs that have ended.
import { formatName, formatNumber } from "../common/format.js";
import { getSymbol } from "../common/labels.js";

// Lengths are in CSS pixels.
const MIN_CELL_FOR_GAP = 6;
const MIN_CELL_FOR_CROSS = 10;
const MIN_CELL_FOR_LABELS = 14;
const MAX_CELL_WIDTH = 110;
const MAX_CELL_HEIGHT = 44;
const MAX_CELL_HEIGHT_OF_MANY_ROWS = 26;
const COMFORTABLE_HEIGHT = 300; // of a map with tall cells
const MAX_MAP_HEIGHT = 900; // unless rows would be less than a pixel high
const FOCUS_WIDTH = 3;
const MAX_LABELLED_ROWS = 60;
const ROW_LABEL_WIDTH = 130;
const COLUMN_LABEL_WIDTH = 52;
const COLUMN_LABEL_HEIGHT = 22;

const STACK_ORDER = ["done", "skipped", "diverged", "cancelled", "failed"]; // from below
const PROBLEM_STATUSES = ["diverged", "failed"];
const MIN_PROBLEM_SHARE = 0.15; // of a cell, so that a problem of few runs is visible

/** The statuses of runs, in the order of the legend. */
export const STATUSES = ["pending", "under_way", "done", "diverged", "failed", "cancelled", "skipped"];

/** Format how many runs of a point have each status. */
export function formatStatusCounts(map, point) {
  return STATUSES
    .filter((status) => map.counts[status]?.[point])
    .map((status) => {
      const quantities = status === "diverged" ? formatDivergedQuantities(map, point) : "";
      return `${formatNumber(map.counts[status][point])} ${formatName(status)}${quantities}`;
    })
    .join(", ");
}

/** Format the quantities by which runs of a point diverged; older sweeps do not have them. */
function formatDivergedQuantities(map, point) {
  const names = Object.keys(map.diverged).filter((name) => map.diverged[name][point]);
  return names.length ? ` (${names.map(formatName).join(", ")})` : "";
}

/** Draws the map on a canvas, and finds the point below the pointer. */
export class StatusMap {
  constructor(canvas) {
    this.canvas = canvas;
    this.map = null;
    this.grid = null;
    this.layout = null;
  }

  /** Draw the map; `getCoordinates(point)` gives the values of the axes for labels. */
  draw(map, getCoordinates) {
    const grid = arrangeCells(map);
    const layout = computeLayout(grid, this.canvas.parentElement.clientWidth);
    resizeCanvas(this.canvas, layout);
    const context = this.canvas.getContext("2d");
    context.setTransform(layout.pixelRatio, 0, 0, layout.pixelRatio, 0, 0);
    context.clearRect(0, 0, layout.width, layout.height);
    const colours = readColours();
    const pointsUnderWay = new Set(map.under_way);
    for (let point = 0; point < map.points; point += 1) {
      const cell = computeCell(layout, grid.getPosition(point));
      drawCell(context, cell, getLayers(map, point, pointsUnderWay.has(point)), colours);
      // A cross, so that failures are not told by colour alone.
      if (map.counts.failed?.[point] && layout.cellSize >= MIN_CELL_FOR_CROSS) drawCross(context, cell);
    }
    if (layout.hasLabels) drawLabels(context, map, grid, layout, getCoordinates, colours.label);
    Object.assign(this, { map, grid, layout });
  }

  /** Draw a frame around the cell of a point. */
  drawFocus(point) {
    const context = this.canvas.getContext("2d");
    const { x, y, width, height } = computeCell(this.layout, this.grid.getPosition(point));
    const colours = readColours();
    // Two lines, of which one can be seen on any colour of a cell.
    for (const [colour, inset, lineWidth] of [[colours.ink, 0, FOCUS_WIDTH], [colours.paper, 2, 1]]) {
      context.strokeStyle = colour;
      context.lineWidth = lineWidth;
      context.strokeRect(x + inset, y + inset, width - 2 * inset, height - 2 * inset);
    }
  }

  /** Return the point some columns and rows away from another, or that point itself at an edge. */
  getNeighbour(point, columns, rows) {
    const [column, row] = this.grid.getPosition(point);
    const neighbourColumn = clamp(column + columns, 0, this.grid.columns - 1);
    const neighbourRow = clamp(row + rows, 0, this.grid.rows - 1);
    const neighbour = this.grid.getPoint(neighbourColumn, neighbourRow);
    return neighbour < this.map.points ? neighbour : point;
  }

  /** Return the lower right corner of the cell of a point, in pixels of the page from that of the canvas. */
  getCellCorner(point) {
    const { x, y, width, height } = computeCell(this.layout, this.grid.getPosition(point));
    return [(x + width) * this.layout.shrinkage, (y + height) * this.layout.shrinkage];
  }

  /** Return the index of the axis along the columns, or null if points have no axes. */
  get columnAxis() {
    return this.grid.columnAxis;
  }

  /** Return the number of the point below the pointer, or null. */
  getPointAt(event) {
    if (!this.map) return null;
    const { layout, grid } = this;
    const box = this.canvas.getBoundingClientRect();
    const x = (event.clientX - box.left) / layout.shrinkage - layout.left;
    const y = (event.clientY - box.top) / layout.shrinkage;
    const column = Math.floor(x / layout.cellWidth);
    const row = Math.floor(y / layout.cellHeight);
    if (column < 0 || row < 0 || column >= grid.columns || row >= grid.rows) return null;
    const point = grid.getPoint(column, row);
    return point < this.map.points ? point : null;
  }
}

/** Place points in columns along the longest axis, other axes downwards; points without axes row by row. */
function arrangeCells({ dims, shape, points }) {
  if (dims.length === 1 && dims[0] === "point") return arrangeInRows(points);
  const columnAxis = shape.indexOf(Math.max(...shape));
  const columns = shape[columnAxis];
  const stride = shape.slice(columnAxis + 1).reduce((product, length) => product * length, 1);
  const block = stride * columns;
  return {
    columns,
    rows: points / columns,
    columnAxis,
    getPosition: (point) => [
      Math.floor(point / stride) % columns,
      Math.floor(point / block) * stride + (point % stride),
    ],
    getPoint: (column, row) => Math.floor(row / stride) * block + column * stride + (row % stride),
  };
}

function arrangeInRows(points) {
  const columns = Math.max(1, Math.ceil(Math.sqrt(2 * points)));
  return {
    columns,
    rows: Math.ceil(points / columns),
    columnAxis: null,
    getPosition: (point) => [point % columns, Math.floor(point / columns)],
    getPoint: (column, row) => row * columns + column,
  };
}

function computeLayout({ columns, rows, columnAxis }, availableWidth) {
  const hasRoomForLabels = (availableWidth - ROW_LABEL_WIDTH) / columns >= MIN_CELL_FOR_LABELS;
  const hasLabels = columnAxis !== null && hasRoomForLabels && rows <= MAX_LABELLED_ROWS;
  const left = hasLabels ? Math.min(ROW_LABEL_WIDTH, availableWidth / 3) : 0;
  const cellWidth = clamp(Math.floor((availableWidth - left) / columns), 1, MAX_CELL_WIDTH);
  const tallCell = clamp(COMFORTABLE_HEIGHT / rows, MAX_CELL_HEIGHT_OF_MANY_ROWS, MAX_CELL_HEIGHT);
  const maxCellHeight = Math.floor(tallCell);
  const cellHeight = hasLabels
    ? clamp(cellWidth, MIN_CELL_FOR_LABELS, maxCellHeight)
    : clamp(Math.min(cellWidth, Math.floor(MAX_MAP_HEIGHT / rows)), 1, maxCellHeight);
  const cellSize = Math.min(cellWidth, cellHeight);
  const width = left + cellWidth * columns;
  return {
    hasLabels,
    left,
    cellWidth,
    cellHeight,
    cellSize,
    gap: cellSize >= MIN_CELL_FOR_GAP ? 1 : 0,
    width,
    height: cellHeight * rows + (hasLabels ? COLUMN_LABEL_HEIGHT : 0),
    pixelRatio: cellSize >= MIN_CELL_FOR_GAP ? devicePixelRatio : 1,
    shrinkage: Math.min(1, availableWidth / width),
  };
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

/** Set the size of a canvas only if it has changed, because that clears it. */
function resizeCanvas(canvas, { width, height, pixelRatio, shrinkage }) {
  const pixelWidth = Math.round(width * pixelRatio);
  const pixelHeight = Math.round(height * pixelRatio);
  if (canvas.width === pixelWidth && canvas.height === pixelHeight) return;
  Object.assign(canvas, { width: pixelWidth, height: pixelHeight });
  Object.assign(canvas.style, { width: `${width * shrinkage}px`, height: `${height * shrinkage}px` });
}

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const readColour = (name) => style.getPropertyValue(`--${name}`).trim();
  const colours = Object.fromEntries(STATUSES.map((status) => [status, readColour(status)]));
  const others = { label: readColour("faint"), ink: readColour("ink"), paper: readColour("paper") };
  return { ...colours, ...others };
}

function computeCell({ left, cellWidth, cellHeight, gap }, [column, row]) {
  return {
    x: left + column * cellWidth,
    y: row * cellHeight,
    width: cellWidth - gap,
    height: cellHeight - gap,
  };
}

/** Return what a cell shows, as shares of its height from below: its ground, then runs that have ended. */
function getLayers(map, point, isUnderWay) {
  const layers = [];
  let top = 0;
  for (const status of STACK_ORDER) {
    const share = (map.counts[status]?.[point] ?? 0) / map.runs;
    if (share <= 0) continue;
    const bottom = top;
    top = Math.min(1, bottom + share);
    const isProblem = PROBLEM_STATUSES.includes(status);
    layers.push({ status, bottom: isProblem ? Math.min(bottom, top - MIN_PROBLEM_SHARE) : bottom, top });
  }
  const ground = isUnderWay && top < 1 ? "under_way" : "pending";
  return [{ status: ground, bottom: 0, top: 1 }, ...layers];
}

function drawCell(context, cell, layers, colours) {
  for (const { status, bottom, top } of layers) {
    context.fillStyle = colours[status];
    context.fillRect(cell.x, cell.y + cell.height * (1 - top), cell.width, cell.height * (top - bottom));
  }
}

function drawCross(context, { x, y, width, height }) {
  const centreX = x + width / 2;
  const centreY = y + height / 2;
  const arm = Math.min(width, height) / 2 - 3;
  context.strokeStyle = "#fff";
  context.lineWidth = 1.5;
  context.beginPath();
  for (const side of [1, -1]) {
    context.moveTo(centreX - arm * side, centreY - arm);
    context.lineTo(centreX + arm * side, centreY + arm);
  }
  context.stroke();
}

/** Write values of the column axis below the map, as many as fit, and of the other axes on the left. */
function drawLabels(context, map, grid, layout, getCoordinates, colour) {
  const columnAxis = map.dims[grid.columnAxis];
  const rowAxes = map.dims.filter((name, index) => name !== columnAxis && map.shape[index] > 1);
  const labelRight = layout.left - 8;
  const labelBottom = grid.rows * layout.cellHeight + 12;
  context.fillStyle = colour;
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (let row = 0; row < grid.rows; row += 1) {
    const coordinates = getCoordinates(grid.getPoint(0, row));
    const text = rowAxes.map((name) => `${getSymbol(name)} = ${formatNumber(coordinates[name])}`).join(", ");
    context.fillText(text || " ", labelRight, (row + 0.5) * layout.cellHeight, layout.left - 10);
  }
  context.textAlign = "center";
  const step = Math.ceil(COLUMN_LABEL_WIDTH / layout.cellWidth);
  for (let column = 0; column < grid.columns; column += step) {
    const value = getCoordinates(grid.getPoint(column, 0))[columnAxis];
    context.fillText(formatNumber(value), layout.left + (column + 0.5) * layout.cellWidth, labelBottom);
  }
  context.textAlign = "right";
  context.fillText(getSymbol(columnAxis), labelRight, labelBottom);
}
