// Find and create elements.

/** Return the first element that matches `selector`. */
export function $(selector, root = document) {
  return root.querySelector(selector);
}

/**
 * Create an element with properties or attributes, `on…` listeners and children.
 * A child that is a string becomes text, never HTML; empty properties and children are left out.
 */
export function createElement(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) setProperty(element, name, value);
  element.append(...children.flat().filter((child) => !isAbsent(child)));
  return element;
}

function setProperty(element, name, value) {
  if (isAbsent(value)) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "dataset") Object.assign(element.dataset, value);
  else if (isWritableProperty(element, name)) element[name] = value;
  else element.setAttribute(name, value === true ? "" : value);
}

/** ARIA properties are not in every browser, and `list` is read-only: both are set as attributes. */
function isWritableProperty(element, name) {
  return name in element && !name.startsWith("aria") && name !== "list";
}

function isAbsent(value) {
  return value === null || value === undefined || value === false;
}

/** Fill a definition list with rows of name and value; rows without a value are left out. */
export function renderFacts(list, rows) {
  const present = Object.entries(rows).filter(([, value]) => ![null, undefined, ""].includes(value));
  list.replaceChildren(...present.flatMap(([name, value]) => [
    createElement("dt", {}, name),
    createElement("dd", {}, value),
  ]));
}
