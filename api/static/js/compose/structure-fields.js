// The fields of structured parameters: a select for the kind, and a field for each part of a value.
import { createElement } from "../common/dom.js";
import { parseScalar } from "../common/format.js";
import { createCheckbox, createErrorLine, createField, createFieldGrid, createOptions } from "./fields.js";
import { toList } from "./field-values.js";
import {
  findKind, getAxisName, getEntry, getFieldPath, getStructureValue, isDefaultValue, moveTeacher,
  setStructureValue, writeValue,
} from "./structures.js";

const OTHER_VALUE = "as written in the text"; // the option for a value that no kind describes
const SEPARATORS = /[\s,;]+/;

const parseNumbers = (text) => text.split(SEPARATORS).filter(Boolean).map(parseScalar);
const formatNumbers = (numbers) => toList(numbers).join(", ");
const parseRows = (text) => text.split("\n").map(parseNumbers).filter((row) => row.length);
const formatRows = (rows) => toList(rows).map((row) => toList(row).join(" ")).join("\n");

/** How the types of fields are shown and read; `parse` is not called with an empty text. */
const TYPES = {
  number: { tag: "input", properties: { inputMode: "decimal" }, format: String, parse: parseScalar },
  integer: { tag: "input", properties: { inputMode: "numeric" }, format: String, parse: parseScalar },
  numbers: { tag: "input", properties: {}, format: formatNumbers, parse: parseNumbers },
  rows: { tag: "textarea", properties: { rows: 3 }, format: formatRows, parse: parseRows },
};

/** Create the fields of a structure; `title` is that of its select. */
export function createStructureFields(spec, structure, title, catalogue) {
  const movedSpec = moveTeacher(spec, catalogue);
  const kind = findKind(movedSpec, structure, catalogue);
  const value = getStructureValue(movedSpec, structure, catalogue);
  const isInGrid = (field) => isSwept(spec, getAxisName(structure, field));
  const fields = kind?.fields ?? [];
  const switches = fields.filter(({ type }) => type === "switch");
  const others = fields.filter(({ type }) => type !== "switch");
  return createElement("div", { className: "structure" },
    createFieldGrid(
      createKindField(structure, kind, title),
      ...others.map((field) => createValueField(structure, field, value, isInGrid(field)))),
    ...switches.map((field) => createSwitch(structure, field, value)),
    kind && createElement("p", { className: "sub" }, kind.about));
}

function isSwept(spec, name) {
  return [spec.axes, spec.fixed, spec.points?.[0]].some((values) => values && name in values);
}

function createKindField(structure, kind, title) {
  const names = structure.kinds.map(({ name }) => name);
  if (!kind) names.push(OTHER_VALUE);
  const select = createElement("select", {
    name: `${structure.name}.kind`,
    dataset: { shape: "structure", name: structure.name },
  }, createOptions(names, kind?.name ?? OTHER_VALUE));
  // An error of what no field has is shown here, such as `second_layer.init` of an unknown name.
  const templatePaths = Object.keys(Object(kind?.template)).map((key) => `${structure.name}.${key}`);
  return createField([structure.name, ...templatePaths].join(" "), title, select);
}

/** Create the field of a number, which is shown but cannot be changed if it is in the grid, or of a list. */
function createValueField(structure, field, value, isInGrid) {
  const { tag, properties, format } = TYPES[field.type];
  const entry = getEntry(value, field.path);
  const path = getFieldPath(structure, field);
  const control = createElement(tag, {
    name: path,
    value: entry === undefined ? "" : format(entry),
    placeholder: isInGrid ? "in the grid" : field.if_empty || String(field.default ?? ""),
    disabled: isInGrid,
    title: field.about,
    autocomplete: "off",
    "aria-label": `${field.title}: ${structure.title}`,
    ...properties,
  });
  const parents = field.path.slice(0, -1).map((_, index) =>
    [structure.name, ...field.path.slice(0, index + 1)].join("."));
  return createField(isInGrid ? "" : [path, ...parents].join(" "), field.title, control);
}

function createSwitch(structure, field, value) {
  const path = getFieldPath(structure, field);
  return createElement("div", { className: "choices field", dataset: { field: path } },
    createCheckbox(path, "", field.title, field.about, getEntry(value, field.path) === true),
    createErrorLine());
}

/** Read all structures by their names in a spec, without those at their defaults. */
export function readStructures(form, shownSpec, catalogue) {
  const movedSpec = moveTeacher(shownSpec, catalogue);
  return catalogue.structures.reduce((structures, structure) => {
    const value = readStructure(form, movedSpec, structure, catalogue);
    const isDefault = value === undefined || isDefaultValue(structure, value);
    return isDefault ? structures : setStructureValue(structures, structure, value, catalogue);
  }, {});
}

function readStructure(form, movedSpec, structure, catalogue) {
  const kindName = form.elements[`${structure.name}.kind`].value;
  const kind = structure.kinds.find(({ name }) => name === kindName);
  if (!kind) return getStructureValue(movedSpec, structure, catalogue);
  return writeValue(kind, (field) => readField(form.elements[getFieldPath(structure, field)], field));
}

/** Return what a control says; an empty one that is required gives an empty text, which is refused. */
function readField(control, field) {
  if (!control || control.disabled) return undefined;
  if (field.type === "switch") return control.checked || undefined;
  const text = control.value.trim();
  if (text !== "") return TYPES[field.type].parse(text);
  return field.required ? "" : undefined;
}
