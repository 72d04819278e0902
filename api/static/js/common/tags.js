// Tags of sweeps: as links to the list of the sweeps that have them, and as text with commas.
import { formatQuery } from "./address.js";
import { createElement } from "./dom.js";

/** Create a link for each tag; `onClick(event, tag)` may show the sweeps of a tag in another way. */
export function createTagLinks(tags, onClick = null) {
  return tags.map((tag) => createElement("a", {
    className: "tag",
    href: `/${formatQuery({ tag })}`,
    title: `Sweeps with the tag ${tag}`,
    onclick: onClick && ((event) => onClick(event, tag)),
  }, tag));
}

/** Split a text at commas into tags, in the order and the spelling in which they are stored. */
export function parseTags(text) {
  const tags = text.split(",").map((tag) => tag.trim().toLowerCase()).filter(Boolean);
  return [...new Set(tags)].sort();
}
