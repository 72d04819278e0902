// The REST API, as everybody has it. A problem has the field that is to blame, and what is allowed there.

export class Problem extends Error {
  constructor(about, status) {
    super(about.detail || `the service answered ${status}`);
    Object.assign(this, { status, field: about.field, allowed: about.allowed });
  }
}

async function answered(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "The service does not answer." }, 0);
  }
  if (answer.status === 401 && path !== "/v1/session") location.reload(); // where the login is
  if (answer.ok) return answer;
  throw new Problem(await answer.json().catch(() => ({})), answer.status);
}

const json = async (path, options) => { const answer = await answered(path, options); return answer.status === 204 ? null : answer.json(); };
export const get = (path) => json(path);
export const file = async (path) => (await answered(path)).blob();

export function post(path, body, { signal, type = "application/json", key } = {}) {
  const headers = { "Content-Type": type, ...(key ? { "Idempotency-Key": key } : {}) };
  const text = typeof body === "string" ? body : JSON.stringify(body ?? {});
  return json(path, { method: "POST", headers, body: text, signal });
}

export const remove = (path) => json(path, { method: "DELETE" });

/** A query string of words; what is empty is left out. */
export function query(words) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(words)) {
    if (value === null || value === undefined || String(value) === "") continue; // nor of nothing a list
    found.set(name, String(value));
  }
  const text = found.toString().replaceAll("%2C", ",");
  return text ? `?${text}` : "";
}

/** The page's own address shows what it shows, so that it can be shared. */
export function remember(words) {
  history.replaceState(null, "", `${location.pathname}${query(words)}`);
}
