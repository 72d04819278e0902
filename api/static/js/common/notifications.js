// Short messages at the bottom of the page.
import { $ } from "./dom.js";

const DISPLAY_MILLISECONDS = 6000;
let timer;

/** Show a message for a few seconds; screen readers announce it. */
export function notify(text) {
  const box = $("#says");
  box.textContent = text;
  clearTimeout(timer);
  timer = setTimeout(() => { box.textContent = ""; }, DISPLAY_MILLISECONDS);
}

/** Copy a text to the clipboard and report whether that worked. */
export async function copyToClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    notify("Copied.");
  } catch {
    notify("The browser did not allow copying. Select the text and copy it by hand.");
  }
}
