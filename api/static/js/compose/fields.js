// The parts that the form of a spec is made of. An error is shown in the element whose `data-field`,
// one or several names, contains that of the field concerned.
import { createElement } from "../common/dom.js";

/** Create a section with a title. */
export function createSection(title, ...content) {
  return createElement("fieldset", { className: "part" }, createElement("legend", {}, title), content);
}

/** Create a labelled control with room for an error. */
export function createField(name, title, control) {
  return createElement("div", { className: "field", dataset: { field: name } },
    createElement("label", {}, title, control),
    createErrorLine());
}

/** Create a labelled text input with room for an error. */
export function createInputField(name, title, value, properties = {}) {
  return createField(name, title, createElement("input", { name, value: value ?? "", ...properties }));
}

/** Create room for the error of several controls. */
export function createErrorField(name) {
  return createElement("div", { className: "field", dataset: { field: name } }, createErrorLine());
}

/** Create an empty line for an error. */
export function createErrorLine() {
  return createElement("p", { className: "error", role: "alert" });
}

/** Create a checkbox with a title and an explanation. */
export function createCheckbox(name, value, title, explanation, checked) {
  return createElement("label", {},
    createElement("input", { type: "checkbox", name, value, checked }),
    createElement("span", {}, title, createElement("small", {}, explanation)));
}

/** Create the options of a select; an option is a name, or a pair of value and text. */
export function createOptions(options, selected) {
  return options.map((option) => {
    const [value, text] = Array.isArray(option) ? option : [option, option];
    const valueProperty = Array.isArray(option) ? { value } : {};
    return createElement("option", { ...valueProperty, selected: value === selected }, text);
  });
}

/** Create a grid of small fields. */
export function createFieldGrid(...fields) {
  return createElement("div", { className: "fields" }, ...fields);
}

/** Create a grid of checkboxes. */
export function createCheckboxGrid(...checkboxes) {
  return createElement("div", { className: "choices" }, ...checkboxes);
}
