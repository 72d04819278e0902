// The page of the cluster: workers and the queue.
import { $, createElement } from "./common/dom.js";
import { formatBytes, formatDuration, formatNumber } from "./common/format.js";
import { getJson } from "./common/rest.js";
import { poll } from "./common/timing.js";

const POLL_MILLISECONDS = 2000;

function renderCluster(cluster) {
  $("#dashboard").hidden = !cluster.dashboard;
  $("#waiting").textContent = cluster.waiting;
  $("#waiting").hidden = !cluster.waiting;
  renderTotals(cluster);
  const noWorkers = cluster.threads ? "The service computes in its own process." : "No workers yet.";
  renderRows($("#workers tbody"), cluster.workers.map(createWorkerRow), noWorkers);
  renderRows($("#queue tbody"), cluster.queue.map(createQueueRow), "The queue is empty.");
  $("#refused").hidden = !cluster.refused.length;
  $("#refused ul").replaceChildren(...cluster.refused.map((text) => createElement("li", {}, text)));
}

function renderTotals({ workers, threads, queue }) {
  const totals = {
    workers: formatNumber(workers.length),
    threads: formatNumber(threads),
    "memory in use": formatBytes(sumColumn(workers, "memory_bytes")),
    "bundles under way": formatNumber(sumColumn(queue, "bundles_under_way")),
    "bundles left": formatNumber(sumColumn(queue, "bundles_left")),
    "core time left": formatDuration(sumColumn(queue, "core_seconds_left")),
  };
  const items = Object.entries(totals).map(([name, text]) =>
    createElement("li", {}, createElement("b", {}, text), name));
  $("#numbers").replaceChildren(...items);
}

function sumColumn(rows, name) {
  return rows.reduce((sum, row) => sum + (row[name] ?? 0), 0);
}

function renderRows(body, rows, emptyText) {
  const emptyRow = createElement("tr", {}, createElement("td", { colSpan: 6 }, emptyText));
  body.replaceChildren(...(rows.length ? rows : [emptyRow]));
}

function createWorkerRow(worker) {
  const { cpu_percent: cpuPercent, memory_bytes: memory, memory_limit_bytes: memoryLimit } = worker;
  const cpuShare = cpuPercent / (100 * Math.max(1, worker.threads));
  const limitText = memoryLimit ? ` of ${formatBytes(memoryLimit)}` : "";
  return createElement("tr", {},
    createTextCell(worker.name),
    createTextCell(worker.host),
    createNumberCell(formatNumber(worker.threads)),
    createMeterCell(cpuShare, `${Math.round(cpuPercent)} %`),
    createMeterCell(memoryLimit ? memory / memoryLimit : 0, `${formatBytes(memory)}${limitText}`),
    createNumberCell(formatNumber(worker.tasks)));
}

function createQueueRow(sweep) {
  return createElement("tr", {},
    createElement("td", {}, createElement("a", { href: `/sweeps/${sweep.id}` }, sweep.name || sweep.id)),
    createElement("td", {}, createElement("span", { className: `badge ${sweep.state}` }, sweep.state)),
    createNumberCell(formatNumber(sweep.priority)),
    createNumberCell(formatNumber(sweep.bundles_under_way)),
    createNumberCell(formatNumber(sweep.bundles_left)),
    createNumberCell(formatDuration(sweep.core_seconds_left)));
}

function createTextCell(text) {
  return createElement("td", {}, text);
}

function createNumberCell(text) {
  return createElement("td", { className: "right" }, text);
}

function createMeterCell(share, text) {
  const bar = createElement("progress", { max: 1, value: Math.min(1, share), "aria-label": text });
  return createElement("td", {}, createElement("div", { className: "meter" }, bar, text));
}

poll(() => getJson("/v1/cluster"), renderCluster, POLL_MILLISECONDS);
