// The curves of one point of the atlas, and the sweeps that its runs come from.
import { buildCurveChart } from "../charts/curve-chart.js";
import { drawChart } from "../charts/plotly.js";
import { formatQuery } from "../common/address.js";
import { $, createElement } from "../common/dom.js";
import { formatCount, formatExact } from "../common/format.js";
import { formatCoordinates } from "../common/labels.js";
import { getJson } from "../common/rest.js";

const names = new Map(); // of sweeps by id
let latestRequest = 0;

/** Show the curves of the runs at `coordinates` under a selection, with links to their sweeps. */
export async function showPointRuns(selection, coordinates) {
  latestRequest += 1;
  const request = latestRequest;
  const query = formatQuery({ ...selection, ...formatParameters(coordinates) });
  try {
    const [answer, facets] = await Promise.all([
      getJson(`/v1/atlas/curves${query}`), getJson(`/v1/atlas${query}`),
    ]);
    const sweeps = facets.parameters.find(({ name }) => name === "sweep")?.values ?? [];
    await loadNames(sweeps.map(({ value }) => value));
    if (request !== latestRequest) return;
    await drawChart($("#curves"), () => buildCurveChart(answer));
    const caption = `${formatCoordinates(coordinates)} · ${formatCount(facets.runs, "run")} from`;
    $("#cell-caption").textContent = caption;
    $("#sources").replaceChildren(
      ...sweeps.map((sweep) => createSource(sweep, coordinates)),
      ...(sweeps.length > 1 ? [createComparison(sweeps, coordinates)] : []));
  } catch (error) {
    if (request !== latestRequest) return;
    $("#cell-caption").textContent = error.message;
    $("#sources").replaceChildren();
  }
}

function formatParameters(coordinates) {
  return Object.fromEntries(Object.entries(coordinates).map(([name, value]) => [name, formatExact(value)]));
}

function createComparison(sweeps, coordinates) {
  const ids = sweeps.map(({ value }) => value);
  const href = `/compare${formatQuery({ sweeps: ids, ...formatParameters(coordinates) })}`;
  return createElement("li", {}, createElement("a", { href }, "Compare these sweeps"));
}

function createSource({ value, runs }, coordinates) {
  const href = `/sweeps/${value}/curves${formatQuery({ ...formatParameters(coordinates), by: "none" })}`;
  return createElement("li", {},
    createElement("a", { href }, names.get(value) || value), ` ${formatCount(runs, "run")}`);
}

/** Load the names of sweeps that are not known yet; one that was deleted keeps its id. */
export async function loadNames(ids) {
  const unknown = ids.filter((id) => !names.has(id));
  await Promise.all(unknown.map(async (id) => {
    try {
      names.set(id, (await getJson(`/v1/sweeps/${id}`)).name);
    } catch {
      names.set(id, "");
    }
  }));
  return names;
}
