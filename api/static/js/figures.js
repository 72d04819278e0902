// Figures as the service draws them, for papers.
import { formatQuery as query, replaceQuery as remember } from "./common/address.js";
import {
  getDefaultSelection as beginning, getDefaultValue as firstValue, getValueOptions as drawable,
  getVaryingAxes as several, loadContents as contentsOf,
} from "./common/contents.js";
import { $ } from "./common/dom.js";
import { formatName as titled } from "./common/format.js";
import { getSymbol as symbol } from "./common/labels.js";
import { getBlob as file } from "./common/rest.js";
import {
  createAxisSelect as axisSelect, createSelect as select, readFields as chosen, renderDownloads as downloads,
  replaceFields as fill, showProblem as problemAt,
} from "./common/view-controls.js";
import { sweepId as id } from "./sweep/header.js";

const form = $("#choose"), image = $("#figure");
const asked = Object.fromEntries(new URLSearchParams(location.search));
const contents = await contentsOf(id);
const axes = several(contents), names = axes.map((axis) => [axis.name, symbol(axis.name)]);
const sources = [...contents.sources.filter((one) => one === "sgd"), ...contents.regimes].map((one) => [one, titled(one)]);
const values = drawable(contents), first = firstValue(contents);
const along = [...names, ["delta_t", "δt"]];
// The words that a view takes beside a selection, and what each may be.
const WORDS = {
  curves: { observable: ["Observable", contents.observables.map((one) => [one.name, titled(one.name)]), "risk"] },
  "phase-diagram": { x: ["Horizontal", names, names.at(-1)?.[0]], y: ["Vertical", names, names[0]?.[0]], value: ["Value", values, first] },
  triangle: { value: ["Value", values, first] },
  plane: { source: ["Of", sources, sources[0]?.[0]] },
  rates: { of: ["Of", [["discrepancy", "discrepancy"], ["final_risk", "final risk"]], "discrepancy"], along: ["Along", along, "delta_t"] },
  collapse: { kind: ["Kind", ["overlay", "power", "logshift"], "overlay"], along: ["Along", names, "d"], source: ["Of", sources, sources[0]?.[0]] },
  cosines: {},
  histograms: { source: ["Of", sources, sources[0]?.[0]] },
};
const SINGLE = ["cosines", "histograms"]; // of one point
const CHOSEN = ["phase-diagram", "collapse", ...SINGLE]; // of one value of every axis that is not shown

function build() {
  const proposed = asked.view ? {} : contents.suggestion.words, view = asked.view ?? contents.suggestion.view;
  const given = { ...proposed, ...asked };
  const taken = WORDS[view] ?? {}, used = { "phase-diagram": [given.x ?? taken.x?.[2], given.y ?? taken.y?.[2]], triangle: ["d", "p", "gamma"] }[view] ?? [given.along ?? taken.along?.[2]];
  const begin = CHOSEN.includes(view) ? beginning(contents, null) : {};
  const needs = { "phase-diagram": true, triangle: true }[view] && contents.values.find((one) => one.name === (given.value ?? taken.value[2]))?.needs_regime;
  const single = needs || view === "rates" || SINGLE.includes(view);
  fill(form,
    select("view", "Figure", contents.views.map((one) => [one, titled(one.replaceAll("-", " "))]), view),
    ...Object.entries(taken).map(([name, [title, options, value]]) => select(name, title, options, given[name] ?? value)),
    ...(contents.regimes.length > 1 && !taken.source ? [select("regime", "Theory", [...(single ? [] : [["", "all"]]), ...contents.regimes.map((one) => [one, titled(one)])], given.regime)] : []),
    ...(view === "plane" ? [] : axes.filter((axis) => !used.includes(axis.name)).map((axis) =>
      axisSelect(axis, Array.isArray(given[axis.name]) ? "" : given[axis.name] ?? begin[axis.name] ?? "", ...(view === "triangle" || (CHOSEN.includes(view) && !contents.points) ? [] : [["", "all"]])))));
}

let turn = 0;
async function show() {
  const mine = (turn += 1);
  const { view, ...words } = chosen(form), path = `/v1/sweeps/${id}/figures/${view}`;
  remember({ view, ...words });
  problemAt("");
  image.parentElement.setAttribute("aria-busy", "true");
  image.alt = `${titled(view.replaceAll("-", " "))} of this sweep`;
  try {
    const content = await file(`${path}${query({ ...words, format: "png" })}`), old = image.src;
    if (mine !== turn) return;
    image.src = URL.createObjectURL(content);
    if (old.startsWith("blob:")) URL.revokeObjectURL(old);
    downloads($("#links"), path, query(words));
  } catch (problem) {
    if (mine === turn) problemAt(problem.message);
  }
  if (mine === turn) image.parentElement.removeAttribute("aria-busy");
}

build();
show();
form.addEventListener("change", (event) => {
  const now = chosen(form);
  for (const name of Object.keys(asked)) delete asked[name];
  Object.assign(asked, event.target.name === "view" ? { view: now.view } : now);
  if (asked.x && asked.x === asked.y) asked[event.target.name === "x" ? "y" : "x"] = names.find(([name]) => name !== event.target.value)[0];
  build();
  show();
});
form.addEventListener("submit", (event) => event.preventDefault());
