// The question before an extension: more values of an axis, more seeds.
import { openDialog } from "../common/dialog.js";
import { createElement } from "../common/dom.js";
import { parseList } from "../common/format.js";
import { getJson, post } from "../common/rest.js";

/** Resolve to a change as the API takes it, or to null. */
export async function askForExtension(sweep) {
  const [spec, { axes }] = await Promise.all([
    loadShortSpec(sweep.id),
    getJson(`/v1/sweeps/${sweep.id}/contents`),
  ]);
  const axisNames = listExtensibleAxes(spec, axes);
  const seeds = expandSeeds(spec.seeds);
  return openDialog(`Extend ${sweep.name || sweep.id}`, createContent(axisNames, seeds), {
    confirmLabel: "Run extension",
    readResult: (dialog) => readChange(dialog, seeds),
  });
}

/** Get the spec of a sweep as it would be written, without defaults. */
async function loadShortSpec(sweepId) {
  const fullSpec = await getJson(`/v1/sweeps/${sweepId}/spec`);
  const { spec } = await post("/v1/spec", fullSpec);
  return spec;
}

function listExtensibleAxes(spec, axes) {
  if (spec.triangle || spec.points) return [];
  const names = axes.map((axis) => axis.name);
  // The scaling design computes p and gamma from the other axes.
  return spec.scaling ? names.filter((name) => !["p", "gamma"].includes(name)) : names;
}

/** Return the seeds of a spec as two lists. */
function expandSeeds(seeds) {
  const hasTwoKinds = typeof seeds === "object" && !Array.isArray(seeds);
  const { init = 1, repeat = 1 } = hasTwoKinds ? seeds : { init: seeds };
  const expand = (value) => (Array.isArray(value) ? value : Array.from({ length: value }, (_, seed) => seed));
  return { init: expand(init), repeat: expand(repeat) };
}

function createContent(axisNames, seeds) {
  const options = axisNames.map((name) => createElement("option", {}, name));
  const axisSelect = createElement("select", { name: "axis" }, options);
  const valuesInput = createElement("input", { name: "values", placeholder: "2, 4, 8", autocomplete: "off" });
  return createElement("div", {},
    createElement("p", { className: "sub" },
      "Creates a new sweep with more values or seeds, which reuses the results of this one."),
    axisNames.length > 0 && createElement("div", { className: "fields" },
      createElement("label", {}, "Axis", axisSelect),
      createElement("label", {}, "Additional values", valuesInput)),
    createElement("div", { className: "fields" },
      createElement("label", {}, "Initial conditions", createCountInput("init", seeds.init)),
      createElement("label", {}, "SGD repeats of each", createCountInput("repeat", seeds.repeat))));
}

function createCountInput(name, seeds) {
  return createElement("input", { name, type: "number", min: 1, value: seeds.length });
}

function readChange(dialog, seeds) {
  const read = (name) => dialog.querySelector(`[name="${name}"]`)?.value ?? "";
  const change = {
    seeds: {
      init: extendSeeds(seeds.init, Number(read("init"))),
      repeat: extendSeeds(seeds.repeat, Number(read("repeat"))),
    },
  };
  const values = parseList(read("values"));
  if (values.length) change.axes = { [read("axis")]: values };
  return change;
}

/** Append the smallest unused seeds until there are `count`. */
function extendSeeds(seeds, count) {
  const extended = [...seeds];
  for (let seed = 0; extended.length < count; seed += 1) {
    if (!seeds.includes(seed)) extended.push(seed);
  }
  return extended;
}
