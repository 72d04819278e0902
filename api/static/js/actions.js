// What can be done with a sweep in its state: buttons, and questions before what cannot be undone.
import { ask, h, say } from "./dom.js";
import { hasEnded } from "./live.js";
import { get, post, remove } from "./rest.js";

const at = (sweep, part = "") => `/v1/sweeps/${sweep.id}${part}`;
const title = (sweep) => sweep.name || sweep.id;

const ACTIONS = {
  pause: { fits: (sweep) => ["queued", "running"].includes(sweep.state), run: (sweep) => post(at(sweep, "/pause")) },
  resume: { fits: (sweep) => sweep.state === "paused", run: (sweep) => post(at(sweep, "/resume")) },
  cancel: {
    fits: (sweep) => !hasEnded(sweep.state),
    sure: (sweep) => ask(`Cancel ${title(sweep)}?`, h("p", {}, "What is computed stays; the rest is given up. It can be retried later."), { yes: "Cancel the sweep", danger: true }),
    run: (sweep) => post(at(sweep, "/cancel")),
  },
  retry: { fits: (sweep) => hasEnded(sweep.state) && (sweep.counts.failed || sweep.counts.cancelled || sweep.state === "failed"), run: (sweep) => post(at(sweep, "/retry")) },
  extend: { fits: (sweep) => sweep.state !== "failed", sure: extension, run: (sweep, change) => post(at(sweep, "/extend"), change, { key: crypto.randomUUID?.() }) },
  delete: {
    fits: () => true, danger: true,
    sure: (sweep) => ask(`Delete ${title(sweep)}?`, h("p", {}, `Its ${sweep.runs} runs and their dataset are removed. This cannot be undone.`), { yes: "Delete it", danger: true }),
    run: (sweep) => remove(at(sweep)),
  },
};

/** Buttons for a sweep, made again only if others fit; `done(action, answer)` hears what became of one. */
export function offer(place, sweep, done) {
  const fitting = Object.keys(ACTIONS).filter((name) => ACTIONS[name].fits(sweep)).join();
  if (place.dataset.offered === fitting) return;
  const focused = place.contains(document.activeElement);
  place.dataset.offered = fitting;
  place.replaceChildren(...buttons(sweep, done));
  if (focused) place.firstElementChild.focus();
}

function buttons(sweep, done) {
  return Object.entries(ACTIONS).filter(([, action]) => action.fits(sweep)).map(([name, action]) =>
    h("button", {
      type: "button", className: action.danger ? "danger" : "", dataset: { action: name },
      "aria-label": `${name} ${title(sweep)}`,
      onclick: async (event) => {
        const button = event.currentTarget; // not disabled meanwhile, which would take the focus away
        if (button.ariaBusy === "true") return;
        try {
          const sure = action.sure ? await action.sure(sweep) : true;
          if (sure === null) return;
          button.ariaBusy = "true";
          done(name, await action.run(sweep, sure));
        } catch (problem) {
          say(problem.message);
        }
        button.ariaBusy = "false";
      },
    }, name));
}

/** More values of an axis, more seeds: a change as the API takes it. */
async function extension(sweep) {
  const [{ spec: short }, { axes }] = await Promise.all([
    get(at(sweep, "/spec")).then((spec) => post("/v1/spec", spec)), get(at(sweep, "/contents"))]);
  const free = short.triangle || short.points ? [] : axes.map((axis) => axis.name).filter((name) => !short.scaling || !["p", "gamma"].includes(name));
  const { init = 1, repeat = 1 } = typeof short.seeds === "object" && !Array.isArray(short.seeds) ? short.seeds : { init: short.seeds };
  const seeds = Object.fromEntries(Object.entries({ init, repeat }).map(([name, some]) => [name, Array.isArray(some) ? some : Array.from({ length: some }, (_, at) => at)]));
  const content = h("div", {},
    h("p", { className: "sub" }, "A new sweep with more values or more seeds. What this one has is copied; it stays as it is."),
    free.length > 0 && h("div", { className: "fields" },
      h("label", {}, "Axis", h("select", { name: "axis" }, free.map((name) => h("option", {}, name)))),
      h("label", {}, "Further values", h("input", { name: "values", placeholder: "2, 4, 8", autocomplete: "off" }))),
    h("div", { className: "fields" },
      h("label", {}, "Initial conditions", h("input", { name: "init", type: "number", min: 1, value: seeds.init.length })),
      h("label", {}, "Repeats of each", h("input", { name: "repeat", type: "number", min: 1, value: seeds.repeat.length }))));
  return ask(`Extend ${title(sweep)}`, content, {
    yes: "Run the extension",
    read: (dialog) => {
      const field = (name) => dialog.querySelector(`[name="${name}"]`)?.value ?? "";
      const change = { seeds: { init: more(seeds.init, field("init")), repeat: more(seeds.repeat, field("repeat")) } };
      const values = field("values").split(",").map((part) => part.trim()).filter(Boolean);
      if (values.length) change.axes = { [field("axis")]: values.map((part) => (Number.isNaN(Number(part)) ? part : Number(part))) };
      return change;
    },
  });
}

/** So many seeds, of which some are there: the first numbers that are free. */
function more(seeds, count) {
  const found = [...seeds];
  for (let seed = 0; found.length < Number(count); seed += 1) if (!seeds.includes(seed)) found.push(seed);
  return found;
}
