// The errors of a spec, each shown at the field that it names.

const ERROR_ID_PREFIX = "blamed-";

/** Show errors at their fields and clear all others; one without a field is shown beside the cost only. */
export function showFieldErrors(form, error, design) {
  const textByField = collectTexts(form, error, design);
  clearErrors(form, new Set([...textByField.keys()].map(getErrorLine)));
  [...textByField].forEach(([field, text], index) => showAtField(field, text, `${ERROR_ID_PREFIX}${index}`));
}

/** Return what is to be shown at each field, in the order of the errors. */
function collectTexts(form, error, design) {
  const textByField = new Map();
  for (const { field: path, allowed } of listErrors(error)) {
    const field = findField(form, path, design);
    if (!field) continue;
    const previous = textByField.get(field);
    textByField.set(field, previous ? `${previous}; ${allowed}` : allowed);
  }
  return textByField;
}

function listErrors(error) {
  if (error?.errors?.length) return error.errors;
  return error?.field ? [{ field: error.field, allowed: error.allowed ?? error.message }] : [];
}

function showAtField(field, text, id) {
  const errorLine = getErrorLine(field);
  // Setting the same text again would make screen readers announce it again.
  if (errorLine.textContent !== text) errorLine.textContent = text;
  errorLine.id = id;
  for (const input of field.querySelectorAll("input, select, textarea")) {
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", id);
  }
  const details = field.closest("details");
  if (details) details.open = true;
}

function getErrorLine(field) {
  return field.querySelector(".error");
}

function clearErrors(form, keptLines) {
  for (const line of form.querySelectorAll(".error")) {
    if (!keptLines.has(line)) line.textContent = "";
    line.removeAttribute("id");
  }
  for (const input of form.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
  }
}

/** Find the element for a field of the service such as `axes.gamma.log[0]`, or for the closest part of it. */
function findField(form, serviceField, design) {
  const path = serviceField.replace(/ \(key\).*$/, "").replace(/\[\d+\].*$/, "");
  const name = path.replace(/^(axes|fixed)\./, "").replace(/\.(lin|log)$/, "");
  const parts = name.split(".");
  const prefixes = parts.map((_, index) => parts.slice(0, parts.length - index).join("."));
  const candidates = [path, `param.${name}`, name, `${design}.${name}`, ...prefixes];
  for (const candidate of candidates) {
    const element = form.querySelector(`[data-field~="${CSS.escape(candidate)}"]`);
    if (element) return element;
  }
  return null;
}
