// Compose a sweep: a form and a text of one spec, its cost while it is written, and the button.
import { $, copy, duration, facts, h, number, say, settled, size } from "./dom.js";
import { Form } from "./form.js";
import { get, post } from "./rest.js";
import { words } from "./words.js";
import { yaml } from "./yaml.js";

const START = {
  axes: { d: 50, p: 8, gamma: { log: [0.1, 10, 5] }, regime: ["classical_noise", "high_dimensional"] },
  fixed: { k: 2, noise: 1e-3 }, seeds: { init: 4, repeat: 2 }, time: { max: 100 },
};
const text = $("#text"), submit = $("#submit");
const [catalogue, { presets }, { threads }] = await Promise.all([get("/v1/catalogue"), get("/v1/presets"), get("/readyz").catch(() => ({ threads: 1 }))])
  .catch((problem) => { $("#refused").textContent = problem.message; return new Promise(() => {}); });
let spec = START, shown = "yaml", asking = null, broken = "", reading = 0; // of the text: 0 if there is nothing to read
const form = new Form($("#form"), catalogue, () => { broken = ""; reading = 0; spec = form.read(); written(); price(); });

// ---- where it begins

const isFull = (one) => one.name.includes("-full");
for (const [title, some] of [["quick forms: seconds to minutes", presets.filter((one) => !isFull(one))], ["full forms: hours", presets.filter(isFull)]]) {
  $("#preset").append(h("optgroup", { label: title }, some.map((one) => h("option", { value: one.name }, `${one.name}: ${one.title}`))));
}
$("#preset").addEventListener("change", (event) => {
  const found = presets.find((one) => one.name === event.target.value);
  if (found) begin(found.spec);
});

async function first() {
  const asked = new URLSearchParams(location.search), hash = location.hash.match(/^#spec=(.*)$/);
  if (hash) return JSON.parse(decodeURIComponent(hash[1]));
  if (asked.has("from")) return (await post("/v1/spec", await get(`/v1/sweeps/${asked.get("from")}/spec`))).spec;
  const found = presets.find((one) => one.name === asked.get("preset"));
  if (found) $("#preset").value = found.name;
  return found?.spec ?? START;
}

function begin(given) {
  form.show(given);
  spec = given;
  broken = "";
  reading = 0;
  written();
  price();
}

async function restore() {
  try {
    begin(await first());
  } catch (problem) {
    say(`It could not be read: ${problem.message}`);
    begin(START);
  }
}

// ---- the text, both ways

const curl = () => `curl -X POST ${location.origin}/v1/sweeps \\\n  -H 'Content-Type: application/yaml' --data-binary @- <<'YAML'\n${yaml(spec)}YAML`;
const python = () => `import sweep_service as ss\n\nclient = ss.Client("${location.origin}")\nsweep = client.submit(${pythonic(spec)})\nclient.wait(sweep["id"])\nds = client.open(sweep["id"])`;
const PYTHON = { true: "True", false: "False", null: "None" };
const pythonic = (value) => JSON.stringify(value, null, 4).replace(/"(?:[^"\\]|\\.)*"|true|false|null/g, (word) => PYTHON[word] ?? word); // a text stays as it is
const FORMS = { yaml: () => yaml(spec), json: () => JSON.stringify(spec, null, 2), curl, python };

function written() {
  if (document.activeElement !== text || text.readOnly) text.value = FORMS[shown]();
  $("#text-problem").textContent = "";
}

const address = () => `/compose#spec=${encodeURIComponent(JSON.stringify(spec))}`;

/** What was typed is read by the service, as a file would be; JSON that is not whole yet says so by itself. */
async function read() {
  const mine = reading;
  if (!mine) return;
  try {
    const found = shown === "json" ? JSON.parse(text.value) : null;
    const answer = await post("/v1/spec", found ? JSON.stringify(found) : text.value, { type: shown === "json" ? "application/json" : "application/yaml" });
    if (mine !== reading) return; // it has been written on, here or in the form
    broken = "";
    reading = 0;
    spec = found ?? answer.spec;
    form.show(spec);
    written();
  } catch (problem) {
    if (mine !== reading) return;
    broken = problem.message;
    $("#text-problem").textContent = problem.message;
    form.blame(problem);
  }
  price();
}
const typed = settled(read, 400);
let inputs = 0;
text.addEventListener("input", () => { reading = inputs += 1; wait(); typed(); });
text.addEventListener("blur", () => { if (!reading) written(); }); // else what is typed stays until it is read

const tabs = [...document.querySelectorAll("[role=tab]")];
async function turn(tab) {
  if (reading) await read();
  if (reading) { say("The text cannot be read as it is: nothing else can be made of it."); return; }
  shown = tab.dataset.form;
  for (const one of tabs) { one.setAttribute("aria-selected", String(one === tab)); one.tabIndex = one === tab ? 0 : -1; }
  $("#panel").setAttribute("aria-labelledby", tab.id);
  text.readOnly = !["yaml", "json"].includes(shown);
  text.value = FORMS[shown]();
}
for (const tab of tabs) {
  tab.addEventListener("click", () => turn(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
    turn(next);
    next.focus();
  });
}
$("#copy").addEventListener("click", () => copy(text.value));
$("#link").addEventListener("click", () => copy(location.origin + address()));

// ---- its cost

/** What is not priced yet cannot be run: the button waits for the answer. */
function price() {
  wait();
  ask();
}
function wait() {
  submit.disabled = true;
  $("#cost").setAttribute("aria-busy", "true");
  asking?.abort(); // the price of what was there before
}
const ask = settled(async () => {
  if (reading && !broken) return; // the text is being written: its price comes when it has been read
  asking = new AbortController();
  if (broken) { forbid(broken); return; }
  history.replaceState(null, "", address()); // not with every letter: browsers allow it so often and no more
  try {
    const found = await post("/v1/estimate", spec, { signal: asking.signal });
    const left = found.runs - found.reused - found.copies;
    const { core_seconds: dearest, ...where } = found.dearest;
    facts($("#estimate"), {
      points: number(found.points),
      runs: [number(found.runs), found.reused ? `${number(found.reused)} stored already` : "", found.copies ? `${number(found.copies)} equal to others` : ""].filter(Boolean).join(", "),
      "SGD steps": number(found.sgd_steps),
      "core time": duration(found.core_seconds) + (threads > 1 ? ` (about ${duration(found.core_seconds / threads)} on ${threads} threads)` : ""),
      size: `${size(found.bytes)} at most`,
      dearest: left ? `${words(where)}: ${duration(dearest)}` : null,
    });
    $("#priced").textContent = `${number(found.points)} points, ${number(found.runs)} runs, ${duration(found.core_seconds)} of core time`;
    $("#warnings").replaceChildren(...found.warnings.map((one) => h("li", {}, one)));
    $("#refused").textContent = found.refused ? `It would be refused: ${found.refused}` : "";
    submit.disabled = Boolean(found.refused);
    form.blame(null);
  } catch (problem) {
    if (problem.name === "AbortError") return;
    forbid(problem.message);
    form.blame(problem);
  }
  $("#cost").removeAttribute("aria-busy");
}, 250);

function forbid(why) {
  submit.disabled = true;
  $("#estimate").replaceChildren();
  $("#priced").textContent = "";
  $("#warnings").replaceChildren();
  $("#refused").textContent = why;
  $("#cost").removeAttribute("aria-busy");
}

submit.addEventListener("click", async () => {
  submit.disabled = true;
  try {
    const sweep = await post("/v1/sweeps", spec, { key: crypto.randomUUID?.() });
    location.assign(`/sweeps/${sweep.id}`);
  } catch (problem) {
    say(problem.message);
    form.blame(problem);
    submit.disabled = false;
  }
});

await restore();
addEventListener("hashchange", () => { if (location.hash.startsWith("#spec=")) restore(); }); // another link, in the same window
addEventListener("pageshow", (event) => { if (event.persisted) price(); });
for (const one of [text, $("#preset")]) one.disabled = false; // what is typed before would not be read
