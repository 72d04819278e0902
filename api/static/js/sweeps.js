// The list of sweeps: newest first, live while something moves.
import { offer } from "./actions.js";
import { $, duration, h, number, say, settled, when } from "./dom.js";
import { hasEnded, repeat } from "./live.js";
import { get, query, remember } from "./rest.js";

const list = $("#list"), form = $("#filter"), more = $("#more");
const items = new Map(); // of the sweeps shown, by id
let pages = 1;

for (const [name, value] of new URLSearchParams(location.search)) if (form.elements[name]) form.elements[name].value = value;
const words = () => Object.fromEntries(new FormData(form));

async function load() {
  const asked = words(), found = [];
  let cursor = null;
  for (let page = 0; page < pages; page += 1) {
    const answer = await get(`/v1/sweeps${query({ ...asked, limit: 50, cursor })}`);
    found.push(...answer.sweeps);
    cursor = answer.next;
    if (!cursor) break;
  }
  return { found, cursor };
}

function show({ found, cursor }) {
  more.hidden = !cursor;
  for (const [id, item] of items) if (!found.some((sweep) => sweep.id === id)) { item.place.remove(); items.delete(id); }
  $("#nothing")?.remove();
  found.forEach((sweep, at) => {
    const item = items.get(sweep.id) ?? entry(sweep);
    items.set(sweep.id, item);
    update(item, sweep);
    if (list.children[at] !== item.place) list.insertBefore(item.place, list.children[at] ?? null); // only what moved
  });
  if (!found.length) {
    const filtered = Object.values(words()).some(Boolean);
    list.append(h("p", { id: "nothing", className: "about" }, filtered ? "No sweep is like that." : "No sweeps yet."));
    if (!filtered) welcome().catch(() => {}); // there are presets in Compose as well
  } else $("#welcome").hidden = true;
}

function entry(sweep) {
  const parts = {
    state: h("span", { className: "badge" }),
    how: h("div", { className: "how" }),
    bar: h("progress", { max: 1, "aria-label": `Progress of ${sweep.name || sweep.id}` }),
    actions: h("div", { className: "actions" }),
  };
  const place = h("article", { className: "item", dataset: { id: sweep.id } }, parts.state,
    h("div", {}, h("a", { className: "name", href: `/sweeps/${sweep.id}` }, sweep.name || sweep.id),
      h("div", { className: "how" }, `${number(sweep.runs)} runs · ${when(sweep.created)}`)),
    h("div", { className: "how-far" }, parts.bar, parts.how), parts.actions);
  return { place, ...parts, seen: [] };
}

function update(item, sweep) {
  const { seen } = item;
  item.state.textContent = sweep.state;
  item.state.className = `badge ${sweep.state}`;
  item.bar.value = sweep.progress;
  const now = performance.now() / 1000, finished = sweep.runs - (sweep.counts.pending ?? 0);
  seen.push([now, finished]);
  while (seen.length > 2 && now - seen[0][0] > 30) seen.shift();
  const rate = now > seen[0][0] ? (finished - seen[0][1]) / (now - seen[0][0]) : 0;
  const said = [`${Math.floor(100 * sweep.progress)} %`];
  if (rate > 0 && !hasEnded(sweep.state)) said.push(`${number(rate)} runs/s`);
  if (sweep.state === "running" && sweep.eta_seconds !== null) said.push(`${duration(sweep.eta_seconds)} left`);
  if (hasEnded(sweep.state)) said.push(`${duration(sweep.core_seconds)} of core time`);
  for (const name of ["diverged", "failed"]) if (sweep.counts[name]) said.push(`${number(sweep.counts[name])} ${name}`);
  item.how.textContent = sweep.reason || said.join(" · ");
  offer(item.actions, sweep, (action, answer) => {
    if (action === "extend") location.assign(`/sweeps/${answer.id}`);
    else { say(`${sweep.name || sweep.id}: ${{ delete: "deleted", cancel: "cancelled" }[action] ?? answer.state}`); refresh(); }
  });
}

async function welcome() {
  if (!$("#welcome").hidden) return;
  $("#welcome").hidden = false;
  const { presets } = await get("/v1/presets");
  $("#presets").replaceChildren(...presets.filter((preset) => !preset.name.includes("-full")).map((preset) =>
    h("li", {}, h("a", { href: `/compose?preset=${preset.name}` }, h("b", {}, preset.name), preset.title))));
}

const refresh = repeat(load, show, 1500);
const search = settled(refresh, 200);
form.addEventListener("input", () => { pages = 1; remember(words()); search(); });
form.addEventListener("submit", (event) => event.preventDefault());
more.addEventListener("click", () => { pages += 1; refresh(); });
