// The name and the note of a sweep, in its header and in the dialog that changes them.
import { openDialog } from "../common/dialog.js";
import { $, createElement } from "../common/dom.js";
import { notify } from "../common/notifications.js";
import { sendPatch } from "../common/rest.js";

const MAX_NAME_LENGTH = 200;
const MAX_NOTE_LENGTH = 4000;
const NOTE_ROWS = 6;

/** Show the name and the note of a sweep, also in the title of the window. */
export function renderNotes({ id, name, note }) {
  const title = name || id;
  const heading = $("#name");
  document.title = document.title.replace(heading.textContent, title);
  heading.textContent = title;
  $("#note").textContent = note ?? "";
  $("#note").hidden = !note;
}

/** Ask for a name and a note, and send what has changed; call `onDone(sweep)` with the answer. */
export async function editNotes(sweep, onDone) {
  const change = await openDialog("Name and note", createFields(sweep), {
    confirmLabel: "Save",
    readResult: (dialog) => readChange(dialog, sweep),
  });
  if (!change || !Object.keys(change).length) return;
  try {
    onDone(await sendPatch(`/v1/sweeps/${sweep.id}`, change));
    notify("Saved.");
  } catch (error) {
    notify(error.message);
  }
}

function createFields({ name, note }) {
  const nameInput = createElement("input", {
    name: "name", value: name, maxLength: MAX_NAME_LENGTH, autocomplete: "off",
  });
  const noteInput = createElement("textarea", {
    name: "note", value: note ?? "", maxLength: MAX_NOTE_LENGTH, rows: NOTE_ROWS, className: "prose",
  });
  return createElement("div", { className: "stack" },
    createElement("label", {}, "Name", nameInput),
    createElement("label", {}, "Note", noteInput));
}

function readChange(dialog, sweep) {
  const name = dialog.querySelector('[name="name"]').value.trim();
  const note = dialog.querySelector('[name="note"]').value.trim();
  return {
    ...(name !== sweep.name && { name }),
    ...(note !== (sweep.note ?? "") && { note: note || null }),
  };
}
