// Figures as the service draws them, for papers. The form of each view comes from the service.
import { formatQuery, replaceQuery } from "./common/address.js";
import { getDefaultSelection, getVaryingAxes, loadContents } from "./common/contents.js";
import { $ } from "./common/dom.js";
import { formatName } from "./common/format.js";
import { getBlob } from "./common/rest.js";
import {
  createAxisSelect, createSelect, preventSubmit, readFields, renderDownloads, replaceFields, showProblem,
} from "./common/view-controls.js";
import { sweepId } from "./sweep/header.js";

const form = $("#choose");
const image = $("#figure");
const contents = await loadContents(sweepId);
let options = Object.fromEntries(new URLSearchParams(location.search));
let latestRequest = 0;

const formatViewName = (name) => formatName(name.replaceAll("-", " "));

/** Replace the form by that of the selected view. */
function renderForm() {
  const view = options.view ?? contents.suggestion.view;
  const selected = options.view ? options : { ...contents.suggestion.words, ...options };
  const viewForm = contents.forms[view] ?? contents.forms.curves;
  const values = {};
  for (const control of viewForm.controls) values[control.word] = selected[control.word] ?? control.default;
  replaceFields(
    form,
    createSelect("view", "Figure", contents.views.map((name) => [name, formatViewName(name)]), view),
    ...viewForm.controls.map((control) => createControl(control, values[control.word])),
    createRegimeSelect(viewForm, values, selected.regime),
    ...createAxisSelects(viewForm, values, selected),
  );
}

function createControl({ word, title, options: choices }, value) {
  return createSelect(word, title, choices.map((choice) => [choice.value, choice.title]), value);
}

/** Create a select for the theory, unless the view selects its source itself or there is only one. */
function createRegimeSelect(viewForm, values, regime) {
  if (contents.regimes.length < 2 || "source" in values) return null;
  const drawnValue = contents.values.find(({ name }) => name === values.value);
  const needsOne = viewForm.one_regime || drawnValue?.needs_regime;
  const choices = contents.regimes.map((name) => [name, formatName(name)]);
  return createSelect("regime", "Theory", [...(needsOne ? [] : [["", "all"]]), ...choices], regime);
}

/** Create a select for each axis that the view does not show. */
function createAxisSelects(viewForm, values, selected) {
  if (viewForm.rest === "nothing") return [];
  const shown = [...viewForm.covers, ...viewForm.axis_controls.map((word) => values[word])];
  const defaults = viewForm.rest === "middle" ? getDefaultSelection(contents, null) : {};
  const needsOne = viewForm.rest === "first" || (viewForm.rest === "middle" && !contents.points);
  const extraOptions = needsOne ? [] : [["", "all"]];
  return getVaryingAxes(contents)
    .filter((axis) => !shown.includes(axis.name))
    .map((axis) => {
      const value = Array.isArray(selected[axis.name]) ? "" : selected[axis.name];
      return createAxisSelect(axis, value ?? defaults[axis.name] ?? "", ...extraOptions);
    });
}

/** Draw what the form says; only the answer to the latest request is shown. */
async function renderFigure() {
  const request = (latestRequest += 1);
  const { view, ...query } = readFields(form);
  const path = `/v1/sweeps/${sweepId}/figures/${view}`;
  replaceQuery({ view, ...query });
  showProblem("");
  image.parentElement.setAttribute("aria-busy", "true");
  image.alt = `${formatViewName(view)} of this sweep`;
  try {
    const content = await getBlob(`${path}${formatQuery({ ...query, format: "png" })}`);
    if (request !== latestRequest) return;
    showImage(content);
    renderDownloads($("#links"), path, formatQuery(query));
  } catch (error) {
    if (request === latestRequest) showProblem(error.message);
  }
  if (request === latestRequest) image.parentElement.removeAttribute("aria-busy");
}

function showImage(content) {
  const previous = image.src;
  image.src = URL.createObjectURL(content);
  if (previous.startsWith("blob:")) URL.revokeObjectURL(previous);
}

/** Let the other of two axis controls choose another axis when both choose the same. */
function separateAxes(viewForm, changed) {
  const [first, second] = viewForm.axis_controls;
  if (!second || !options[first] || options[first] !== options[second]) return;
  const other = changed === first ? second : first;
  const names = getVaryingAxes(contents).map((axis) => axis.name);
  options[other] = names.find((name) => name !== options[changed]);
}

form.addEventListener("change", (event) => {
  const fields = readFields(form);
  options = event.target.name === "view" ? { view: fields.view } : fields;
  separateAxes(contents.forms[fields.view], event.target.name);
  renderForm();
  renderFigure();
});
preventSubmit(form);
renderForm();
renderFigure();
