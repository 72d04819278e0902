// Small pictures of a sweep in its overview: its first curves and a diagram, each a link to the full view.
import { drawCurvePreview } from "../charts/curve-preview.js";
import { drawDiagramPreview } from "../charts/diagram-preview.js";
import { formatQuery } from "../common/address.js";
import {
  getDefaultSelection, getDefaultValue, getVaryingAxes, TRIANGLE_PARAMETERS,
} from "../common/contents.js";
import { $ } from "../common/dom.js";
import { formatExact } from "../common/format.js";
import { formatCoordinates, getSymbol } from "../common/labels.js";
import { getJson } from "../common/rest.js";

const MAX_CURVES = 5;
let drawn = []; // functions that draw the current pictures

/** Load what the pictures show, and draw them. A picture without data is hidden. */
export async function loadPreviews(sweepId, contents) {
  const results = await Promise.all([
    loadPreview($("#preview-curves"), () => loadCurves(sweepId, contents)),
    loadPreview($("#preview-diagram"), () => loadDiagram(sweepId, contents)),
  ]);
  drawn = results.filter(Boolean);
  drawPreviews();
}

/** Draw the pictures again, for another width or theme. */
export function drawPreviews() {
  for (const draw of drawn) draw();
}

async function loadPreview(section, load) {
  const preview = await load().catch(() => null); // the full view reports what is wrong
  section.hidden = preview === null;
  if (preview === null) return null;
  $("a", section).href = preview.href;
  $(".sub", section).textContent = preview.caption;
  const element = $(".preview", section);
  return () => {
    if (element.clientWidth) preview.draw(element);
  };
}

async function loadCurves(sweepId, contents) {
  const axis = contents.design === "triangle" ? undefined : getVaryingAxes(contents)[0];
  const selection = getDefaultSelection(contents, axis?.name ?? null);
  const values = axis ? { [axis.name]: sampleValues(axis.values).map(formatExact) } : {};
  const path = `/v1/sweeps/${sweepId}/curves`;
  const answer = await getJson(`${path}${formatQuery({ ...selection, ...values })}`);
  const colours = axis ? `colours: ${getSymbol(axis.name)}` : "";
  const hasBoth = contents.sources.includes("sgd") && contents.regimes.length > 0;
  return {
    href: `/sweeps/${sweepId}/curves${formatQuery(selection)}`,
    caption: [answer.long_name, formatCoordinates(selection), colours, hasBoth && "SGD pale, theory thin"]
      .filter(Boolean).join(" · "),
    draw: (element) => drawCurvePreview(element, answer, axis?.name ?? null),
  };
}

/** Return a few values, evenly chosen. */
function sampleValues(values) {
  if (values.length <= MAX_CURVES) return values;
  const indices = Array.from({ length: MAX_CURVES }, (_, index) => index);
  return indices.map((index) => values[Math.round((index * (values.length - 1)) / (MAX_CURVES - 1))]);
}

async function loadDiagram(sweepId, contents) {
  const { view, words } = contents.suggestion;
  if (view === "triangle") return loadTriangle(sweepId, contents, words);
  if (!contents.views.includes("phase-diagram") || contents.points) return null;
  const axes = getVaryingAxes(contents).map((axis) => axis.name);
  const isSuggested = view === "phase-diagram";
  const parameters = {
    ...getDefaultSelection(contents, null),
    ...(isSuggested ? words : { x: axes.at(-1), y: axes[0] }),
  };
  parameters.value ??= getDefaultValue(contents);
  addRegime(parameters, contents);
  delete parameters[parameters.x];
  delete parameters[parameters.y];
  const answer = await getJson(`/v1/sweeps/${sweepId}/phase-diagram${formatQuery(parameters)}`);
  return createDiagram(answer, `/sweeps/${sweepId}/phase-diagram${formatQuery(parameters)}`);
}

async function loadTriangle(sweepId, contents, words) {
  const parameters = { value: getDefaultValue(contents), ...getFirstOtherValues(contents), ...words };
  addRegime(parameters, contents);
  const answer = await getJson(`/v1/sweeps/${sweepId}/figures/triangle${formatQuery(parameters)}`);
  return createDiagram(answer, `/sweeps/${sweepId}/triangle${formatQuery(parameters)}`);
}

/** Return the first value of each axis that a triangle does not draw. */
function getFirstOtherValues(contents) {
  const axes = getVaryingAxes(contents).filter(({ name }) => !TRIANGLE_PARAMETERS.includes(name));
  return Object.fromEntries(axes.map(({ name, values }) => [name, formatExact(values[0])]));
}

function addRegime(parameters, contents) {
  const value = contents.values.find(({ name }) => name === parameters.value);
  if (value?.needs_regime) parameters.regime ??= contents.regimes[0];
}

function createDiagram(answer, href) {
  const caption = [answer.value.long_name, formatCoordinates(answer.at)].filter(Boolean).join(" · ");
  return { href, caption, draw: (element) => drawDiagramPreview(element, answer) };
}
