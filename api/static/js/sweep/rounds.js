// The rounds of a sweep with a target error: what stored results have added to it so far.
import { formatNumber } from "../common/format.js";
import { getJson } from "../common/rest.js";

/** Resolve to rows for the list of parameters; none for other sweeps. */
export async function loadRounds(sweepId, { target_error: target }) {
  if (!target) return {};
  const { rounds, is_complete: isComplete } = await getJson(`/v1/sweeps/${sweepId}/rounds`);
  const texts = rounds.map(formatRound);
  if (!isComplete) texts.push("the next one follows");
  return { "target error": formatTarget(target), rounds: texts.join("; ") };
}

function formatTarget({ value, relative, absolute, max_seeds: most }) {
  const error = relative === null ? formatNumber(absolute) : `${formatNumber(100 * relative)} %`;
  return `${error} of ${value}, at most ${formatNumber(most)} seeds`;
}

function formatRound({ number, runs, points, basis }) {
  const reasons = Object.entries(basis).map(([name, count]) => `${formatNumber(count)} ${name}`).join(", ");
  return `${number + 1}: ${formatNumber(runs)} runs at ${formatNumber(points)} points (${reasons})`;
}
