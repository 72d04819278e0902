// Modal questions.
import { createElement } from "./dom.js";

const CONFIRMED = "yes";

/** Ask a question. Resolves to what `readResult` makes of the dialog, or to null if it was dismissed. */
export function openDialog(title, content, { confirmLabel, danger = false, readResult = () => true }) {
  return new Promise((resolve) => {
    // Not a submit button, so that Enter confirms.
    const dismissButton = createElement(
      "button", { type: "button", onclick: () => dialog.close() }, "Back");
    const confirmButton = createElement(
      "button", { value: CONFIRMED, type: "submit", className: danger ? "danger" : "primary" }, confirmLabel);
    const dialog = createElement("dialog", { "aria-labelledby": "dialog-title" },
      createElement("form", { method: "dialog" },
        createElement("h2", { id: "dialog-title" }, title),
        content,
        createElement("div", { className: "actions" }, dismissButton, confirmButton)));
    dialog.addEventListener("close", () => {
      const result = dialog.returnValue === CONFIRMED ? readResult(dialog) : null;
      dialog.remove();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
