// The page that composes a sweep: a form and a text for the same spec, and its cost, updated on every change.
import { readQuery } from "./common/address.js";
import { $, createElement } from "./common/dom.js";
import { copyToClipboard, notify } from "./common/notifications.js";
import { formatErrors, getJson, post } from "./common/rest.js";
import { debounce } from "./common/timing.js";
import { showAccuracy, showAccuracyProblem, showPendingAccuracy } from "./compose/accuracy-panel.js";
import { showCostError, showEstimate, showPendingCost } from "./compose/cost-panel.js";
import { suggestFirstTime } from "./compose/first-time.js";
import { SpecForm } from "./compose/spec-form.js";
import { EDITABLE_FORMATS, formatSpec } from "./compose/spec-text.js";

const START = {
  axes: { d: 50, p: 8, gamma: { log: [0.1, 10, 5] }, regime: ["classical_noise", "high_dimensional"] },
  fixed: { k: 2, noise: 1e-3 },
  seeds: { init: 4, repeat: 2 },
  time: { max: 100 },
};
START.time.min = suggestFirstTime(START);
const FULL_PRESET = "-full"; // in the name of a preset that takes hours
const READ_MILLISECONDS = 400;
const ESTIMATE_MILLISECONDS = 250;
const ACCURACY_MILLISECONDS = 500; // after the cost is shown, because a prediction takes up to some seconds

const textArea = $("#text");
const textProblem = $("#text-problem");
const presetSelect = $("#preset");
const submitButton = $("#submit");
const tabs = [...document.querySelectorAll("[role=tab]")];

const [catalogue, { presets }, { threads }] = await loadChoices();
const form = new SpecForm($("#form"), catalogue, () => setSpec(form.read()));
let spec = START;

/** Get what the page is built from. If that fails, the reason is shown and the promise stays pending. */
async function loadChoices() {
  const assumeOneThread = () => ({ threads: 1 });
  try {
    return await Promise.all([
      getJson("/v1/catalogue"),
      getJson("/v1/presets"),
      getJson("/readyz").catch(assumeOneThread),
    ]);
  } catch (error) {
    $("#refused").textContent = error.message;
    return new Promise(() => {});
  }
}

/** Make a spec the current one; what was typed before is dropped. */
function setSpec(newSpec) {
  spec = newSpec;
  textError = "";
  unreadEdit = 0;
  renderText();
  updateCost();
}

function showSpec(newSpec) {
  form.show(newSpec);
  setSpec(newSpec);
}

// ---- The first spec: of a link, of another sweep, of a preset, or the default.

function renderPresets() {
  const isFull = (preset) => preset.name.includes(FULL_PRESET);
  const groups = {
    "quick versions: seconds to minutes": presets.filter((preset) => !isFull(preset)),
    "full versions: hours": presets.filter(isFull),
  };
  for (const [label, members] of Object.entries(groups)) {
    presetSelect.append(createElement("optgroup", { label }, members.map(createPresetOption)));
  }
}

/** List what the selected preset assumes beyond the papers. */
function renderAssumptions() {
  const assumptions = findPreset(presetSelect.value)?.assumptions ?? [];
  const text = `Assumed beyond the papers: ${assumptions.join("; ")}.`;
  $("#assumptions").textContent = assumptions.length ? text : "";
}

function createPresetOption({ name, title }) {
  return createElement("option", { value: name }, `${name}: ${title}`);
}

function findPreset(name) {
  return presets.find((preset) => preset.name === name);
}

async function loadFirstSpec() {
  const linkedSpec = location.hash.match(/^#spec=(.*)$/)?.[1];
  if (linkedSpec !== undefined) return JSON.parse(decodeURIComponent(linkedSpec));
  const query = readQuery();
  if ("from" in query) {
    const fullSpec = await getJson(`/v1/sweeps/${query.from}/spec`);
    const shortened = await post("/v1/spec", fullSpec);
    return shortened.spec;
  }
  const preset = findPreset(query.preset);
  if (preset) presetSelect.value = preset.name;
  renderAssumptions();
  return preset?.spec ?? START;
}

async function showFirstSpec() {
  try {
    showSpec(await loadFirstSpec());
  } catch (error) {
    notify(`The spec could not be read: ${error.message}`);
    showSpec(START);
  }
}

function formatAddress() {
  return `/compose#spec=${encodeURIComponent(JSON.stringify(spec))}`;
}

// ---- The text.

let format = "yaml";
let textError = "";
let editCount = 0;
let unreadEdit = 0; // the number of the last edit of the text while it has not been read, else 0

function renderText() {
  const isBeingEdited = document.activeElement === textArea && !textArea.readOnly;
  if (!isBeingEdited) textArea.value = formatSpec(spec, format);
  textProblem.textContent = "";
}

/** Let the service read what was typed; JSON is also parsed here, and kept as it was written. */
async function readTextArea() {
  const edit = unreadEdit;
  if (!edit) return;
  try {
    const newSpec = await parseText(textArea.value);
    if (edit !== unreadEdit) return; // the text or the form has changed since
    showSpec(newSpec);
  } catch (error) {
    if (edit !== unreadEdit) return;
    textError = formatErrors(error);
    textProblem.textContent = textError;
    form.showErrors(error);
    updateCost();
  }
}

async function parseText(text) {
  const type = EDITABLE_FORMATS[format];
  if (format !== "json") {
    const answer = await post("/v1/spec", text, { type });
    return answer.spec;
  }
  const newSpec = JSON.parse(text);
  await post("/v1/spec", JSON.stringify(newSpec), { type });
  return newSpec;
}

const readTextSoon = debounce(readTextArea, READ_MILLISECONDS);

function handleTextInput() {
  editCount += 1;
  unreadEdit = editCount;
  cancelEstimate();
  readTextSoon();
}

function handleTextBlur() {
  if (!unreadEdit) renderText();
}

async function selectTab(tab) {
  if (unreadEdit) await readTextArea();
  if (unreadEdit) {
    notify("The text is not a valid spec. Correct it first.");
    return;
  }
  format = tab.dataset.form;
  for (const other of tabs) {
    other.setAttribute("aria-selected", String(other === tab));
    other.tabIndex = other === tab ? 0 : -1;
  }
  $("#panel").setAttribute("aria-labelledby", tab.id);
  textArea.readOnly = !(format in EDITABLE_FORMATS);
  textArea.value = formatSpec(spec, format);
}

function handleTabKey(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const index = tabs.indexOf(event.currentTarget);
  const nextTab = tabs[(index + step + tabs.length) % tabs.length];
  selectTab(nextTab);
  nextTab.focus();
}

// ---- The cost.

let estimateRequest = null;
let accuracyRequest = null;

/** Ask for the cost of the current spec; the button waits for the answer. */
function updateCost() {
  cancelEstimate();
  requestEstimateSoon();
}

function cancelEstimate() {
  showPendingCost();
  showPendingAccuracy();
  estimateRequest?.abort();
  accuracyRequest?.abort();
}

async function requestEstimate() {
  if (textError) {
    showCostError(textError);
    showAccuracyProblem("");
    return;
  }
  if (unreadEdit) return; // the cost follows once the text has been read
  estimateRequest = new AbortController();
  history.replaceState(null, "", formatAddress()); // here, because browsers limit how often it may be called
  try {
    const estimate = await post("/v1/estimate", spec, { signal: estimateRequest.signal });
    showEstimate(estimate, threads);
    form.showErrors(null);
    requestAccuracySoon(estimateRequest);
  } catch (error) {
    if (error.name === "AbortError") return;
    showCostError(formatErrors(error));
    showAccuracyProblem("");
    form.showErrors(error);
  }
}

const requestEstimateSoon = debounce(requestEstimate, ESTIMATE_MILLISECONDS);

/** Ask how accurate the means will be, unless the spec has changed since the estimate. */
async function requestAccuracy({ signal: estimateSignal }) {
  if (estimateSignal.aborted || unreadEdit) return;
  accuracyRequest = new AbortController();
  try {
    showAccuracy(await post("/v1/seeds", spec, { signal: accuracyRequest.signal }));
  } catch (error) {
    if (error.name !== "AbortError") showAccuracyProblem(error.message);
  }
}

const requestAccuracySoon = debounce(requestAccuracy, ACCURACY_MILLISECONDS);

async function submit() {
  submitButton.disabled = true;
  try {
    const sweep = await post("/v1/sweeps", spec, { key: crypto.randomUUID?.() });
    location.assign(`/sweeps/${sweep.id}`);
  } catch (error) {
    notify(error.message);
    form.showErrors(error);
    submitButton.disabled = false;
  }
}

// ---- Start.

renderPresets();
presetSelect.addEventListener("change", () => {
  const preset = findPreset(presetSelect.value);
  renderAssumptions();
  if (preset) showSpec(preset.spec);
});
textArea.addEventListener("input", handleTextInput);
textArea.addEventListener("blur", handleTextBlur);
for (const tab of tabs) {
  tab.addEventListener("click", () => selectTab(tab));
  tab.addEventListener("keydown", handleTabKey);
}
$("#copy").addEventListener("click", () => copyToClipboard(textArea.value));
$("#link").addEventListener("click", () => copyToClipboard(location.origin + formatAddress()));
submitButton.addEventListener("click", submit);

await showFirstSpec();
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#spec=")) showFirstSpec(); // another link was opened in this window
});
addEventListener("pageshow", (event) => {
  if (event.persisted) updateCost();
});
// Both are disabled until here, because what is typed earlier would not be read.
textArea.disabled = false;
presetSelect.disabled = false;
