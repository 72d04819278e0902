// The curves of one place, beside a diagram: chosen by a click or from a list.
import { curveTraces, draw } from "./charts.js";
import { $, exact } from "./dom.js";
import { get, query } from "./rest.js";
import { words } from "./words.js";

let turn = 0;
/** `place` names the axes; where regimes are not told apart, all of them are drawn. */
export async function curvesOf(id, place, more = {}) {
  const mine = (turn += 1), caption = $("#cell-caption");
  const api = { ...more, ...Object.fromEntries(Object.entries(place).map(([name, value]) => [name, exact(value)])) };
  try {
    const answer = await get(`/v1/sweeps/${id}/curves${query(api)}`);
    if (mine !== turn) return;
    await draw($("#curves"), () => curveTraces(answer));
    const runs = answer.curves.find((curve) => curve.source === "sgd")?.runs;
    caption.replaceChildren(`${words(place)}${runs === undefined ? "" : ` · ${runs} runs of SGD`} · `, link(id, api));
  } catch (problem) {
    if (mine === turn) caption.textContent = problem.message;
  }
}

function link(id, api) {
  const found = document.createElement("a");
  found.href = `/sweeps/${id}/curves${query({ ...api, by: "none" })}`;
  found.textContent = "larger";
  return found;
}
