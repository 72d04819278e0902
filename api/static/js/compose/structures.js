// Structured parameters of a spec: which kind a value is of, and how values of a kind are written. The kinds
// and their fields come from the catalogue.
import { isMapping, toList } from "./field-values.js";

/** Return the name under which a field of a structure is an axis, such as `schedule.alpha`. */
export function getAxisName(structure, field) {
  return `${structure.name}.${field.name}`;
}

/** Return the path of a field in a spec, such as `schedule.power.alpha`, which errors name. */
export function getFieldPath(structure, field) {
  return [structure.name, ...field.path].join(".");
}

/** Return the entry at a path inside a value, or undefined. */
export function getEntry(value, path) {
  return path.reduce((entry, key) => (isMapping(entry) ? entry[key] : undefined), value);
}

/** Return a copy of a value with an entry set, or removed if it is undefined. */
export function setEntry(value, path, entry) {
  if (!path.length) return entry;
  const [key, ...rest] = path;
  const { [key]: previous, ...others } = isMapping(value) ? value : {};
  const next = setEntry(previous, rest, entry);
  if (next === undefined) return others;
  return key in (value ?? {}) ? { ...value, [key]: next } : { ...others, [key]: next };
}

/** Return the value of a structure in a spec, without those structures that are parts of it. */
export function getStructureValue(spec, structure, catalogue) {
  const value = getEntry(spec, structure.name.split("."));
  if (!isMapping(value)) return value;
  const names = catalogue.structures.map(({ name }) => name);
  const isOwn = ([key]) => !names.includes(`${structure.name}.${key}`);
  return Object.fromEntries(Object.entries(value).filter(isOwn));
}

/** Return a copy of a spec with the value of a structure set; its parts stay. Undefined removes it. */
export function setStructureValue(spec, structure, value, catalogue) {
  const path = structure.name.split(".");
  const parts = catalogue.structures.filter(({ name }) => name.startsWith(`${structure.name}.`));
  const withParts = parts.reduce((result, { name }) => {
    const part = getEntry(spec, name.split("."));
    return part === undefined ? result : setEntry(result ?? {}, name.split(".").slice(path.length), part);
  }, value);
  const changed = setEntry(spec, path, withParts);
  const whole = changed[path[0]];
  const isEmpty = path.length > 1 && isMapping(whole) && Object.keys(whole).length === 0;
  return isEmpty ? setEntry(changed, [path[0]], undefined) : changed;
}

/** Return the kind of a structure in a spec, or undefined if its value is of none. */
export function findKind(spec, structure, catalogue) {
  const value = getStructureValue(spec, structure, catalogue);
  const axisNames = listSweptNames(spec).filter((name) => isNumberOf(structure, name));
  return structure.kinds.find((kind, index) => isOfKind(value, structure, kind, axisNames, index === 0));
}

/** Return the names with values in the grid: in axes, fixed or the columns of points. */
function listSweptNames(spec) {
  return [spec.axes, spec.fixed, spec.points?.[0]].flatMap((values) => Object.keys(values ?? {}));
}

/** Return whether a name such as `schedule.alpha` is that of a number of this structure. */
function isNumberOf(structure, name) {
  const prefix = `${structure.name}.`;
  return name.startsWith(prefix) && !name.slice(prefix.length).includes(".");
}

function isOfKind(value, structure, kind, axisNames, isDefault) {
  const template = listLeaves(kind.template);
  const hasTemplate = template.every(({ path, leaf }) => {
    const entry = getEntry(value, path);
    if (entry === undefined) return isDefault;
    return isMapping(leaf) ? isMapping(entry) : entry === leaf;
  });
  const isExplained = (path) =>
    [...template, ...kind.fields].some((part) => part.path.join(".") === path.join("."));
  const isOfField = (name) => kind.fields.some((field) => getAxisName(structure, field) === name);
  const hasField = kind.fields.some((field) =>
    getEntry(value, field.path) !== undefined || axisNames.includes(getAxisName(structure, field)));
  return hasTemplate && (isDefault || template.length > 0 || hasField)
    && listLeaves(value).every(({ path }) => isExplained(path)) && axisNames.every(isOfField);
}

/** List what is inside a value with its paths, without what is false, which equals what is not written. */
function listLeaves(value, path = []) {
  if (value === undefined || value === false) return [];
  const entries = isMapping(value) ? Object.entries(value) : [];
  if (entries.length) return entries.flatMap(([key, entry]) => listLeaves(entry, [...path, key]));
  return isMapping(value) && !path.length ? [] : [{ path, leaf: value }];
}

/** Write a value of a kind; `getFieldValue(field)` returns undefined for a field that is left out. */
export function writeValue(kind, getFieldValue) {
  return kind.fields.reduce((value, field) => {
    const entry = getFieldValue(field);
    return entry === undefined ? value : setEntry(value, field.path, entry);
  }, structuredClone(kind.template));
}

/** Return whether a value is the default one, which need not be written. */
export function isDefaultValue(structure, value) {
  return JSON.stringify(value) === JSON.stringify(structure.kinds[0].template);
}

/** Return a copy of a spec with another kind of a structure; numbers that this kind lacks leave the grid. */
export function changeKind(spec, structureName, kindName, catalogue) {
  const structure = catalogue.structures.find(({ name }) => name === structureName);
  const kind = structure.kinds.find(({ name }) => name === kindName);
  if (!kind) return spec; // the value as it is written, which no kind describes
  const value = writeValue(kind, (field) => field.start ?? undefined);
  const written = isDefaultValue(structure, value) ? undefined : value;
  const changed = setStructureValue(moveTeacher(spec, catalogue), structure, written, catalogue);
  const kept = kind.fields.map((field) => getAxisName(structure, field));
  const isKept = ([name]) => kept.includes(name) || !isNumberOf(structure, name);
  for (const part of ["axes", "fixed"]) {
    if (changed[part]) changed[part] = Object.fromEntries(Object.entries(changed[part]).filter(isKept));
  }
  return changed;
}

/** Return the numbers of a spec's structures that may be axes: their names, structures, kinds and fields. */
export function listNumbers(spec, catalogue) {
  const movedSpec = moveTeacher(spec, catalogue);
  return catalogue.structures.flatMap((structure) => {
    const kind = findKind(movedSpec, structure, catalogue);
    const numbers = kind?.fields.filter(({ type }) => type === "number") ?? [];
    return numbers.map((field) => ({ name: getAxisName(structure, field), structure, field }));
  });
}

/** Return a copy of a spec with a number of a structure as an axis, with its written or its first value. */
export function moveToAxis(spec, { name, structure, field }, catalogue) {
  const movedSpec = moveTeacher(spec, catalogue);
  const value = getStructureValue(movedSpec, structure, catalogue);
  const number = getEntry(value, field.path) ?? field.default ?? field.start ?? 1;
  const rest = setEntry(value, field.path, undefined);
  const isEmpty = isDefaultValue(structure, rest) || Object.keys(rest).length === 0;
  const changed = setStructureValue(movedSpec, structure, isEmpty ? undefined : rest, catalogue);
  return { ...changed, axes: { ...changed.axes, [name]: number } };
}

/** Return a copy of a spec without an axis for a number of a structure; a required one keeps a value. */
export function moveFromAxis(spec, { name, structure, field }, catalogue) {
  const { [name]: axis, ...axes } = spec.axes ?? {};
  const { [name]: single, ...fixed } = spec.fixed ?? {};
  const changed = { ...moveTeacher(spec, catalogue), axes, ...(spec.fixed && { fixed }) };
  if (!field.required) return changed;
  const [first] = toList(axis?.log ?? axis?.lin ?? axis ?? single);
  const value = getStructureValue(changed, structure, catalogue);
  return setStructureValue(changed, structure, setEntry(value, field.path, first), catalogue);
}

/**
 * Return a copy of a spec with its teacher in `teacher`, as a mapping. It may also be written as a name, or
 * in `init` as `teacher` or `orthonormal_teacher`; if it is in both places, both are kept.
 */
export function moveTeacher(spec, catalogue) {
  const structure = catalogue.structures.find(({ name }) => name === "teacher");
  const toMapping = (value) => (typeof value === "string" ? { gram: value } : value);
  const changed = typeof spec.teacher === "string" ? { ...spec, teacher: toMapping(spec.teacher) } : spec;
  const { teacher, orthonormal_teacher: isOrthonormal, ...init } = spec.init ?? {};
  const named = isOrthonormal === undefined ? undefined : { gram: isOrthonormal ? "orthonormal" : "random" };
  const isTwice = teacher !== undefined && named !== undefined;
  const value = toMapping(teacher) ?? named;
  const present = getStructureValue(changed, structure, catalogue) ?? {};
  if (isTwice || !isMapping(value) || Object.keys(present).length) return changed;
  return setStructureValue({ ...changed, init }, structure, value, catalogue);
}
