// The error of a spec, shown at the field that it names.

const ERROR_ID = "blamed";

/** Show an error at its field and clear all others; one without a field is shown beside the cost only. */
export function showFieldError(form, error, design) {
  const field = error?.field ? findField(form, error.field, design) : null;
  const errorLine = field?.querySelector(".error");
  clearErrors(form, errorLine);
  if (!field) return;
  const text = error.allowed ?? error.message;
  // Setting the same text again would make screen readers announce it again.
  if (errorLine.textContent !== text) errorLine.textContent = text;
  errorLine.id = ERROR_ID;
  for (const input of field.querySelectorAll("input, textarea")) {
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", ERROR_ID);
  }
  const details = field.closest("details");
  if (details) details.open = true;
}

function clearErrors(form, keptLine) {
  for (const line of form.querySelectorAll(".error")) {
    if (line !== keptLine) line.textContent = "";
  }
  for (const input of form.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
  }
  for (const line of form.querySelectorAll(`#${ERROR_ID}`)) line.removeAttribute("id");
}

/** Find the element for a field of the service such as `axes.gamma.log[0]`, or for the closest part of it. */
function findField(form, serviceField, design) {
  const path = serviceField.replace(/ \(key\).*$/, "").replace(/\[\d+\].*$/, "");
  const name = path.replace(/^(axes|fixed)\./, "").replace(/\.(lin|log)$/, "");
  const parts = name.split(".");
  const prefixes = parts.map((_, index) => parts.slice(0, parts.length - index).join("."));
  const candidates = [path, `param.${name}`, name, `${design}.${name}`, ...prefixes];
  for (const candidate of candidates) {
    const element = form.querySelector(`[data-field="${CSS.escape(candidate)}"]`);
    if (element) return element;
  }
  return null;
}
