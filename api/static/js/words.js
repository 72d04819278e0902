// How parameters are written, and what is chosen of a sweep's axes.
import { $, exact, h, number } from "./dom.js";
import { get } from "./rest.js";

const LABELS = JSON.parse($("#labels").textContent); // from the service's registry of parameters
export const symbol = (name) => LABELS[name]?.symbol ?? name;
export const longName = (name) => LABELS[name]?.long_name ?? "";
export const titled = (text) => text.replaceAll("_", " ");

/** d = 5, γ = 0.1; of several values the first and the last */
export const words = (place) => Object.entries(place).map(([name, value]) => `${symbol(name)} = ${(Array.isArray(value) ? [value[0], value.at(-1)] : [value]).map((one) => (typeof one === "number" ? number(one) : one)).join(" … ")}`).join(", ");

/** Values as people read them; with all of their digits where fewer would not tell them apart. */
export function spelled(values) {
  const texts = values.map(number);
  return new Set(texts).size === texts.length ? texts : values.map(exact);
}

/** What is in a sweep; where that cannot be said, why not, and nothing else happens. */
export async function contentsOf(id) {
  try {
    return await get(`/v1/sweeps/${id}/contents`);
  } catch (problem) {
    problemAt(problem.message);
    return new Promise(() => {});
  }
}

/** Other fields for a form; who was at one of that name stays there. */
export function fill(form, ...fields) {
  const focused = form.contains(document.activeElement) ? document.activeElement.name : null;
  form.replaceChildren(...fields.filter(Boolean));
  if (focused) form.elements[focused]?.focus?.();
}

export function select(name, title, options, value, extra = {}) {
  const found = h("select", { name, ...extra }, options.map((one) => {
    const [key, text] = Array.isArray(one) ? one : [one, one];
    return h("option", { value: key, selected: String(key) === String(value) }, text);
  }));
  return h("label", {}, title, found);
}

/** A choice of one value of an axis; `others` stand before them. */
export function axisSelect(axis, value, ...others) {
  const texts = spelled(axis.values), options = axis.values.map((one, at) => [exact(one), texts[at]]);
  return select(axis.name, symbol(axis.name), [...others, ...options], value === undefined || value === "" ? "" : exact(Number.isNaN(Number(value)) ? value : Number(value)), { title: axis.long_name });
}

/** What a form says, without what is empty. */
export function chosen(form) {
  const found = {};
  for (const element of form.elements) {
    if (!element.name || element.disabled || element.name.startsWith("_")) continue;
    if (element.type === "checkbox") { if (element.checked) (found[element.name] ??= []).push(element.value); }
    else if (element.value !== "") found[element.name] = element.value;
  }
  return found;
}

/** Links to the same as files. */
export function downloads(place, path, query, formats = ["png", "svg", "pdf", "json"]) {
  place.replaceChildren("For print: ", ...formats.map((format) => h("a", { href: `${path}${query}${query ? "&" : "?"}format=${format}`, target: "_blank" }, format.toUpperCase())));
}

export const several = (contents) => contents.axes.filter((axis) => axis.values.length > 1);
/** Values that can be drawn, for a choice; and the one to begin with. */
export const values = (contents) => contents.values.map((one) => [one.name, titled(one.name)]);
export const firstValue = (contents) => ["sgd_risk", "ode_risk"].find((name) => contents.values.some((one) => one.name === name)) ?? contents.values[0]?.name;
export const problemAt = (text) => { $("#problem").textContent = text; };

/** What to begin with where nothing is asked: the middle of each axis; of points, the first one's own. */
export function beginning(contents, by) {
  const axes = several(contents).filter((axis) => axis.name !== by);
  if (!contents.points) return Object.fromEntries(axes.map((axis) => [axis.name, axis.values[Math.floor((axis.values.length - 1) / 2)]]));
  const free = { scaling: ["p", "gamma"] }[contents.design] ?? []; // they follow from the others
  if (contents.points.length <= 12) return {};
  return Object.fromEntries(axes.filter((axis) => !free.includes(axis.name)).map((axis) => [axis.name, contents.points[0][contents.axes.indexOf(axis)]]));
}
