// Calls that are delayed or repeated.
import { notify } from "./notifications.js";

/** Return a function that calls `action` once calls have stopped for `milliseconds`. */
export function debounce(action, milliseconds) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...args), milliseconds);
  };
}

/**
 * Return a function that calls `action`, one call at a time. Each is followed by a pause that grows with its
 * duration, so that what is slow is asked for less often; calls in between become one call after the pause.
 */
export function throttleByDuration(action, minPauseMilliseconds, pausePerDuration) {
  let isBusy = false;
  let isDue = false;

  async function call() {
    isDue = isBusy;
    if (isBusy) return;
    isBusy = true;
    const start = performance.now();
    await action();
    const pause = pausePerDuration * (performance.now() - start);
    setTimeout(end, Math.max(minPauseMilliseconds, pause));
  }

  function end() {
    isBusy = false;
    if (isDue) call();
  }

  return call;
}

/**
 * Call `load` and `render` in turn while the window is visible; each round starts after the last has ended.
 * Returns a function that starts a round at once. Answers to earlier rounds are dropped, and an error is
 * reported only if the round before it had none.
 */
export function poll(load, render, milliseconds) {
  let timer;
  let latestRound = 0;
  let hasFailed = false;

  async function startRound() {
    latestRound += 1;
    const round = latestRound;
    clearTimeout(timer);
    if (document.hidden) return;
    try {
      const answer = await load();
      if (round !== latestRound) return;
      render(answer);
      hasFailed = false;
    } catch (error) {
      if (round !== latestRound) return;
      if (!hasFailed) notify(error.message);
      hasFailed = true;
    }
    timer = setTimeout(startRound, milliseconds);
  }

  document.addEventListener("visibilitychange", startRound);
  startRound();
  return startRound;
}
