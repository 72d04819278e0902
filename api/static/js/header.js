// The head of every page of a sweep: state, progress, what is left, what can be done; live.
import { offer } from "./actions.js";
import { $, duration, number, say } from "./dom.js";
import { follow, hasEnded } from "./live.js";

const box = $("#progress");
export const id = box.dataset.sweep;
const listeners = [];
let last = null, again = () => {};

/** Hear of every change; at once if something is known already. */
export function onNews(listener) {
  listeners.push(listener);
  if (last) listener(last);
}

const finished = (sweep) => sweep.runs - (sweep.counts.pending ?? 0);

/** Runs per second, of the last half minute; the first look tells nothing of it. */
const seen = [];
function measured(sweep) {
  const now = performance.now() / 1000;
  seen.push([now, finished(sweep)]);
  while (seen.length > 2 && now - seen[0][0] > 30) seen.shift();
  const [begin, before] = seen[0];
  return now - begin > 0.8 ? (finished(sweep) - before) / (now - begin) : null;
}

function show(sweep) {
  if (sweep === null) { location.assign("/"); return; }
  const rate = measured(sweep);
  last = sweep;
  const state = $("#state");
  state.textContent = sweep.state;
  state.className = `badge ${sweep.state}`;
  box.dataset.state = sweep.state;
  $("#bar").value = sweep.progress;
  $("#counts").textContent = Object.entries(sweep.counts).map(([name, count]) => `${number(count)} ${name}`).join(" · ");
  const rest = [];
  if (hasEnded(sweep.state)) rest.push(`${duration(sweep.core_seconds)} of core time`);
  else {
    rest.push(`${Math.floor(100 * sweep.progress)} %`);
    if (rate > 0 && sweep.state === "running") rest.push(`${number(rate)} runs/s`);
    if (sweep.eta_seconds !== null) rest.push(`${duration(sweep.eta_seconds)} left`);
  }
  $("#rest").textContent = rest.join(" · ");
  const reason = $("#reason");
  reason.textContent = sweep.reason;
  reason.hidden = !sweep.reason;
  offer($("#actions"), sweep, acted);
  for (const listener of listeners) listener(sweep);
}

function acted(action, answer) {
  if (action === "delete") location.assign("/");
  else if (action === "extend") location.assign(`/sweeps/${answer.id}`);
  else again();
}

again = follow(id, show, (is) => {
  if (is && !box.classList.contains("lost")) say("The service does not answer; this page goes on when it does.");
  box.classList.toggle("lost", is);
  if (is) $("#rest").textContent = "the service does not answer";
});
