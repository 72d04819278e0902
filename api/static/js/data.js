// The page of a sweep's data: code, downloads, the spec and the provenance.
import { formatQuery } from "./common/address.js";
import { getVaryingAxes, loadContents } from "./common/contents.js";
import { $, createElement, renderFacts } from "./common/dom.js";
import { formatName } from "./common/format.js";
import { copyToClipboard } from "./common/notifications.js";
import { getJson, post } from "./common/rest.js";
import {
  createAxisSelect, createSelect, preventSubmit, readFields, showProblem,
} from "./common/view-controls.js";
import { formatYaml } from "./common/yaml.js";
import { sweepId } from "./sweep/header.js";

const SIMULATED_OR_SOLVED = /^(sgd|ode)_/;
const COST_VARIABLE = /_(seconds|steps)$/;

const form = $("#download");
const [contents, fullSpec, catalogue] = await Promise.all([
  loadContents(sweepId),
  getJson(`/v1/sweeps/${sweepId}/spec`),
  getJson("/v1/catalogue"),
]);
const { spec } = await post("/v1/spec", fullSpec);

function formatPython() {
  const hasSgd = contents.sources.includes("sgd");
  const risk = hasSgd ? 'ds.sgd_risk.mean(["seed", "repeat"])' : 'ds.ode_risk.mean("seed")';
  const url = `${location.origin}/v1/sweeps/${sweepId}/zarr`;
  return `import xarray as xr\n\nds = xr.open_zarr("${url}")\nrisk = ${risk}`;
}

function renderCode(element, text) {
  element.textContent = text;
  element.after(createElement("button", { type: "button", onclick: () => copyToClipboard(text) }, "Copy"));
}

/** Return the variables of the dataset: of the values that can be drawn, those that are not derived. */
function listStoredVariables() {
  const observables = contents.observables.map(({ name }) => name);
  const isObservable = (name) => observables.some((observable) => name.endsWith(`_${observable}`));
  const isStored = (name) => isObservable(name) || COST_VARIABLE.test(name);
  const names = new Set(contents.values.map(({ name }) => name));
  return [...names].filter((name) => SIMULATED_OR_SOLVED.test(name) && isStored(name));
}

function renderDownloadControls() {
  const formats = catalogue.formats.map(({ name }) => name);
  form.append(
    createSelect("format", "Format", formats, "netcdf"),
    createSelect("variables", "Variables", [["", "all"], ...listStoredVariables()], ""),
    ...getVaryingAxes(contents).map((axis) => createAxisSelect(axis, "", ["", "all"])));
}

function updateDownloadLink() {
  $("#file").href = `/v1/sweeps/${sweepId}/data${formatQuery(readFields(form))}`;
  showProblem("");
}

function renderProvenance() {
  const { environment, ...provenance } = contents.provenance;
  const facts = { ...provenance, ...(environment ? JSON.parse(environment) : {}) };
  const formatFact = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  const rows = Object.entries(facts).map(([name, value]) => [formatName(name), formatFact(value)]);
  renderFacts($("#provenance"), Object.fromEntries(rows));
}

renderCode($("#python"), formatPython());
renderCode($("#spec"), formatYaml(spec));
renderDownloadControls();
updateDownloadLink();
form.addEventListener("change", updateDownloadLink);
preventSubmit(form);
renderProvenance();
