// Elements of SVG.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** Create an element with attributes and children; a child that is a string becomes text. */
export function createShape(tag, attributes = {}, ...children) {
  const shape = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  shape.append(...children.flat());
  return shape;
}

/** Format places as the points of a line. */
export function formatPoints(places) {
  return places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
}
