// Events of a sweep, for as long as somebody looks. A lost connection comes back by itself, and a window in
// the background lets go of its own: browsers have few connections for each host.
import { say, settled } from "./dom.js";
import { get } from "./rest.js";

const ENDED = ["completed", "incomplete", "cancelled", "failed"];
export const hasEnded = (state) => ENDED.includes(state);
const AGAIN = 2000, SOON = 500; // milliseconds

/** Calls `news(sweep)` with every event, and `lost(true or false)` when the connection goes or comes. */
export function follow(id, news, lost = () => {}) {
  let source = null, timer = null, turn = 0;
  const later = (milliseconds) => { clearTimeout(timer); timer = setTimeout(open, milliseconds); };

  async function open() {
    const mine = (turn += 1);
    clearTimeout(timer);
    source?.close();
    if (document.hidden) return;
    try {
      const now = await get(`/v1/sweeps/${id}`);
      if (mine !== turn) return;
      lost(false);
      news(now);
      if (hasEnded(now.state)) return; // retried, extended: whoever does that calls again
    } catch (problem) {
      if (mine !== turn) return;
      lost(problem.status === 0);
      if (problem.status === 404) news(null);
      else later(AGAIN);
      return;
    }
    const stream = (source = new EventSource(`/v1/sweeps/${id}/events`));
    const told = settled((event) => { // a stream begins with what was: only the last word counts
      if (mine !== turn) return;
      const about = JSON.parse(event.data);
      news(about);
      if (hasEnded(about.state)) { stream.close(); later(SOON); }
    }, 30);
    stream.addEventListener("state", told);
    stream.addEventListener("progress", told);
    stream.addEventListener("removed", () => { stream.close(); news(null); });
    stream.addEventListener("error", () => { stream.close(); later(SOON); }); // it ended, or broke: asking tells
  }

  document.addEventListener("visibilitychange", open);
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
  open();
  return open;
}

/**
 * Repeats while somebody looks: asks, then shows; the next turn comes when the last one has been answered. An
 * answer to what was asked before is not shown, and that nobody answers is said once.
 */
export function repeat(ask, show, milliseconds) {
  let timer, last = 0, lost = false;
  async function turn() {
    const mine = (last += 1);
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const answer = await ask();
      if (mine !== last) return;
      show(answer);
      lost = false;
    } catch (problem) {
      if (mine !== last) return;
      if (!lost) say(problem.message);
      lost = true;
    }
    timer = setTimeout(turn, milliseconds);
  }
  document.addEventListener("visibilitychange", turn);
  turn();
  return turn;
}
