// The sections of the form, filled with a spec.
import { createElement } from "../common/dom.js";
import { formatName } from "../common/format.js";
import { replaceFields } from "../common/view-controls.js";
import { DESIGNS, listParameters } from "./designs.js";
import {
  createCheckbox, createCheckboxGrid, createErrorField, createField, createFieldGrid, createInputField,
  createOptions, createSection,
} from "./fields.js";
import { formatPoints, formatSeeds, formatZip, isMapping, toList } from "./field-values.js";
import { createParameterAdder, createParameterRow } from "./parameter-rows.js";
import { createStructureFields } from "./structure-fields.js";

const SEEDS_HINT = "a count, or a list of seeds in brackets";
const DECIMAL = { inputMode: "decimal" };
const WHOLE = { inputMode: "numeric" };

/** Fill a form with the fields of a spec. */
export function renderSpecForm(form, spec, design, catalogue, onRemoveParameter) {
  replaceFields(form,
    createNameSection(spec),
    createGridSection(spec, design, catalogue, onRemoveParameter),
    createComputationSection(spec, catalogue),
    ...createStructureSections(spec, catalogue),
    createSamplingSection(spec),
    createMoreSection(spec, design, catalogue));
}

function createNameSection(spec) {
  const properties = { maxLength: 200, placeholder: "a short description" };
  return createSection("Name", createInputField("name", "Title", spec.name, properties));
}

function createGridSection(spec, design, catalogue, onRemoveParameter) {
  const { settings } = DESIGNS[design];
  const designOptions = Object.entries(DESIGNS).map(([name, { title }]) => [name, title]);
  const settingFields = settings.map(({ name, title }) =>
    createInputField(`${design}.${name}`, title, spec[design][name], DECIMAL));
  const rows = listParameters(spec, design).map((name) =>
    createParameterRow(name, spec.axes?.[name] ?? spec.fixed?.[name], design, catalogue, onRemoveParameter));
  const designSelect = createElement(
    "select", { name: "design", dataset: { shape: "design" } }, createOptions(designOptions, design));
  return createSection("Grid",
    createElement("label", {}, "Design", designSelect),
    settings.length > 0 && createFieldGrid(settingFields),
    design === "points" && createPointsField(spec.points),
    createElement("div", { id: "params" }, rows),
    createParameterAdder(spec, design, catalogue));
}

function createPointsField(points) {
  const textarea = createElement("textarea", { name: "points", rows: 8, value: formatPoints(points) });
  return createField("points", "One point per line; the first line names the columns", textarea);
}

function createComputationSection(spec, catalogue) {
  const selected = toList(spec.axes?.regime ?? spec.fixed?.regime);
  const regimes = catalogue.regimes.map(({ name, about }) =>
    createCheckbox("regime", name, formatName(name), about, selected.includes(name)));
  return createSection("What to compute",
    createCheckboxGrid(
      createCheckbox("simulate", "", "SGD", "exact one-pass simulations", spec.simulate ?? true),
      regimes,
      createCheckbox("fluctuations", "", "error bars", "how far runs should scatter about high dimensional",
        spec.fluctuations ?? false)),
    createErrorField("axes.regime"),
    createErrorField("fluctuations"),
    createErrorField("simulate"));
}

function createStructureSections(spec, catalogue) {
  const [init, ...others] = catalogue.structures;
  const createBlock = (structure) => createStructureFields(spec, structure, structure.title, catalogue);
  return [
    createSection(init.title, createStructureFields(spec, init, "Kind", catalogue)),
    createSection("Teacher, second layers, schedule", ...others.map(createBlock)),
  ];
}

function createSamplingSection(spec) {
  const seeds = isMapping(spec.seeds) ? spec.seeds : { init: spec.seeds ?? 1, repeat: 1 };
  const { max, min, samples, tail } = spec.time ?? {};
  const hint = { title: SEEDS_HINT };
  return createSection("Seeds and time",
    createFieldGrid(
      createInputField("seeds.init", "Initial conditions", formatSeeds(seeds.init), hint),
      createInputField("seeds.repeat", "SGD repeats of each", formatSeeds(seeds.repeat), hint),
      createInputField("time.max", "Until t =", max, DECIMAL),
      createInputField("time.min", "First sample at t =", min, { placeholder: "max/1e5", ...DECIMAL }),
      createInputField("time.samples", "Samples, log-spaced", samples, { placeholder: "120", ...WHOLE }),
      createInputField("time.tail", "Extra late samples", tail, { placeholder: "0", ...WHOLE })));
}

function createMoreSection(spec, design, catalogue) {
  const options = spec.regime_options ?? {};
  const isOpen = Boolean(spec.observables || spec.zip || Object.keys(options).length);
  const zipField = createInputField("zip", "Vary together (d, gamma; …)", formatZip(spec.zip ?? []));
  return createSection("More",
    createElement("details", { open: isOpen },
      createElement("summary", {}, "Observables, axes that vary together, options of the theories"),
      createObservableCheckboxes(spec.observables, catalogue),
      createErrorField("observables"),
      createFieldGrid(design === "product" && zipField, createOptionFields(options, catalogue)),
      createCheckboxGrid(createOptionCheckboxes(options, catalogue))));
}

function createObservableCheckboxes(selected, catalogue) {
  const isChecked = (observable) => selected?.includes(observable.name) ?? observable.default;
  const checkboxes = catalogue.observables.map((observable) => createCheckbox(
    "observable", observable.name, formatName(observable.name), observable.about, isChecked(observable)));
  const overlaps = createCheckbox(
    "observable", "overlaps", "overlaps", "the matrices M and Q; stored by default if they are small",
    selected?.includes("overlaps") ?? false);
  return createCheckboxGrid(checkboxes, overlaps);
}

function createOptionFields(options, catalogue) {
  const numbers = catalogue.regime_options.filter((option) => typeof option.default === "number");
  return numbers.map(({ name, about, default: defaultValue }) => createInputField(
    `regime_options.${name}`, formatName(name), options[name],
    { placeholder: String(defaultValue), title: about, ...WHOLE }));
}

function createOptionCheckboxes(options, catalogue) {
  const switches = catalogue.regime_options.filter((option) => typeof option.default === "boolean");
  return switches.map(({ name, about, default: defaultValue }) => createCheckbox(
    `regime_options.${name}`, "", formatName(name), about, options[name] ?? defaultValue));
}
