// How fast a sweep computes, measured by the page from one update to the next.

const WINDOW_SECONDS = 30;

/** Measures runs per second over the last half minute. */
export class RunRate {
  #samples = [];

  /** Add an update, and return runs per second, or null within `minSeconds` of the first update. */
  measure(sweep, minSeconds = 0) {
    const now = performance.now() / 1000;
    const endedRuns = sweep.runs - (sweep.counts.pending ?? 0);
    this.#samples.push({ time: now, endedRuns });
    while (this.#samples.length > 2 && now - this.#samples[0].time > WINDOW_SECONDS) this.#samples.shift();
    const [first] = this.#samples;
    const seconds = now - first.time;
    return seconds > minSeconds ? (endedRuns - first.endedRuns) / seconds : null;
  }
}
