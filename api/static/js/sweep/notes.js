// The name, the tags and the note of a sweep, in its header and in the dialog that changes them.
import { openDialog } from "../common/dialog.js";
import { $, createElement } from "../common/dom.js";
import { notify } from "../common/notifications.js";
import { sendPatch } from "../common/rest.js";
import { createTagLinks, parseTags } from "../common/tags.js";

const MAX_NAME_LENGTH = 200;
const MAX_NOTE_LENGTH = 4000;
const NOTE_ROWS = 6;

/** Show the name, the tags and the note of a sweep, the name also in the title of the window. */
export function renderNotes({ id, name, note, tags }) {
  const title = name || id;
  const heading = $("#name");
  document.title = document.title.replace(heading.textContent, title);
  heading.textContent = title;
  $("#note").textContent = note ?? "";
  $("#note").hidden = !note;
  renderTags(tags);
}

function renderTags(tags) {
  const box = $("#tags");
  if (box.dataset.tags === tags.join()) return; // a link that stays keeps the focus
  box.dataset.tags = tags.join();
  box.replaceChildren(...createTagLinks(tags));
  box.hidden = !tags.length;
}

/** Ask for a name, tags and a note, and send what has changed; call `onDone(sweep)` with the answer. */
export async function editNotes(sweep, onDone) {
  const change = await openDialog("Name, tags and note", createFields(sweep), {
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

function createFields({ name, note, tags }) {
  const nameInput = createElement("input", {
    name: "name", value: name, maxLength: MAX_NAME_LENGTH, autocomplete: "off",
  });
  const tagsInput = createElement("input", {
    name: "tags", value: tags.join(", "), autocomplete: "off", placeholder: "separated by commas",
  });
  const noteInput = createElement("textarea", {
    name: "note", value: note ?? "", maxLength: MAX_NOTE_LENGTH, rows: NOTE_ROWS, className: "prose",
  });
  return createElement("div", { className: "stack" },
    createElement("label", {}, "Name", nameInput),
    createElement("label", {}, "Tags", tagsInput),
    createElement("label", {}, "Note", noteInput));
}

function readChange(dialog, sweep) {
  const name = dialog.querySelector('[name="name"]').value.trim();
  const tags = parseTags(dialog.querySelector('[name="tags"]').value);
  const note = dialog.querySelector('[name="note"]').value.trim();
  return {
    ...(name !== sweep.name && { name }),
    ...(tags.join() !== sweep.tags.join() && { tags }),
    ...(note !== (sweep.note ?? "") && { note: note || null }),
  };
}
