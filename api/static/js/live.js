// Events of a sweep, for as long as somebody looks. A lost connection comes back by itself, and a window in
// the background lets go of its own: browsers have few connections for each host.
import { settled } from "./dom.js";
import { get } from "./rest.js";

const ENDED = ["completed", "incomplete", "cancelled", "failed"];
export const hasEnded = (state) => ENDED.includes(state);
const AGAIN = 2000; // milliseconds

/** Calls `news(sweep)` with every event, and `lost(true or false)` when the connection goes or comes. */
export function follow(id, news, lost = () => {}) {
  let source = null, timer = null, over = false;

  async function open() {
    clearTimeout(timer);
    source?.close();
    source = null;
    if (document.hidden || over) return;
    try {
      const now = await get(`/v1/sweeps/${id}`);
      lost(false);
      news(now);
      if (hasEnded(now.state)) return; // retried, extended: whoever does that calls again
    } catch (problem) {
      lost(problem.status === 0);
      if (problem.status === 404) { news(null); return; }
      timer = setTimeout(open, AGAIN);
      return;
    }
    source = new EventSource(`/v1/sweeps/${id}/events`);
    const told = settled((event) => { // a stream begins with what was: only the last word counts
      const about = JSON.parse(event.data);
      news(about);
      if (!hasEnded(about.state)) return;
      source?.close();
      timer = setTimeout(open, 500); // its last counts may come after its last state
    }, 30);
    source.addEventListener("state", told);
    source.addEventListener("progress", told);
    source.addEventListener("removed", () => { source.close(); news(null); });
    source.addEventListener("error", () => { source?.close(); lost(true); timer = setTimeout(open, AGAIN); });
  }

  document.addEventListener("visibilitychange", open);
  addEventListener("pagehide", () => source?.close());
  open();
  return open;
}

/** Repeats while somebody looks; the next call comes when the last one has been answered. */
export function repeat(action, milliseconds) {
  let timer;
  async function turn() {
    clearTimeout(timer);
    if (document.hidden) return;
    await action().catch(() => {});
    timer = setTimeout(turn, milliseconds);
  }
  document.addEventListener("visibilitychange", turn);
  turn();
  return turn;
}
