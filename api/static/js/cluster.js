// Workers and the queue, at a glance.
import { $, duration, h, number, size } from "./dom.js";
import { repeat } from "./live.js";
import { get } from "./rest.js";

const cell = (text, right) => h("td", { className: right ? "right" : "" }, text);
const meter = (share, text) => h("td", {}, h("div", { className: "meter" }, h("progress", { max: 1, value: Math.min(1, share), "aria-label": text }), text));
const none = (columns, text) => h("tr", {}, h("td", { colSpan: columns }, text));

function show(about) {
  $("#dashboard").hidden = !about.dashboard;
  $("#waiting").textContent = about.waiting;
  $("#waiting").hidden = !about.waiting;
  const sum = (rows, name) => rows.reduce((total, row) => total + (row[name] ?? 0), 0);
  const facts = {
    workers: number(about.workers.length),
    threads: number(about.threads),
    "memory in use": size(sum(about.workers, "memory_bytes")),
    "bundles under way": number(sum(about.queue, "bundles_under_way")),
    "bundles left": number(sum(about.queue, "bundles_left")),
    "core time left": duration(sum(about.queue, "core_seconds_left")),
  };
  $("#numbers").replaceChildren(...Object.entries(facts).map(([name, value]) => h("li", {}, h("b", {}, value), name)));
  const workers = about.workers.map((one) => h("tr", {},
    cell(one.name), cell(one.host), cell(number(one.threads), true),
    meter(one.cpu_percent / (100 * Math.max(1, one.threads)), `${Math.round(one.cpu_percent)} %`),
    meter(one.memory_limit_bytes ? one.memory_bytes / one.memory_limit_bytes : 0, one.memory_limit_bytes ? `${size(one.memory_bytes)} of ${size(one.memory_limit_bytes)}` : size(one.memory_bytes)),
    cell(number(one.tasks), true)));
  $("#workers tbody").replaceChildren(...(workers.length ? workers : [none(6, about.threads ? "The service computes by itself." : "Nobody is here yet.")]));
  const queue = about.queue.map((one) => h("tr", {},
    h("td", {}, h("a", { href: `/sweeps/${one.id}` }, one.name || one.id)),
    h("td", {}, h("span", { className: `badge ${one.state}` }, one.state)),
    cell(number(one.priority), true), cell(number(one.bundles_under_way), true), cell(number(one.bundles_left), true), cell(duration(one.core_seconds_left), true)));
  $("#queue tbody").replaceChildren(...(queue.length ? queue : [none(6, "Nothing waits.")]));
  $("#refused").hidden = !about.refused.length;
  $("#refused ul").replaceChildren(...about.refused.map((text) => h("li", {}, text)));
}

repeat(() => get("/v1/cluster"), show, 2000);
