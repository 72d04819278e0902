// Updates of one sweep, while the window is visible. A hidden window closes its stream, because a browser
// allows only a few connections to one host; a lost connection is opened again.
import { getJson } from "../common/rest.js";
import { debounce } from "../common/timing.js";

const FINAL_STATES = ["completed", "incomplete", "cancelled", "failed"];
const RETRY_MILLISECONDS = 2000; // after a request that failed
const RECONNECT_MILLISECONDS = 500; // after a stream that ended
const BURST_MILLISECONDS = 30;

/** Return whether a sweep in this state has ended. */
export function hasEnded(state) {
  return FINAL_STATES.includes(state);
}

/**
 * Call `onUpdate(sweep)` with every change, or with null once the sweep is deleted, and
 * `onConnectionChange(isLost)` when the service stops or starts to answer. Returns a function that connects
 * again, for use after an action that lets an ended sweep go on.
 */
export function followSweep(sweepId, onUpdate, onConnectionChange) {
  let stream = null;
  let timer = null;
  let latestConnection = 0;

  function connectAfter(milliseconds) {
    clearTimeout(timer);
    timer = setTimeout(connect, milliseconds);
  }

  async function connect() {
    latestConnection += 1;
    const connection = latestConnection;
    const isCurrent = () => connection === latestConnection;
    clearTimeout(timer);
    stream?.close();
    if (document.hidden) return;
    try {
      const sweep = await getJson(`/v1/sweeps/${sweepId}`);
      if (!isCurrent()) return;
      onConnectionChange(false);
      onUpdate(sweep);
      if (hasEnded(sweep.state)) return;
    } catch (error) {
      if (!isCurrent()) return;
      onConnectionChange(error.status === 0);
      if (error.status === 404) onUpdate(null);
      else connectAfter(RETRY_MILLISECONDS);
      return;
    }
    stream = openStream(isCurrent);
  }

  function openStream(isCurrent) {
    const source = new EventSource(`/v1/sweeps/${sweepId}/events`);
    // A stream begins with past events, of which only the last matters.
    const handleEvent = debounce((event) => {
      if (!isCurrent()) return;
      const sweep = JSON.parse(event.data);
      onUpdate(sweep);
      if (hasEnded(sweep.state)) endStream();
    }, BURST_MILLISECONDS);
    function endStream() {
      source.close();
      connectAfter(RECONNECT_MILLISECONDS);
    }
    source.addEventListener("state", handleEvent);
    source.addEventListener("progress", handleEvent);
    source.addEventListener("notes", handleEvent);
    source.addEventListener("compiling", handleEvent);
    source.addEventListener("removed", () => {
      source.close();
      onUpdate(null);
    });
    // The stream ended or broke; the next request tells which.
    source.addEventListener("error", endStream);
    return source;
  }

  document.addEventListener("visibilitychange", connect);
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", (event) => {
    if (event.persisted) connect();
  });
  connect();
  return connect;
}
