// The settings of a view carried to another sweep: what the other sweep has too is kept.
import { formatQuery, readQuery } from "../common/address.js";
import { openDialog } from "../common/dialog.js";
import { createElement } from "../common/dom.js";
import { formatExact, parseScalar } from "../common/format.js";
import { getLongName, getSymbol } from "../common/labels.js";
import { notify } from "../common/notifications.js";
import { getJson } from "../common/rest.js";

const MAX_SWEEPS = 200;
const NOTICE = "carried-view"; // in the storage of this window, until the next page has shown it
const REDUCTIONS = ["mean", "max", "min", "none", ""];
const POSITIONS = ["at", "point"]; // of a point in the list of a sweep, which another sweep does not share
const AXIS_NAMES = ["x", "y", "by", "along"];

/** Let a button ask for another sweep and show the same view of it. */
export function connectCarryButton(button, sweepId, tab) {
  showNotice();
  button.addEventListener("click", async () => {
    try {
      const { sweeps } = await getJson(`/v1/sweeps?limit=${MAX_SWEEPS}`);
      const others = sweeps.filter(({ id }) => id !== sweepId);
      if (others.length) await carryView(others, tab);
      else notify("There is no other sweep.");
    } catch (error) {
      notify(error.message);
    }
  });
}

async function carryView(sweeps, tab) {
  const options = sweeps.map(({ id, name }) =>
    createElement("option", { value: id }, name ? `${name} (${id})` : id));
  const select = createElement("select", { name: "sweep" }, options);
  const content = createElement("div", { className: "stack" }, createElement("label", {}, "Sweep", select));
  const target = await openDialog("The same view of another sweep", content, {
    confirmLabel: "Show", readResult: () => select.value,
  });
  if (!target) return;
  const { kept, dropped } = fitQuery(readQuery(), await getJson(`/v1/sweeps/${target}/contents`));
  if (dropped.length) sessionStorage.setItem(NOTICE, `This sweep does not have ${dropped.join(", ")}.`);
  location.assign(`/sweeps/${target}/${tab}${formatQuery(kept)}`);
}

function showNotice() {
  const text = sessionStorage.getItem(NOTICE);
  if (text) notify(text);
  sessionStorage.removeItem(NOTICE);
}

/** Split a query into what a sweep with these contents can show, and descriptions of the rest. */
export function fitQuery(query, contents) {
  const kept = {};
  const dropped = [];
  for (const [name, value] of Object.entries(query)) {
    if (isKnown(name, value, contents)) kept[name] = value;
    else if (!POSITIONS.includes(name)) dropped.push(`${getSymbol(name.replace(/^at_/, ""))} = ${value}`);
  }
  return { kept, dropped };
}

function isKnown(name, value, contents) {
  const names = (entries) => entries.map((entry) => entry.name);
  if (POSITIONS.includes(name)) return false;
  if (name === "value") return names(contents.values).includes(value);
  if (name === "observable") return names(contents.observables).includes(value);
  if (name === "regime") return value.split(",").every((regime) => contents.regimes.includes(regime));
  if (AXIS_NAMES.includes(name)) return value === "none" || names(contents.axes).includes(value);
  const parameter = name.replace(/^at_/, "");
  const axis = contents.axes.find((candidate) => candidate.name === parameter);
  if (!axis) return !getLongName(parameter); // neither a parameter nor an axis: an option of the view
  const values = axis.values.map(formatExact);
  const isValue = (text) => values.includes(formatExact(parseScalar(text)));
  return REDUCTIONS.includes(value) || value.split(",").every(isValue);
}
