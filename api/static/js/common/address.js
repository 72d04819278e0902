// The query of the page's address: it holds what the page shows, so that a view can be shared as a link.

/** Return the query of the address as an object. */
export function readQuery() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

/** Format a query string; names without a value, or with an empty list, are left out. */
export function formatQuery(parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || String(value) === "") continue;
    query.set(name, String(value));
  }
  const text = query.toString().replaceAll("%2C", ",");
  return text ? `?${text}` : "";
}

/** Replace the query of the address without a new entry in the history. */
export function replaceQuery(parameters) {
  history.replaceState(null, "", `${location.pathname}${formatQuery(parameters)}`);
}
