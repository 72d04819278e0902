// The controls of a view: selects, what is selected, links to files, and the line for a problem.
import { $, createElement } from "./dom.js";
import { formatDistinct, formatExact, formatName, parseScalar } from "./format.js";
import { getSymbol } from "./labels.js";

const FIGURE_FORMATS = ["png", "svg", "pdf", "json"];

/** Create a labelled select; an option is a name, or a pair of value and text. */
export function createSelect(name, title, options, value, properties = {}) {
  const items = options.map((option) => {
    const [key, text] = Array.isArray(option) ? option : [option, option];
    return createElement("option", { value: key, selected: String(key) === String(value) }, text);
  });
  return createElement("label", {}, title, createElement("select", { name, ...properties }, items));
}

/** Create a select for one value of an axis, after `extraOptions`. */
export function createAxisSelect(axis, value, ...extraOptions) {
  const texts = formatDistinct(axis.values);
  const options = axis.values.map((axisValue, index) => [formatExact(axisValue), texts[index]]);
  const selected = value === undefined || value === "" ? "" : formatExact(parseScalar(value));
  return createSelect(
    axis.name, getSymbol(axis.name), [...extraOptions, ...options], selected, { title: axis.long_name });
}

/** Create a select for a theory, if the value that is drawn depends on one; else return null. */
export function createTheorySelect(contents, valueName, regime) {
  const value = contents.values.find(({ name }) => name === valueName);
  if (!contents.regimes.length || !value?.needs_regime) return null;
  const options = contents.regimes.map((name) => [name, formatName(name)]);
  return createSelect("regime", "Theory", options, regime);
}

/** Replace the fields of a form; the focus stays at the field of the same name. */
export function replaceFields(form, ...fields) {
  const focusedName = form.contains(document.activeElement) ? document.activeElement.name : null;
  form.replaceChildren(...fields.filter(Boolean));
  if (focusedName) form.elements[focusedName]?.focus?.();
}

/** Return the values of a form by name, without empty ones; names that begin with `_` are skipped. */
export function readFields(form) {
  const values = {};
  for (const element of form.elements) {
    if (!element.name || element.disabled || element.name.startsWith("_")) continue;
    if (element.type === "checkbox") {
      if (element.checked) (values[element.name] ??= []).push(element.value);
    } else if (element.value !== "") {
      values[element.name] = element.value;
    }
  }
  return values;
}

/** Keep a form that only selects what is shown from being sent. */
export function preventSubmit(form) {
  form.addEventListener("submit", (event) => event.preventDefault());
}

/** Render links to the same view as files. */
export function renderDownloads(container, path, query, formats = FIGURE_FORMATS) {
  const links = formats.map((format) => {
    const href = `${path}${query}${query ? "&" : "?"}format=${format}`;
    return createElement("a", { href, target: "_blank" }, format.toUpperCase());
  });
  container.replaceChildren("Download: ", ...links);
}

/** Show why a view cannot be drawn; an empty text clears the line. */
export function showProblem(text) {
  $("#problem").textContent = text;
}
