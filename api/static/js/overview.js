// How far a sweep is: the map of its points, its numbers, its failures.
import { $, copy, duration, exact, facts, h, number, when } from "./dom.js";
import { id, onNews } from "./header.js";
import { STATUSES, StatusMap, told } from "./map.js";
import { get, query } from "./rest.js";
import { symbol, words } from "./words.js";

const canvas = $("#map canvas"), tip = $("#tip");
const drawing = new StatusMap(canvas);
let map = null, contents = null, busy = false, late = false, shown = null;

$("#legend").append(...Object.entries(STATUSES).map(([name, title]) => {
  const colour = h("i");
  colour.style.background = `var(--${name})`;
  return h("li", {}, colour, title);
}));

/** One at a time, and after each a rest that grows with what it cost: the page stays quick. */
async function refresh() {
  if (busy) { late = true; return; }
  busy = true;
  late = false;
  const began = performance.now();
  try {
    contents ??= await get(`/v1/sweeps/${id}/contents`);
    map = await get(`/v1/sweeps/${id}/map`);
    show();
  } catch (problem) {
    $("#map-about").textContent = problem.message;
  }
  setTimeout(() => { busy = false; if (late) refresh(); }, Math.max(500, 5 * (performance.now() - began)));
}

function show() {
  drawing.draw(map, place);
  const { along } = drawing.drawn.where;
  const names = map.dims.filter((_, at) => map.shape[at] > 1 && at !== along);
  const text = along === null ? `${number(map.points)} points, row by row`
    : `${number(map.points)} points: ${symbol(map.dims[along])} from left to right${names.length ? `, ${names.map(symbol).join(", ")} from top to bottom` : ""}`;
  $("#map-about").textContent = `${text}; ${number(map.runs)} runs each. Click on one for its curves.`;
  canvas.setAttribute("aria-label", `Status of ${map.points} points: ${Object.entries(map.counts).map(([name, counts]) => `${counts.reduce((a, b) => a + b, 0)} runs ${name}`).join(", ")}`);
}

/** The values of the axes at a point of a product; of other designs the map knows only its number. */
function place(at) {
  if (map.dims[0] === "point") return contents.points ? Object.fromEntries(contents.axes.map((axis, column) => [axis.name, contents.points[at][column]])) : null;
  const found = {};
  let rest = at;
  for (let dim = map.dims.length - 1; dim >= 0; dim -= 1) {
    found[map.dims[dim]] = contents.axes.find((axis) => axis.name === map.dims[dim])?.values[rest % map.shape[dim]];
    rest = Math.floor(rest / map.shape[dim]);
  }
  return Object.fromEntries(map.dims.map((name) => [name, found[name]]));
}

canvas.addEventListener("mousemove", (event) => {
  const at = drawing.at(event);
  tip.hidden = at === null;
  if (at === null) return;
  tip.textContent = `${words(place(at) ?? { point: at })}\n${told(map, at)}`;
  const box = canvas.parentElement.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX - box.left + 14, box.width - 190)}px`;
  tip.style.top = `${Math.min(event.clientY - box.top + 14, box.height - 40)}px`;
});
canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
canvas.addEventListener("click", (event) => {
  const at = drawing.at(event), where = at === null ? null : place(at);
  if (where) location.assign(`/sweeps/${id}/curves${query(Object.fromEntries(Object.entries(where).map(([name, value]) => [name, exact(value)])))}`);
});
addEventListener("resize", () => map && show());
addEventListener("theme", () => map && show());

async function failures(cursor = null) {
  const box = $("#failures");
  const answer = await get(`/v1/sweeps/${id}/failures${query({ limit: 20, cursor })}`);
  if (!cursor) $("ul", box).replaceChildren();
  box.hidden = !answer.failures.length && !cursor;
  $("ul", box).append(...answer.failures.map((one) => h("li", {},
    h("strong", {}, `${one.kind}-${one.number}`), ` ${one.error}${one.runs.length > 1 ? ` (shared by ${one.runs.length} runs)` : ""}`,
    h("div", { className: "code" }, h("pre", { tabIndex: 0 }, one.command), h("button", { type: "button", onclick: () => copy(one.command) }, "Copy")))));
  const more = $("#more");
  more.hidden = !answer.next;
  more.onclick = () => failures(answer.next);
}

onNews((sweep) => {
  facts($("#facts"), {
    runs: number(sweep.runs),
    "copied from earlier sweeps": sweep.reused ? number(sweep.reused) : null,
    "core time": duration(sweep.core_seconds) + (sweep.core_seconds_left ? `, ${duration(sweep.core_seconds_left)} predicted to be left` : ""),
    "bundles left": sweep.bundles_left ? number(sweep.bundles_left) : null,
    priority: sweep.priority || null,
    submitted: when(sweep.created),
    "last change of state": when(sweep.updated),
  });
  const key = `${sweep.state} ${sweep.counts.failed ?? 0}`;
  if (shown !== key && sweep.counts.failed) failures().catch(() => {});
  if (!sweep.counts.failed) $("#failures").hidden = true;
  shown = key;
  refresh();
});
