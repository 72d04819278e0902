// The rows of parameters in the form of a spec: each is given as a list of values, or as a spaced range.
import { createElement } from "../common/dom.js";
import { getLongName, getSymbol } from "../common/labels.js";
import { DESIGNS, listParameters } from "./designs.js";
import { createErrorLine, createOptions } from "./fields.js";
import { isMapping, toList } from "./field-values.js";
import { getAxisName, getFieldPath, listNumbers } from "./structures.js";

const SPACINGS = [["list", "values"], ["log", "log-spaced"], ["lin", "evenly spaced"]];
const RANGE_PARTS = ["first", "last", "count"];
const EXAMPLE_VALUES = "5, 20, 100";

/** Return what the registry says of a parameter, or undefined for exponents and numbers of structures. */
export function getParameterDetails(catalogue, name) {
  return catalogue.parameter_details.find((details) => details.name === name);
}

/** Return the value with which a parameter of the registry or an exponent is added. */
export function getDefaultParameter(catalogue, name) {
  const details = getParameterDetails(catalogue, name);
  return details?.default ?? details?.choices?.[0] ?? 1;
}

/** Create the row of a parameter; `onRemove(name)` is called by its button, if it may be removed. */
export function createParameterRow(name, value, design, catalogue, onRemove) {
  const details = getParameterDetails(catalogue, name);
  const label = `${getSymbol(name)}, ${getLongName(name) || name}`;
  const isText = details?.kind === "text";
  const spacing = isMapping(value) ? Object.keys(value)[0] : "list";
  const isRemovable = !DESIGNS[design].axes.includes(name) && name !== "k";
  const fieldNames = [`param.${name}`, ...listFieldPaths(catalogue, name)].join(" ");
  return createElement("div", { className: "param field", dataset: { field: fieldNames, name } },
    createElement("div", { className: "what" },
      getSymbol(name),
      createElement("small", {}, getLongName(name))),
    isText ? createElement("span") : createSpacingSelect(name, spacing, label),
    createElement("div", { className: "values" },
      isText
        ? createTextChoices(name, toList(value), details.choices, catalogue)
        : createNumberInputs(name, value, spacing, label, details)),
    isRemovable ? createRemoveButton(name, label, onRemove) : createElement("span"),
    createErrorLine());
}

/** Return the paths that errors give to a number of a structure, such as `schedule.power.alpha`. */
function listFieldPaths(catalogue, name) {
  const paths = catalogue.structures.flatMap((structure) => structure.kinds
    .flatMap((kind) => kind.fields)
    .filter((field) => getAxisName(structure, field) === name)
    .map((field) => getFieldPath(structure, field)));
  return [...new Set(paths)];
}

function createSpacingSelect(name, spacing, label) {
  return createElement("select", {
    name: `kind.${name}`,
    dataset: { shape: "kind", name },
    "aria-label": `spacing of ${label}`,
  }, createOptions(SPACINGS, spacing));
}

function createTextChoices(name, selected, choices, catalogue) {
  const getFormula = (choice) => catalogue.activations.find((entry) => entry.name === choice)?.about ?? "";
  const createChoice = (choice) => createElement("input", {
    type: "checkbox",
    name: `text.${name}`,
    value: choice,
    title: getFormula(choice),
    checked: selected.includes(choice),
  });
  return createElement("div", {},
    choices.map((choice) => createElement("label", {}, createChoice(choice), `${choice} `)));
}

function createNumberInputs(name, value, spacing, label, details) {
  if (spacing !== "list") return createRangeInputs(name, value, spacing, label);
  return createElement("input", {
    name: `list.${name}`,
    value: toList(value).join(", "),
    "aria-label": `values of ${label}`,
    placeholder: String(details?.default ?? EXAMPLE_VALUES),
    autocomplete: "off",
  });
}

function createRangeInputs(name, range, spacing, label) {
  const inputs = RANGE_PARTS.map((part, index) => createElement("input", {
    name: `${spacing}.${name}.${index}`,
    value: range[spacing]?.[index] ?? "",
    "aria-label": `${label}: ${part}`,
    placeholder: part,
    title: part,
    inputMode: "decimal",
  }));
  return createElement("div", { className: "ends" }, inputs);
}

function createRemoveButton(name, label, onRemove) {
  return createElement("button", {
    type: "button",
    className: "quiet",
    "aria-label": `remove ${label}`,
    title: "remove",
    onclick: () => onRemove(name),
  }, "✕");
}

/** Create the select by which a parameter is added. */
export function createParameterAdder(spec, design, catalogue) {
  const shown = listParameters(spec, design);
  const { excluded } = DESIGNS[design];
  const numberNames = listNumbers(spec, catalogue).map(({ name }) => name);
  const isAddable = (name) => {
    if (shown.includes(name) || excluded.includes(name)) return false;
    return !name.includes(".") || numberNames.includes(name);
  };
  const select = createElement("select", { name: "add", dataset: { shape: "add" } },
    createElement("option", { value: "" }, "…"),
    catalogue.parameters.filter(isAddable).map((name) => createElement("option", { value: name }, name)));
  return createElement("label", { className: "inline" }, "Add a parameter ", select);
}
