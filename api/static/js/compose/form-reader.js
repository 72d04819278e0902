// The spec that a form describes. Empty fields are left out, so that they have their defaults.
import { parseList, parseScalar } from "../common/format.js";
import { DESIGNS } from "./designs.js";
import { keepOrder, parsePoints, parseSeeds, parseZip, toList } from "./field-values.js";
import { getParameterDetails } from "./parameter-rows.js";
import { readStructures } from "./structure-fields.js";

const TIME_FIELDS = ["max", "min", "samples", "tail"];

/**
 * Read a spec. `shownSpec` is the one that the form was filled with, and says what has no field. Structures
 * that are still `shownStructures`, which the form gave for it, stay as they were written.
 */
export function readSpec(form, shownSpec, shownStructures, design, catalogue) {
  const { axes, fixed } = readParameters(form, shownSpec, design, catalogue);
  const name = readText(form, "name");
  const zip = parseZip(readText(form, "zip"));
  const structures = readStructures(form, shownSpec, catalogue);
  const isUnchanged = JSON.stringify(structures) === JSON.stringify(shownStructures);
  const observables = readObservables(form, shownSpec, catalogue);
  const options = readRegimeOptions(form, catalogue);
  const { settings } = DESIGNS[design];
  // The order of the keys is that of the text.
  return {
    ...(name && { name }),
    ...(design === "points" && { points: parsePoints(readText(form, "points")) }),
    ...(settings.length && { [design]: readNumbers(form, design, settings.map((setting) => setting.name)) }),
    axes,
    ...(Object.keys(fixed).length && { fixed }),
    ...(zip.length && { zip }),
    ...(isUnchanged ? pickStructures(shownSpec, catalogue) : structures),
    ...(!form.elements.simulate.checked && { simulate: false }),
    ...(form.elements.fluctuations.checked && { fluctuations: true }),
    seeds: readSeeds(form),
    time: { ...readNumbers(form, "time", TIME_FIELDS), ...pick(shownSpec.time, "then") },
    ...pick(shownSpec, "keep_state", "target_error"),
    ...(observables && { observables }),
    ...(Object.keys(options).length && { regime_options: options }),
  };
}

function pickStructures(spec, catalogue) {
  return pick(spec, ...catalogue.structures.map(({ name }) => name));
}

function pick(object = {}, ...names) {
  return Object.fromEntries(names.filter((name) => name in object).map((name) => [name, object[name]]));
}

function readText(form, name) {
  return form.elements[name]?.value?.trim() ?? "";
}

function readChecked(form, name) {
  return [...form.querySelectorAll(`input[name="${name}"]:checked`)].map((input) => input.value);
}

/** Read the fields `prefix.name` that are not empty. */
function readNumbers(form, prefix, names) {
  const numbers = {};
  for (const name of names) {
    const text = readText(form, `${prefix}.${name}`);
    if (text !== "") numbers[name] = parseScalar(text);
  }
  return numbers;
}

function readSeeds(form) {
  const init = parseSeeds(readText(form, "seeds.init"));
  const repeat = parseSeeds(readText(form, "seeds.repeat"));
  return repeat === 1 ? init : { init, repeat };
}

function readParameters(form, shownSpec, design, catalogue) {
  const parameters = { axes: {}, fixed: {} };
  for (const row of form.querySelectorAll(".param")) {
    readParameterRow(row, parameters, form, shownSpec, design, catalogue);
  }
  const regimes = keepOrder(readChecked(form, "regime"), toList(shownSpec.axes?.regime));
  if (regimes.length) parameters.axes.regime = regimes.length === 1 ? regimes[0] : regimes;
  return parameters;
}

function readParameterRow(row, { axes, fixed }, form, shownSpec, design, catalogue) {
  const { name } = row.dataset;
  const rangeInputs = [...row.querySelectorAll(".ends input")];
  if (rangeInputs.length) {
    const [spacing] = rangeInputs[0].name.split(".");
    axes[name] = { [spacing]: rangeInputs.map((input) => parseScalar(input.value)) };
    return;
  }
  const shownAxis = shownSpec.axes?.[name];
  const isText = getParameterDetails(catalogue, name)?.kind === "text";
  const values = isText
    ? keepOrder(readChecked(form, `text.${name}`), toList(shownAxis))
    : parseList(row.querySelector("input").value);
  const isDesignAxis = DESIGNS[design].axes.includes(name);
  if (!values.length) {
    if (isDesignAxis) axes[name] = ""; // required, so the service reports it
    return;
  }
  // [5] is an axis with one value, 5 is not an axis.
  const isAxis = values.length > 1 || (Array.isArray(shownAxis) && shownAxis.length === 1);
  const target = isAxis || isDesignAxis || name.includes(".") ? axes : fixed;
  target[name] = isAxis ? values : values[0];
}

/** Return the observables, or null for the default ones; a spec that names them implies no overlaps. */
function readObservables(form, shownSpec, catalogue) {
  const observables = readChecked(form, "observable");
  const defaults = catalogue.observables.filter((entry) => entry.default).map((entry) => entry.name);
  return observables.join() === defaults.join() && !shownSpec.observables ? null : observables;
}

function readRegimeOptions(form, catalogue) {
  const options = {};
  for (const { name, default: defaultValue } of catalogue.regime_options) {
    const input = form.elements[`regime_options.${name}`];
    if (typeof defaultValue === "boolean") {
      if (input.checked !== defaultValue) options[name] = input.checked;
    } else if (input.value.trim() !== "") {
      options[name] = parseScalar(input.value);
    }
  }
  return options;
}
