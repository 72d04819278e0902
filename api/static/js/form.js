// The form of a spec. What of a start it has no field for stays in the spec as it is.
import { h } from "./dom.js";
import { fill, longName, symbol } from "./words.js";

const DESIGNS = {
  product: { title: "product of axes", own: [], axes: ["d", "p", "gamma"] },
  scaling: { title: "scaling: p = p0 d^κ, γ = γ0 d^−δ", own: [["p0", "p0", 8], ["gamma0", "γ0", 8], ["p_multiple_of", "p multiple of", ""]], axes: ["d", "kappa", "delta"] },
  triangle: { title: "triangle: all limits at one step γ/(pd)", own: [["delta_t", "δt", 1e-3], ["resolution", "resolution", 6], ["d_min", "least d", ""], ["p_min", "least p", ""], ["gamma_max", "largest γ", ""], ["p_multiple_of", "p multiple of", ""]], axes: [] },
  points: { title: "list of points", own: [], axes: [] },
};
const ALWAYS = ["k", "noise"];
const AS_WRITTEN = "as written in the text"; // a teacher with numbers of its own
const teacherOf = (init, known) => init.teacher ?? ("orthonormal_teacher" in init ? (init.orthonormal_teacher ? "orthonormal" : "random") : known.teacher);

/** A number, if it is one; else as it was written: the service says what is wrong with it. */
const value = (text) => { const bare = text.trim(); return bare !== "" && !Number.isNaN(Number(bare)) ? Number(bare) : bare; };
const listed = (text) => text.split(",").map((part) => part.trim()).filter(Boolean).map(value);
/** In the order in which they were named before, what is new after them. */
const inOrder = (found, before) => [...before.filter((one) => found.includes(one)), ...found.filter((one) => !before.includes(one))];
/** So many seeds, or in brackets the seeds themselves: 5 is not [5]. */
const seedText = (seeds) => (Array.isArray(seeds) ? `[${seeds.join(", ")}]` : String(seeds ?? 1));
const seedValue = (text) => (/[[,]/.test(text) ? listed(text.replace(/[[\]]/g, "")) : value(text));

export class Form {
  constructor(place, catalogue, changed) {
    Object.assign(this, { place, catalogue, changed });
    place.addEventListener("input", (event) => { if (!event.target.dataset.shape) changed(); });
    place.addEventListener("change", (event) => { if (event.target.dataset.shape) this.reshape(event.target); });
    place.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Build all of it from a spec. */
  show(spec) {
    this.spec = structuredClone(spec);
    const design = spec.triangle ? "triangle" : spec.scaling ? "scaling" : spec.points ? "points" : "product";
    this.design = design;
    const init = spec.init ?? { kind: "gaussian" }, known = this.catalogue.inits.find((one) => one.name === init.kind);
    const regimes = [spec.axes?.regime ?? spec.fixed?.regime ?? []].flat();
    const seeds = typeof spec.seeds === "object" && !Array.isArray(spec.seeds) ? spec.seeds : { init: spec.seeds ?? 1, repeat: 1 };
    fill(this.place,
      part("Name", field("name", "A title, for people", h("input", { name: "name", value: spec.name ?? "", maxLength: 200, placeholder: "what it is about" }))),
      part("Grid",
        h("label", {}, "Design", h("select", { name: "design", dataset: { shape: "design" } }, Object.entries(DESIGNS).map(([name, one]) => h("option", { value: name, selected: name === design }, one.title)))),
        DESIGNS[design].own.length > 0 && h("div", { className: "fields" }, DESIGNS[design].own.map(([name, title]) => field(`${design}.${name}`, title, h("input", { name: `${design}.${name}`, value: spec[design][name] ?? "", inputMode: "decimal" })))),
        design === "points" && field("points", "One point a line; the first line names the columns", h("textarea", { name: "points", rows: 8, value: table(spec.points) })),
        h("div", { id: "params" }, this.parameters(spec).map((name) => this.row(name, spec.axes?.[name] ?? spec.fixed?.[name]))),
        this.adder(spec)),
      part("What to compute",
        h("div", { className: "choices" },
          choice("simulate", "", "SGD", "one-pass simulations, exact", spec.simulate ?? true),
          this.catalogue.regimes.map((one) => choice("regime", one.name, one.name.replaceAll("_", " "), one.about, regimes.includes(one.name)))),
        error("axes.regime"), error("simulate")),
      part("Initial condition",
        h("div", { className: "fields" },
          field("init.kind", "Kind", h("select", { name: "init.kind", dataset: { shape: "init" } }, [...this.catalogue.inits.map((one) => one.name), ...(known ? [] : [init.kind])].map((name) => h("option", { selected: name === init.kind }, name)))),
          known?.parameters.map((one) => field(`init.${one.name}`, one.name, h("input", { name: `init.${one.name}`, value: init[one.name] ?? "", placeholder: String(one.default), inputMode: "decimal" }))),
          known?.any_teacher && field("init.teacher", "Teacher", h("select", { name: "init.teacher" }, ["random", "orthonormal", ...(typeof teacherOf(init, known) === "object" ? [AS_WRITTEN] : [])].map((name) => h("option", { selected: name === AS_WRITTEN || name === teacherOf(init, known) }, name)))),
          known && !known.shared && field("init.shared", "Shared: drawn at d0 =", h("input", { name: "init.shared.d0", value: init.shared?.d0 ?? "", placeholder: "not shared", inputMode: "numeric" }))),
        known && h("div", { className: "choices" },
          known.shared && choice("init.shared", "", "the same start for every d", "draws Ω(0) once for each p, k and seed", init.shared === true)),
        known && h("p", { className: "sub" }, known.about), error("init")),
      part("Seeds and time",
        h("div", { className: "fields" },
          field("seeds.init", "Initial conditions", h("input", { name: "seeds.init", value: seedText(seeds.init), title: "so many, or [the seeds themselves]" })),
          field("seeds.repeat", "SGD repeats of each", h("input", { name: "seeds.repeat", value: seedText(seeds.repeat), title: "so many, or [the seeds themselves]" })),
          field("time.max", "Until t =", h("input", { name: "time.max", value: spec.time?.max ?? "", inputMode: "decimal" })),
          field("time.min", "First sample at t =", h("input", { name: "time.min", value: spec.time?.min ?? "", placeholder: "max/1e5", inputMode: "decimal" })),
          field("time.samples", "Samples, log-spaced", h("input", { name: "time.samples", value: spec.time?.samples ?? "", placeholder: "120", inputMode: "numeric" })),
          field("time.tail", "More in the last half", h("input", { name: "time.tail", value: spec.time?.tail ?? "", placeholder: "0", inputMode: "numeric" })))),
      h("fieldset", { className: "part" }, h("legend", {}, "More"),
        h("details", { open: Boolean(spec.observables || spec.zip || Object.keys(spec.regime_options ?? {}).length) }, h("summary", {}, "Observables, axes that vary together, switches of the theory"),
          h("div", { className: "choices" }, this.catalogue.observables.map((one) => choice("observable", one.name, one.name.replaceAll("_", " "), one.about, spec.observables ? spec.observables.includes(one.name) : one.default)),
            choice("observable", "overlaps", "overlaps", "M and Q themselves; by default where they are few", spec.observables?.includes("overlaps") ?? false)),
          error("observables"),
          h("div", { className: "fields" },
            design === "product" && field("zip", "Vary together (d, gamma; …)", h("input", { name: "zip", value: (spec.zip ?? []).map((one) => one.join(", ")).join("; ") })),
            this.catalogue.regime_options.filter((one) => typeof one.default === "number").map((one) => field(`regime_options.${one.name}`, one.name.replaceAll("_", " "), h("input", { name: `regime_options.${one.name}`, value: spec.regime_options?.[one.name] ?? "", placeholder: String(one.default), title: one.about, inputMode: "numeric" })))),
          h("div", { className: "choices" }, this.catalogue.regime_options.filter((one) => typeof one.default === "boolean").map((one) => choice(`regime_options.${one.name}`, "", one.name.replaceAll("_", " "), one.about, spec.regime_options?.[one.name] ?? one.default))))));
  }

  /** Those with a row, in order: the design's, k and noise, then what the spec names. */
  parameters(spec) {
    const named = [...Object.keys(spec.axes ?? {}), ...Object.keys(spec.fixed ?? {})].filter((name) => name !== "regime");
    const own = this.design === "points" ? Object.keys(spec.points[0] ?? {}) : [];
    return [...new Set([...DESIGNS[this.design].axes, ...ALWAYS, ...named])].filter((name) => !own.includes(name));
  }

  /** What the registry says of a parameter of a point. */
  detail(name) {
    return this.catalogue.parameter_details.find((one) => one.name === name);
  }

  about(activation) {
    return this.catalogue.activations.find((one) => one.name === activation)?.about ?? "";
  }

  defaultOf(name) {
    const numbers = this.catalogue.inits.flatMap((one) => one.parameters);
    const found = this.detail(name) ?? numbers.find((one) => `init.${one.name}` === name);
    return found?.default ?? found?.choices?.[0] ?? 1;
  }

  row(name, given) {
    const kind = given && typeof given === "object" && !Array.isArray(given) ? Object.keys(given)[0] : "list";
    const detail = this.detail(name), label = `${symbol(name)}, ${longName(name) || name}`, removable = !DESIGNS[this.design].axes.includes(name) && name !== "k";
    const values = detail?.kind === "text"
      ? h("div", {}, detail.choices.map((one) => h("label", {}, h("input", { type: "checkbox", name: `text.${name}`, value: one, title: this.about(one), checked: [given ?? []].flat().includes(one) }), `${one} `)))
      : kind === "list"
        ? h("input", { name: `list.${name}`, value: [given ?? []].flat().join(", "), "aria-label": `values of ${label}`, placeholder: String(detail?.default ?? "5, 20, 100"), autocomplete: "off" })
        : h("div", { className: "ends" }, ["first", "last", "how many"].map((what, at) => h("input", { name: `${kind}.${name}.${at}`, value: given[kind]?.[at] ?? "", "aria-label": `${label}: ${what}`, placeholder: what, title: what, inputMode: "decimal" })));
    return h("div", { className: "param field", dataset: { field: `param.${name}`, name } },
      h("div", { className: "what" }, symbol(name), h("small", {}, longName(name))),
      detail?.kind === "text" ? h("span") : h("select", { name: `kind.${name}`, dataset: { shape: "kind", name }, "aria-label": `how ${label} is given` }, [["list", "values"], ["log", "log-spaced"], ["lin", "evenly spaced"]].map(([key, title]) => h("option", { value: key, selected: key === kind }, title))),
      h("div", { className: "values" }, values),
      removable ? h("button", { type: "button", className: "quiet", "aria-label": `without ${label}`, title: "remove", onclick: () => this.without(name) }, "✕") : h("span"),
      h("p", { className: "error", role: "alert" }));
  }

  adder(spec) {
    const here = this.parameters(spec), kind = spec.init?.kind ?? "gaussian";
    const mine = this.catalogue.inits.find((one) => one.name === kind)?.parameters.map((one) => `init.${one.name}`) ?? [];
    const free = this.catalogue.parameters.filter((name) => !here.includes(name) && (!name.startsWith("init.") || mine.includes(name)) && (["kappa", "delta"].includes(name) ? this.design === "scaling" : true) && !(this.design !== "product" && ["p", "gamma"].includes(name)) && !(this.design === "triangle" && name === "d"));
    return h("label", { className: "inline" }, "Add a parameter ", h("select", { name: "add", dataset: { shape: "add" } }, h("option", { value: "" }, "…"), free.map((name) => h("option", { value: name }, name))));
  }

  without(name) {
    const spec = this.read();
    delete spec.axes?.[name];
    delete spec.fixed?.[name];
    this.show(spec);
    this.place.elements.add.focus(); // where it would come back from
    this.changed();
  }

  /** A choice that changes which fields there are. */
  reshape(element) {
    const spec = this.read();
    if (element.dataset.shape === "design") this.redesign(spec, element.value);
    if (element.dataset.shape === "init") spec.init = { kind: element.value };
    if (element.dataset.shape === "add" && element.value) {
      spec.axes = { ...spec.axes, [element.value]: this.defaultOf(element.value) };
    }
    if (element.dataset.shape === "kind") this.respace(spec, element.dataset.name, element.value);
    this.show(spec);
    if (element.dataset.shape === "add") this.place.querySelector(`.param[data-name="${CSS.escape(element.value)}"] input`)?.focus();
    this.changed();
  }

  redesign(spec, design) {
    const { d, p, gamma, kappa, delta, ...rest } = spec.axes ?? {};
    for (const name of ["triangle", "scaling", "points", "zip"]) delete spec[name];
    const many = (axis, other) => (axis === undefined || axis === "" ? other : axis);
    const start = Object.fromEntries(DESIGNS[design].own.filter(([, , first]) => first !== "").map(([name, , first]) => [name, first]));
    if (design === "product") spec.axes = { d: many(d, 50), p: many(p, 8), gamma: many(gamma, { log: [0.1, 10, 5] }), ...rest };
    else if (design === "scaling") Object.assign(spec, { scaling: start, axes: { d: [30, 100, 300], kappa: many(kappa, 0), delta: many(delta, [0, 0.25, 0.5]), ...rest } });
    else if (design === "triangle") Object.assign(spec, { triangle: start, axes: rest });
    else Object.assign(spec, { points: [{ d: 20, p: 4, gamma: 0.1 }, { d: 50, p: 8, gamma: 0.5 }], axes: rest });
    for (const name of ["d", "p", "gamma"]) delete spec.fixed?.[name];
  }

  /** The same axis, given in another way. */
  respace(spec, name, kind) {
    const old = spec.axes?.[name] ?? spec.fixed?.[name] ?? "";
    const list = typeof old === "object" && !Array.isArray(old) ? Object.values(old)[0].slice(0, 2) : [old].flat();
    const count = typeof old === "object" && !Array.isArray(old) ? Object.values(old)[0][2] : Math.max(list.length, 5);
    const first = list[0] === "" ? 1 : list[0], last = list.length > 1 ? list.at(-1) : first;
    delete spec.fixed?.[name];
    spec.axes = { ...spec.axes, [name]: kind === "list" ? list : { [kind]: [first, last, count] } };
  }

  /** The spec that it says; what is empty is left out, so that it is the default. */
  read() {
    const at = (name) => this.place.elements[name]?.value?.trim() ?? "";
    const own = Object.fromEntries(DESIGNS[this.design].own.map(([name]) => [name, at(`${this.design}.${name}`)]).filter(([, one]) => one !== "").map(([name, one]) => [name, value(one)]));
    const axes = {}, fixed = {};
    for (const row of this.place.querySelectorAll(".param")) this.readRow(row, axes, fixed);
    const regimes = inOrder(this.ticked("regime"), [this.spec.axes?.regime ?? []].flat());
    if (regimes.length) axes.regime = regimes.length === 1 ? regimes[0] : regimes;
    const repeat = seedValue(at("seeds.repeat")), init = seedValue(at("seeds.init"));
    const time = Object.fromEntries(["max", "min", "samples", "tail"].map((name) => [name, at(`time.${name}`)]).filter(([, one]) => one !== "").map(([name, one]) => [name, value(one)]));
    const observables = this.ticked("observable"), usual = this.catalogue.observables.filter((one) => one.default).map((one) => one.name);
    const zip = at("zip").split(";").map((one) => one.split(",").map((part) => part.trim()).filter(Boolean)).filter((one) => one.length);
    const options = this.options();
    return {
      ...(at("name") ? { name: at("name") } : {}),
      ...(this.design === "points" ? { points: untable(at("points")) } : {}),
      ...(DESIGNS[this.design].own.length ? { [this.design]: own } : {}),
      axes, ...(Object.keys(fixed).length ? { fixed } : {}), ...(zip.length ? { zip } : {}),
      ...this.init(), ...(this.place.elements.simulate.checked ? {} : { simulate: false }),
      seeds: repeat === 1 ? init : { init, repeat }, time,
      ...(observables.join() === usual.join() && !this.spec.observables ? {} : { observables }), // said, they are without overlaps
      ...(Object.keys(options).length ? { regime_options: options } : {}),
    };
  }

  readRow(row, axes, fixed) {
    const { name } = row.dataset, spaced = [...row.querySelectorAll(".ends input")];
    if (spaced.length) { axes[name] = { [spaced[0].name.split(".")[0]]: spaced.map((one) => value(one.value)) }; return; }
    const values = this.detail(name)?.kind === "text" ? inOrder(this.ticked(`text.${name}`), [this.spec.axes?.[name] ?? []].flat()) : listed(row.querySelector("input").value);
    if (!values.length) { if (DESIGNS[this.design].axes.includes(name)) axes[name] = ""; return; }
    const old = this.spec.axes?.[name], isAxis = values.length > 1 || (Array.isArray(old) && old.length === 1); // [5] is an axis, 5 is none
    const inAxes = isAxis || DESIGNS[this.design].axes.includes(name) || name.startsWith("init.");
    (inAxes ? axes : fixed)[name] = isAxis ? values : values[0];
  }

  ticked(name) { return [...this.place.querySelectorAll(`input[name="${name}"]:checked`)].map((one) => one.value); }

  options() {
    const found = {};
    for (const one of this.catalogue.regime_options) {
      const element = this.place.elements[`regime_options.${one.name}`];
      if (typeof one.default === "boolean") { if (element.checked !== one.default) found[one.name] = element.checked; }
      else if (element.value.trim() !== "") found[one.name] = value(element.value);
    }
    return found;
  }

  init() {
    const kind = this.place.elements["init.kind"].value, known = this.catalogue.inits.find((one) => one.name === kind), old = this.spec.init ?? { kind: "gaussian" };
    if (!known) return { init: old };
    const found = { kind, ...this.teacher(old.kind === kind ? old : {}, known) };
    for (const one of known.parameters) {
      const text = this.place.elements[`init.${one.name}`]?.value.trim();
      if (text) found[one.name] = value(text);
    }
    if (this.place.elements["init.shared"]?.checked) found.shared = true;
    const d0 = this.place.elements["init.shared.d0"]?.value.trim();
    if (d0) found.shared = { d0: value(d0) };
    return kind === "gaussian" && Object.keys(found).length === 1 ? {} : { init: found };
  }

  /** As it was written, if it is still the same. */
  teacher(old, known) {
    const chosen = this.place.elements["init.teacher"]?.value, before = teacherOf(old, known);
    if (chosen === undefined || chosen === AS_WRITTEN || chosen === before) {
      return Object.fromEntries(["teacher", "orthonormal_teacher"].filter((name) => name in old).map((name) => [name, old[name]]));
    }
    return chosen === known.teacher ? {} : { teacher: chosen };
  }

  /** Show a problem at the field that is to blame, or nowhere: then its text stands with the cost. */
  blame(problem) {
    const box = problem?.field ? this.blamed(problem.field) : null, said = box?.querySelector(".error");
    for (const one of this.place.querySelectorAll(".error")) if (one !== said) one.textContent = "";
    for (const one of this.place.querySelectorAll("[aria-invalid]")) for (const name of ["aria-invalid", "aria-describedby"]) one.removeAttribute(name);
    for (const one of this.place.querySelectorAll("#blamed")) one.removeAttribute("id");
    if (!box) return;
    if (said.textContent !== (problem.allowed ?? problem.message)) said.textContent = problem.allowed ?? problem.message; // it is read aloud
    said.id = "blamed";
    for (const one of box.querySelectorAll("input, textarea")) { one.setAttribute("aria-invalid", "true"); one.setAttribute("aria-describedby", "blamed"); }
    const hidden = box.closest("details");
    if (hidden) hidden.open = true;
  }

  blamed(field) {
    const name = field.replace(/ \(key\).*$/, "").replace(/\[\d+\].*$/, ""), bare = name.replace(/^(axes|fixed)\./, "").replace(/\.(lin|log)$/, "");
    const parts = bare.split(".");
    const names = [name, `param.${bare}`, bare, `${this.design}.${bare}`, ...parts.map((_, at) => parts.slice(0, -at || undefined).join("."))];
    return names.map((one) => this.place.querySelector(`[data-field="${CSS.escape(one)}"]`)).find(Boolean);
  }
}

const part = (title, ...content) => h("fieldset", { className: "part" }, h("legend", {}, title), content);
const field = (name, title, input) => h("div", { className: "field", dataset: { field: name } }, h("label", {}, title, input), h("p", { className: "error", role: "alert" }));
const error = (name) => h("div", { className: "field", dataset: { field: name } }, h("p", { className: "error", role: "alert" }));
const choice = (name, key, title, about, checked, disabled = false) => h("label", {}, h("input", { type: "checkbox", name, value: key, checked, disabled }), h("span", {}, title, h("small", {}, about)));

const table = (points) => { const names = Object.keys(points[0] ?? {}); return [names.join(" "), ...points.map((point) => names.map((name) => point[name]).join(" "))].join("\n"); };
function untable(text) {
  const [names, ...rows] = text.split("\n").map((line) => line.trim().split(/[\s,;]+/).filter(Boolean)).filter((line) => line.length);
  return rows.map((row) => Object.fromEntries(row.map((one, at) => [names[at] ?? `column ${at + 1}`, value(one)]))); // which the service does not know
}
