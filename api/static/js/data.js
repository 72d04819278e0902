// What is stored, and how to take it along.
import { $, copy, facts, h } from "./dom.js";
import { id } from "./header.js";
import { get, post, query } from "./rest.js";
import { axisSelect, chosen, contentsOf, problemAt, select, several } from "./words.js";
import { yaml } from "./yaml.js";

const [contents, full, catalogue] = await Promise.all([contentsOf(id), get(`/v1/sweeps/${id}/spec`), get("/v1/catalogue")]);
const { spec } = await post("/v1/spec", full);
const url = `${location.origin}/v1/sweeps/${id}/zarr`;
const risk = contents.sources.includes("sgd") ? 'ds.sgd_risk.mean(["seed", "repeat"])' : 'ds.ode_risk.mean("seed")';

function code(place, text) {
  place.textContent = text;
  place.after(h("button", { type: "button", onclick: () => copy(text) }, "Copy"));
}
code($("#python"), `import xarray as xr\n\nds = xr.open_zarr("${url}")\nrisk = ${risk}`);
code($("#spec"), yaml(spec));

const form = $("#download"), variables = [...new Set(contents.values.map((one) => one.name).filter((name) => /^(sgd|ode)_/.test(name)))];
const stored = variables.filter((name) => contents.observables.some((one) => name.endsWith(`_${one.name}`)) || /_(seconds|steps)$/.test(name));
form.append(
  select("format", "Format", catalogue.formats.map((one) => one.name), "netcdf"),
  select("variables", "Variables", [["", "all"], ...stored], ""),
  ...several(contents).map((axis) => axisSelect(axis, "", ["", "all"])));
function link() {
  $("#file").href = `/v1/sweeps/${id}/data${query(chosen(form))}`;
  problemAt("");
}
form.addEventListener("change", link);
form.addEventListener("submit", (event) => event.preventDefault());
link();

const { environment, ...rest } = contents.provenance;
const flat = { ...rest, ...(environment ? JSON.parse(environment) : {}) };
facts($("#provenance"), Object.fromEntries(Object.entries(flat).map(([name, value]) => [name.replaceAll("_", " "), typeof value === "object" ? JSON.stringify(value) : String(value)])));
