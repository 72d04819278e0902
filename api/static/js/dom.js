// Elements, and numbers as people read them.

export const $ = (selector, within = document) => within.querySelector(selector);

/** An element: properties, `on…` listeners, then children; text is always text, never HTML. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name in element && !name.startsWith("aria") && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let gone;
/** A word to whoever is there, for a while. */
export function say(text) {
  const place = $("#says");
  place.textContent = text;
  clearTimeout(gone);
  gone = setTimeout(() => { place.textContent = ""; }, 6000);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("This browser does not let the page copy: select the text and copy it.");
  }
}

/** 0.00123, 1.2e-7, 1,234,567: three digits where it is no whole number. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en-GB");
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(3)));
}

/** A parameter as it was given: all of its digits, but no noise of the last ones. */
export function exact(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(10))) : String(value);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  for (const [unit, length] of [["years", 31557600], ["days", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= length) return `${Number((seconds / length).toPrecision(2))} ${unit}`;
  }
  return seconds >= 0.01 || seconds === 0 ? `${Number(seconds.toPrecision(2))} s` : "less than 0.01 s";
}

export function size(bytes) {
  for (const [unit, length] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (bytes >= length) return `${Number((bytes / length).toPrecision(2))} ${unit}`;
  }
  return `${bytes} bytes`;
}

export const when = (stamp) => `${stamp.slice(0, 16).replace("T", " ")} UTC`;

/** Rows of a definition list; what is not there is left out. */
export function facts(place, rows) {
  place.replaceChildren(...Object.entries(rows).flatMap(([name, value]) =>
    value === null || value === undefined || value === "" ? [] : [h("dt", {}, name), h("dd", {}, value)]));
}

/** Calls come in bursts; the last one counts. */
export function settled(action, milliseconds) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), milliseconds);
  };
}

/** Ask first. Resolves to what `read` makes of the dialog, or to null. */
export function ask(title, content, { yes = "Yes", danger = false, read = () => true } = {}) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" },
      h("form", { method: "dialog" },
        h("h2", { id: "dialog-title" }, title), content,
        h("div", { className: "actions" },
          h("button", { type: "button", onclick: () => dialog.close() }, "Keep it as it is"), // Enter means yes
          h("button", { value: "yes", type: "submit", className: danger ? "danger" : "primary" }, yes))));
    dialog.addEventListener("close", () => {
      const answer = dialog.returnValue === "yes" ? read(dialog) : null;
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
