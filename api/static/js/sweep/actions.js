// What can be done with a sweep in its state: buttons, and a question before what cannot be undone.
import { openDialog } from "../common/dialog.js";
import { createElement } from "../common/dom.js";
import { notify } from "../common/notifications.js";
import { post, sendDelete } from "../common/rest.js";
import { hasEnded } from "./events.js";
import { askForExtension } from "./extend-dialog.js";

// `confirm` asks first and resolves to null if the answer is no; what else it resolves to is given to `run`.
const ACTIONS = {
  pause: {
    isAvailable: ({ state }) => ["queued", "running"].includes(state),
    run: (sweep) => post(getPath(sweep, "/pause")),
  },
  resume: {
    isAvailable: ({ state }) => state === "paused",
    run: (sweep) => post(getPath(sweep, "/resume")),
  },
  cancel: {
    isAvailable: ({ state }) => !hasEnded(state),
    confirm: confirmCancel,
    run: (sweep) => post(getPath(sweep, "/cancel")),
  },
  retry: {
    isAvailable: isRetryable,
    run: (sweep) => post(getPath(sweep, "/retry")),
  },
  extend: {
    isAvailable: ({ state }) => state !== "failed",
    confirm: askForExtension,
    run: (sweep, change) => post(getPath(sweep, "/extend"), change, { key: crypto.randomUUID?.() }),
  },
  delete: {
    isAvailable: () => true,
    danger: true,
    confirm: confirmDelete,
    run: (sweep) => sendDelete(getPath(sweep)),
  },
};

function getPath(sweep, part = "") {
  return `/v1/sweeps/${sweep.id}${part}`;
}

function isRetryable({ state, counts }) {
  return hasEnded(state) && (counts.failed || counts.cancelled || state === "failed");
}

function confirmCancel(sweep) {
  const text = "Finished runs are kept; the others are cancelled. You can retry them later.";
  return openDialog(
    `Cancel ${sweep.name || sweep.id}?`,
    createElement("p", {}, text),
    { confirmLabel: "Cancel sweep", danger: true },
  );
}

function confirmDelete(sweep) {
  const text = `This deletes its ${sweep.runs} runs and their dataset. It cannot be undone.`;
  return openDialog(
    `Delete ${sweep.name || sweep.id}?`,
    createElement("p", {}, text),
    { confirmLabel: "Delete sweep", danger: true },
  );
}

/** Render the buttons of a sweep, if they have changed; after an action, call `onDone(action, answer)`. */
export function renderActions(container, sweep, onDone) {
  const names = Object.keys(ACTIONS).filter((name) => ACTIONS[name].isAvailable(sweep));
  if (container.dataset.offered === names.join()) return;
  const hadFocus = container.contains(document.activeElement);
  container.dataset.offered = names.join();
  container.replaceChildren(...names.map((name) => createButton(name, sweep, onDone)));
  if (hadFocus) container.firstElementChild.focus();
}

function createButton(name, sweep, onDone) {
  return createElement("button", {
    type: "button",
    className: ACTIONS[name].danger ? "danger" : "",
    dataset: { action: name },
    "aria-label": `${name} ${sweep.name || sweep.id}`,
    onclick: (event) => runAction(event.currentTarget, name, sweep, onDone),
  }, name);
}

async function runAction(button, name, sweep, onDone) {
  const { confirm, run } = ACTIONS[name];
  // A busy button is not disabled, because it would lose the focus.
  if (button.ariaBusy === "true") return;
  try {
    const confirmation = confirm ? await confirm(sweep) : true;
    if (confirmation === null) return;
    button.ariaBusy = "true";
    onDone(name, await run(sweep, confirmation));
  } catch (error) {
    notify(error.message);
  }
  button.ariaBusy = "false";
}
