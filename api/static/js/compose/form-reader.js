// The spec that a form describes. Empty fields are left out, so that they have their defaults.
import { parseList, parseScalar } from "../common/format.js";
import { DESIGNS } from "./designs.js";
import { getTeacher, keepOrder, parsePoints, parseSeeds, parseZip, toList } from "./field-values.js";
import { CUSTOM_TEACHER } from "./form-layout.js";
import { getParameterDetails } from "./parameter-rows.js";

const TIME_FIELDS = ["max", "min", "samples", "tail"];
const TEACHER_KEYS = ["teacher", "orthonormal_teacher"];

/** Read a spec; `shownSpec` is the one that the form was filled with, and says what has no field. */
export function readSpec(form, shownSpec, design, catalogue) {
  const { axes, fixed } = readParameters(form, shownSpec, design, catalogue);
  const name = readText(form, "name");
  const zip = parseZip(readText(form, "zip"));
  const init = readInit(form, shownSpec.init ?? { kind: "gaussian" }, catalogue);
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
    ...(init && { init }),
    ...(!form.elements.simulate.checked && { simulate: false }),
    seeds: readSeeds(form),
    time: readNumbers(form, "time", TIME_FIELDS),
    ...(observables && { observables }),
    ...(Object.keys(options).length && { regime_options: options }),
  };
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
  const target = isAxis || isDesignAxis || name.startsWith("init.") ? axes : fixed;
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

/** Return the initial condition, or null for the default one. */
function readInit(form, shownInit, catalogue) {
  const kindName = form.elements["init.kind"].value;
  const kind = catalogue.inits.find((entry) => entry.name === kindName);
  if (!kind) return shownInit; // such as given overlaps, which have no fields
  const previousInit = shownInit.kind === kindName ? shownInit : {};
  const init = {
    kind: kindName,
    ...readTeacher(form, previousInit, kind),
    ...readNumbers(form, "init", kind.parameters.map((parameter) => parameter.name)),
  };
  if (form.elements["init.shared"]?.checked) init.shared = true;
  const d0 = readText(form, "init.shared.d0");
  if (d0) init.shared = { d0: parseScalar(d0) };
  const isDefault = kindName === "gaussian" && Object.keys(init).length === 1;
  return isDefault ? null : init;
}

/** Return the teacher as it was written if it is still the same. */
function readTeacher(form, previousInit, kind) {
  const selected = form.elements["init.teacher"]?.value;
  const isUnchanged = selected === undefined || selected === CUSTOM_TEACHER
    || selected === getTeacher(previousInit, kind);
  if (isUnchanged) {
    const keys = TEACHER_KEYS.filter((key) => key in previousInit);
    return Object.fromEntries(keys.map((key) => [key, previousInit[key]]));
  }
  return selected === kind.teacher ? {} : { teacher: selected };
}
