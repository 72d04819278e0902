// The parameters of the selected runs with their values and counts; a click narrows the selection.
import { $, createElement, renderFacts } from "../common/dom.js";
import {
  formatCount, formatDistinct, formatExact, formatName, formatNumber, formatResult,
} from "../common/format.js";
import { getLongName, getSymbol } from "../common/labels.js";

const MAX_OPEN_VALUES = 12; // a parameter with more values is folded
// Labels that are not parameters of a point, in words.
const TITLES = {
  kind: "SGD or theory", engine: "computed by", structures: "start and layers", t_max: "last time",
};
const HIDDEN = ["structures", "times", "observables", "package", "regime_options", "samples", "version"];

/**
 * Render facets of `GET /v1/atlas`. `selection` maps names to texts such as `0.1,0.2` or `0.1:1`, and
 * `onChange(name, text)` is called with the new text, which is empty if nothing is selected any more.
 */
export function renderFacets(answer, selection, sweepNames, onChange) {
  const facets = answer.parameters.filter(({ name }) => !HIDDEN.includes(name));
  const shown = facets.filter((facet) => facet.distinct > 1 || facet.name in selection);
  const container = $("#facets");
  const focused = document.activeElement?.dataset?.facet;
  const open = new Set([...container.querySelectorAll("details[open]")].map(({ dataset }) => dataset.name));
  const isFirst = !container.children.length;
  container.replaceChildren(...shown.map((facet) => {
    const isOpen = isFirst ? isOpenAtFirst(facet, selection) : open.has(facet.name);
    return createFacet(facet, selection[facet.name], sweepNames, isOpen, onChange);
  }));
  if (focused) container.querySelector(`[data-facet="${CSS.escape(focused)}"]`)?.focus();
  renderConstants(facets.filter((facet) => !shown.includes(facet)));
}

function isOpenAtFirst(facet, selection) {
  const isShort = facet.values !== null && facet.values.length <= MAX_OPEN_VALUES;
  return facet.name in selection || (isShort && facet.name !== "sweep");
}

/** Return the symbol or the words for a label. */
export function getFacetTitle({ name, symbol }) {
  return TITLES[name] ?? (symbol || getSymbol(name).replaceAll("_", " "));
}

function createFacet(facet, selectedText, sweepNames, isOpen, onChange) {
  const title = getFacetTitle(facet);
  const count = facet.values ? formatCount(facet.distinct, "value") : formatRange(facet.range);
  const summary = createElement("summary", { title: facet.long_name },
    createElement("b", {}, title), " ", createElement("small", {}, count));
  const content = facet.values
    ? createValues(facet, selectedText, sweepNames, onChange)
    : createRange(facet, selectedText, onChange);
  return createElement("details", { className: "facet", open: isOpen, dataset: { name: facet.name } },
    summary, content);
}

function formatRange(range) {
  return range ? range.map(formatNumber).join(" … ") : "many values";
}

function createValues({ name, values }, selectedText, sweepNames, onChange) {
  const texts = formatDistinct(values.map(({ value }) => value));
  const chosen = selectedText === undefined ? [] : values.filter((entry) => entry.selected);
  const buttons = values.map((entry, index) => {
    const text = formatExact(entry.value);
    const isPressed = selectedText !== undefined && entry.selected;
    return createElement("button", {
      type: "button",
      className: "facet-value",
      dataset: { facet: `${name}=${text}` },
      "aria-pressed": String(isPressed),
      onclick: (event) => {
        const adds = event.ctrlKey || event.metaKey || event.shiftKey;
        onChange(name, toggle(isPressed || adds ? chosen : [], entry, isPressed && !adds));
      },
    }, sweepNames.get(entry.value) ?? formatWords(texts[index]), " ",
    createElement("small", {}, formatNumber(entry.runs)));
  });
  return createElement("div", { className: "facet-values", role: "group", "aria-label": name }, buttons);
}

function formatWords(text) {
  return /^[a-z_]+$/.test(text) ? formatName(text) : text;
}

/**
 * Return the text of a selection after a click on one of its values. A click selects one value alone, or no
 * value if it was selected; with Ctrl or Shift it adds or removes a value.
 */
function toggle(chosen, entry, clears) {
  if (clears) return "";
  const values = chosen.includes(entry) ? chosen.filter((other) => other !== entry) : [...chosen, entry];
  return values.map(({ value }) => formatExact(value)).join(",");
}

function createRange({ name, range }, selectedText, onChange) {
  const [low, high] = (selectedText ?? ":").split(":");
  const createEnd = (label, value, end) => createElement("label", {}, label, createElement("input", {
    type: "number",
    step: "any",
    inputMode: "decimal",
    value: value ?? "",
    placeholder: end === undefined ? "" : formatNumber(end),
    dataset: { facet: `${name}:${label}` },
    onchange: ({ currentTarget }) => onChange(name, readRange(currentTarget.closest(".facet-values"))),
  }));
  return createElement("div", { className: "facet-values" },
    createEnd("from", low, range?.[0]), createEnd("to", high, range?.[1]));
}

function readRange(container) {
  const ends = [...container.querySelectorAll("input")].map((input) => input.value);
  return ends.some(Boolean) ? ends.join(":") : "";
}

/** List the labels that all selected runs share. */
function renderConstants(facets) {
  const rows = facets.filter(({ values }) => values?.length === 1).map((facet) => (
    [getLongName(facet.name) || facet.long_name, formatResult(facet.values[0].value)]));
  renderFacts($("#constants dl"), Object.fromEntries(rows));
  $("#constants").hidden = !rows.length;
}
