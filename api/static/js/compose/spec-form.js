// The form of a spec. What a spec says beyond the fields of the form stays as it is.
import { preventSubmit } from "../common/view-controls.js";
import { changeDesign, changeSpacing, getDesign } from "./designs.js";
import { suggestFirstTime } from "./first-time.js";
import { showFieldErrors } from "./form-errors.js";
import { renderSpecForm } from "./form-layout.js";
import { readSpec } from "./form-reader.js";
import { getDefaultParameter } from "./parameter-rows.js";

/** Shows a spec in a form element and reads it back; `onChange()` is called after each change by the user. */
export class SpecForm {
  constructor(element, catalogue, onChange) {
    this.element = element;
    this.catalogue = catalogue;
    this.onChange = onChange;
    element.addEventListener("input", ({ target }) => {
      if (!target.dataset.shape) onChange();
    });
    element.addEventListener("change", ({ target }) => {
      if (target.dataset.shape) this.changeShape(target);
    });
    preventSubmit(element);
  }

  /** Build the form from a spec. */
  show(spec) {
    this.spec = structuredClone(spec);
    this.suggestedFirstTime = suggestFirstTime(spec);
    this.design = getDesign(spec);
    const removeParameter = (name) => this.removeParameter(name);
    renderSpecForm(this.element, spec, this.design, this.catalogue, removeParameter);
  }

  /** Return the spec that the form describes. */
  read() {
    const spec = readSpec(this.element, this.spec, this.design, this.catalogue);
    this.updateFirstTime(spec);
    return spec;
  }

  /** Let the first time follow other fields while it is the suggested one. */
  updateFirstTime(spec) {
    const suggestion = suggestFirstTime(spec);
    const isFollowing = this.suggestedFirstTime !== undefined && spec.time.min === this.suggestedFirstTime;
    if (suggestion === undefined || !isFollowing) return;
    if (suggestion !== spec.time.min) this.element.elements["time.min"].value = String(suggestion);
    spec.time.min = suggestion;
    this.suggestedFirstTime = suggestion;
  }

  /** Show the errors of a refused request at their fields, or clear the last ones if there are none. */
  showErrors(error) {
    showFieldErrors(this.element, error, this.design);
  }

  /** Apply a control with `data-shape`: one that changes which fields there are. */
  changeShape(control) {
    const { shape, name } = control.dataset;
    const spec = this.read();
    if (shape === "design") changeDesign(spec, control.value);
    if (shape === "init") spec.init = { kind: control.value };
    if (shape === "kind") changeSpacing(spec, name, control.value);
    if (shape === "add" && control.value) this.addParameter(spec, control.value);
    this.show(spec);
    if (shape === "add") this.focusParameter(control.value);
    this.onChange();
  }

  addParameter(spec, name) {
    spec.axes = { ...spec.axes, [name]: getDefaultParameter(this.catalogue, name) };
  }

  focusParameter(name) {
    this.element.querySelector(`.param[data-name="${CSS.escape(name)}"] input`)?.focus();
  }

  removeParameter(name) {
    const spec = this.read();
    delete spec.axes?.[name];
    delete spec.fixed?.[name];
    this.show(spec);
    this.element.elements.add.focus(); // from which the parameter can be added again
    this.onChange();
  }
}
