// The form of a spec. What a spec says beyond the fields of the form stays as it is.
import { preventSubmit } from "../common/view-controls.js";
import { changeDesign, changeSpacing, getDesign } from "./designs.js";
import { suggestFirstTime } from "./first-time.js";
import { showFieldErrors } from "./form-errors.js";
import { renderSpecForm } from "./form-layout.js";
import { readSpec } from "./form-reader.js";
import { getDefaultParameter } from "./parameter-rows.js";
import { readStructures } from "./structure-fields.js";
import { changeKind, listNumbers, moveFromAxis, moveToAxis } from "./structures.js";

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
    this.shownStructures = readStructures(this.element, spec, this.catalogue);
  }

  /** Return the spec that the form describes. */
  read() {
    const spec = readSpec(
      this.element, this.spec, this.shownStructures, this.design, this.catalogue);
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
    let spec = this.read();
    if (shape === "design") changeDesign(spec, control.value);
    if (shape === "structure") spec = changeKind(spec, name, control.value, this.catalogue);
    if (shape === "kind") changeSpacing(spec, name, control.value);
    if (shape === "add" && control.value) spec = this.addParameter(spec, control.value);
    this.show(spec);
    if (shape === "add") this.focusParameter(control.value);
    this.onChange();
  }

  addParameter(spec, name) {
    const number = this.findNumber(spec, name);
    if (number) return moveToAxis(spec, number, this.catalogue);
    return { ...spec, axes: { ...spec.axes, [name]: getDefaultParameter(this.catalogue, name) } };
  }

  /** Return the number of a structure that has this name, or undefined. */
  findNumber(spec, name) {
    return listNumbers(spec, this.catalogue).find((number) => number.name === name);
  }

  focusParameter(name) {
    this.element.querySelector(`.param[data-name="${CSS.escape(name)}"] input`)?.focus();
  }

  removeParameter(name) {
    const spec = this.read();
    const number = this.findNumber(spec, name);
    if (number) this.show(moveFromAxis(spec, number, this.catalogue));
    else this.show(dropParameter(spec, name));
    this.element.elements.add.focus(); // from which the parameter can be added again
    this.onChange();
  }
}

function dropParameter(spec, name) {
  delete spec.axes?.[name];
  delete spec.fixed?.[name];
  return spec;
}
