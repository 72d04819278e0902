// The list of sweeps: newest first, updated while the window is visible.
import { formatQuery, readQuery, replaceQuery } from "./common/address.js";
import { $, createElement } from "./common/dom.js";
import { formatFixed } from "./common/fixed-parameters.js";
import {
  formatBytes, formatDuration, formatNumber, formatRemaining, formatTimestamp,
} from "./common/format.js";
import { notify } from "./common/notifications.js";
import { getJson } from "./common/rest.js";
import { createTagLinks } from "./common/tags.js";
import { debounce, poll } from "./common/timing.js";
import { preventSubmit } from "./common/view-controls.js";
import { renderActions } from "./sweep/actions.js";
import { hasEnded } from "./sweep/events.js";
import { RunRate } from "./sweep/run-rate.js";

const PAGE_SIZE = 50;
const POLL_MILLISECONDS = 1500;
const SEARCH_MILLISECONDS = 200;
const FULL_PRESET = "-full"; // in the name of a preset that takes hours

const list = $("#list");
const form = $("#filter");
const moreButton = $("#more");
const items = new Map(); // from the id of a sweep to the elements that show it
let pageCount = 1;

for (const [name, value] of Object.entries(readQuery())) {
  if (form.elements[name]) form.elements[name].value = value;
}

function readFilter() {
  return Object.fromEntries(new FormData(form));
}

async function loadSweeps() {
  const filter = readFilter();
  const sweeps = [];
  let cursor = null;
  for (let page = 0; page < pageCount; page += 1) {
    const answer = await getJson(`/v1/sweeps${formatQuery({ ...filter, limit: PAGE_SIZE, cursor })}`);
    sweeps.push(...answer.sweeps);
    cursor = answer.next;
    if (!cursor) break;
  }
  return { sweeps, cursor };
}

function renderSweeps({ sweeps, cursor }) {
  moreButton.hidden = !cursor;
  renderKnownTags(sweeps);
  removeOtherItems(sweeps);
  $("#nothing")?.remove();
  sweeps.forEach(renderItem);
  if (sweeps.length) $("#welcome").hidden = true;
  else renderEmptyList();
}

/** Suggest the tags of the sweeps that are shown, unless a tag is already selected. */
function renderKnownTags(sweeps) {
  if (readFilter().tag) return;
  const tags = [...new Set(sweeps.flatMap((sweep) => sweep.tags))].sort();
  const options = tags.map((tag) => createElement("option", { value: tag }));
  $("#known-tags").replaceChildren(...options);
}

function removeOtherItems(sweeps) {
  const ids = new Set(sweeps.map((sweep) => sweep.id));
  for (const [id, item] of items) {
    if (ids.has(id)) continue;
    item.element.remove();
    items.delete(id);
  }
}

function renderItem(sweep, index) {
  const item = items.get(sweep.id) ?? createItem(sweep);
  items.set(sweep.id, item);
  updateItem(item, sweep);
  const currentElement = list.children[index] ?? null;
  // An item that stays in its place keeps the focus.
  if (currentElement !== item.element) list.insertBefore(item.element, currentElement);
}

function renderEmptyList() {
  const isFiltered = Object.values(readFilter()).some(Boolean);
  const text = isFiltered ? "No matching sweeps." : "No sweeps yet.";
  list.append(createElement("p", { id: "nothing", className: "about" }, text));
  if (!isFiltered) renderWelcome().catch(() => {}); // the presets are also on the page Compose
}

function createItem(sweep) {
  const parts = {
    state: createElement("span", { className: "badge" }),
    bar: createElement("progress", { max: 1 }),
    progressText: createElement("div", { className: "how" }),
    name: createElement("a", { className: "name", href: `/sweeps/${sweep.id}` }),
    note: createElement("div", { className: "how note-line" }),
    facts: createElement("div", { className: "how" }),
    tags: createElement("div", { className: "tags" }),
    actions: createElement("div", { className: "actions" }),
  };
  const element = createElement("article", { className: "item", dataset: { id: sweep.id } },
    parts.state,
    createElement("div", {},
      parts.name,
      parts.facts,
      parts.tags,
      parts.note),
    createElement("div", { className: "how-far" }, parts.bar, parts.progressText),
    parts.actions);
  return { element, ...parts, runRate: new RunRate() };
}

function updateItem(item, sweep) {
  item.state.textContent = sweep.state;
  item.state.className = `badge ${sweep.state}`;
  item.name.textContent = sweep.name || sweep.id;
  item.note.textContent = sweep.note ?? "";
  renderTags(item.tags, sweep.tags);
  item.bar.ariaLabel = `Progress of ${sweep.name || sweep.id}`;
  item.bar.value = sweep.progress;
  item.facts.textContent = formatFacts(sweep).join(" · ");
  const rate = item.runRate.measure(sweep);
  item.progressText.textContent = sweep.reason || formatProgress(sweep, rate).join(" · ");
  renderActions(item.actions, sweep, (action, answer) => handleAction(sweep, action, answer));
}

function renderTags(container, tags) {
  if (container.dataset.tags === tags.join()) return; // a link that stays keeps the focus
  container.dataset.tags = tags.join();
  container.replaceChildren(...createTagLinks(tags, selectTag));
}

function selectTag(event, tag) {
  event.preventDefault();
  form.elements.tag.value = tag;
  form.dispatchEvent(new Event("input"));
}

function formatFacts({ runs, created, owner, fixed, stored_bytes: storedBytes }) {
  const facts = [formatFixed(fixed), `${formatNumber(runs)} runs`, formatTimestamp(created)].filter(Boolean);
  if (storedBytes !== null) facts.push(formatBytes(storedBytes));
  if (owner) facts.push(`by ${owner}`);
  return facts;
}

function formatProgress(sweep, rate) {
  const { state, progress, counts, core_seconds: coreSeconds } = sweep;
  const parts = [`${Math.floor(100 * progress)} %`];
  if (sweep.compiling) parts.push("compiling");
  if (rate > 0 && !hasEnded(state)) parts.push(`${formatNumber(rate)} runs/s`);
  if (state === "running" && sweep.eta_seconds !== null) parts.push(formatRemaining(sweep));
  if (hasEnded(state)) parts.push(`${formatDuration(coreSeconds)} of core time`);
  for (const status of ["diverged", "failed"]) {
    if (counts[status]) parts.push(`${formatNumber(counts[status])} ${status}`);
  }
  return parts;
}

function handleAction(sweep, action, answer) {
  if (action === "extend") {
    location.assign(`/sweeps/${answer.id}`);
    return;
  }
  const outcome = { delete: "deleted", cancel: "cancelled" }[action] ?? answer.state;
  notify(`${sweep.name || sweep.id}: ${outcome}`);
  refresh();
}

async function renderWelcome() {
  const section = $("#welcome");
  if (!section.hidden) return;
  section.hidden = false;
  const { presets } = await getJson("/v1/presets");
  const quickPresets = presets.filter((preset) => !preset.name.includes(FULL_PRESET));
  $("#presets").replaceChildren(...quickPresets.map(createPresetItem));
}

function createPresetItem({ name, title, assumptions }) {
  const hint = `Assumed: ${assumptions.join("; ")}`;
  const target = { href: `/compose?preset=${name}`, title: hint };
  const link = createElement("a", target, createElement("b", {}, name), title);
  return createElement("li", {}, link);
}

const refresh = poll(loadSweeps, renderSweeps, POLL_MILLISECONDS);
const search = debounce(refresh, SEARCH_MILLISECONDS);
form.addEventListener("input", () => {
  pageCount = 1;
  replaceQuery(readFilter());
  search();
});
preventSubmit(form);
moreButton.addEventListener("click", () => {
  pageCount += 1;
  refresh();
});
