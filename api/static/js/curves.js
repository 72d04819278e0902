// Risk, or another observable, against time.
import { curveTraces, draw } from "./charts.js";
import { $, exact, h, settled } from "./dom.js";
import { hasEnded } from "./live.js";
import { id, onNews } from "./header.js";
import { get, query, remember } from "./rest.js";
import { axisSelect, beginning, chosen, contentsOf, downloads, fill, problemAt, select, several, symbol, titled, words } from "./words.js";

const form = $("#choose"), MOST = 12; // values along the coloured axis
const OWN = ["by", "hide", "linear", "band"]; // words of the page, not of the API
const NOTHING = "none"; // to colour by
const asked = Object.fromEntries(new URLSearchParams(location.search));
const contents = await contentsOf(id);

function some(axis) {
  if (axis.values.length <= MOST) return axis.values;
  return Array.from({ length: MOST }, (_, at) => axis.values[Math.round((at * (axis.values.length - 1)) / (MOST - 1))]);
}

function build() {
  const axes = several(contents), free = axes.filter((axis) => !(axis.name in asked));
  const by = asked.by ?? (contents.design === "triangle" ? NOTHING : (free[0]?.name ?? NOTHING));
  const first = "by" in asked || Object.keys(asked).some((name) => axes.some((axis) => axis.name === name)) ? {} : beginning(contents, by);
  const middle = (axis) => (contents.points ? "" : axis.values[Math.floor((axis.values.length - 1) / 2)]);
  const linear = (asked.linear ?? "").split(","), hidden = (asked.hide ?? "").split(",");
  const box = (name, value, title, checked) => h("label", {}, h("input", { type: "checkbox", name, value, checked }), title);
  fill(form,
    select("observable", "Observable", contents.observables.map((one) => [one.name, titled(one.name)]), asked.observable ?? "risk"),
    axes.length > 0 && select("by", "Colour by", [[NOTHING, "nothing"], ...axes.map((axis) => [axis.name, symbol(axis.name)])], by),
    ...axes.map((axis) => {
      const label = axisSelect(axis, asked[axis.name] ?? first[axis.name] ?? middle(axis), ...(contents.points ? [["", "any"]] : []));
      if (axis.name === by) { label.hidden = true; $("select", label).disabled = true; }
      return label;
    }),
    h("fieldset", {}, h("legend", { className: "unseen" }, "Shown"),
      contents.sources.includes("sgd") && contents.regimes.length > 0 && box("_show", "sgd", "SGD", !hidden.includes("sgd")),
      ...contents.regimes.map((name) => box("_show", name, titled(name), !hidden.includes(name))),
      box("_log", "x", "log t", !linear.includes("x")), box("_log", "y", "log y", !linear.includes("y")),
      box("_band", "band", "band over runs", asked.band !== "no")));
}

function state() {
  const found = chosen(form), off = (name) => [...form.querySelectorAll(`[name="${name}"]`)].filter((one) => !one.checked).map((one) => one.value);
  return { ...found, hide: off("_show"), linear: off("_log"), band: off("_band").length ? "no" : "" };
}

let turn = 0, cached = { path: null };
async function show(fresh = false) {
  const now = state(), mine = (turn += 1);
  const by = contents.axes.find((axis) => axis.name === now.by);
  const api = Object.fromEntries(Object.entries(now).filter(([name]) => !OWN.includes(name)));
  if (by) api[by.name] = some(by).map(exact);
  remember(now);
  const path = `/v1/sweeps/${id}/curves${query(api)}`;
  try {
    const answer = !fresh && cached.path === path ? cached.answer : await get(path);
    if (mine !== turn) return;
    cached = { path, answer };
    const curves = answer.curves.filter((curve) => !now.hide.includes(curve.regime ?? curve.source));
    const options = { by: by?.name ?? null, logX: !now.linear.includes("x"), logY: !now.linear.includes("y"), bands: now.band !== "no" };
    await draw($("#chart"), () => curveTraces({ ...answer, curves }, options));
    problemAt(curves.some((curve) => curve.runs) ? "" : "No run of these has ended yet.");
    const fixed = Object.fromEntries(several(contents).filter((axis) => axis.name !== now.by && api[axis.name] !== undefined).map((axis) => [axis.name, Number.isNaN(Number(api[axis.name])) ? api[axis.name] : Number(api[axis.name])]));
    $("#caption").textContent = [answer.long_name, words(fixed), by && by.values.length > MOST ? `${MOST} of ${by.values.length} values of ${symbol(by.name)}` : "", options.bands && contents.sources.includes("sgd") ? "bands: 16 to 84 % of the runs" : ""].filter(Boolean).join(" · ");
    downloads($("#links"), `/v1/sweeps/${id}/curves`, query(api));
  } catch (problem) {
    if (mine === turn) problemAt(problem.message);
  }
}

build();
form.addEventListener("change", (event) => {
  if (event.target.name === "by") { Object.keys(asked).forEach((name) => delete asked[name]); Object.assign(asked, state()); ["hide", "linear"].forEach((name) => { asked[name] = asked[name].join(","); }); build(); }
  show();
});
form.addEventListener("submit", (event) => event.preventDefault());
const again = settled(() => show(true), 300);
let before = null;
onNews((sweep) => { const key = JSON.stringify(sweep.counts); if (key !== before || hasEnded(sweep.state)) again(); before = key; });
