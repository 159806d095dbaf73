/**
 * Addresses of pages, for links. routes.js reads them.
 */

/** Return the address of a job's page. */
export function jobAddress(id, page = "", query = {}) {
  const text = new URLSearchParams(query).toString();
  return `#/jobs/${encodeURIComponent(id)}${page === "" ? "" : `/${page}`}${text === "" ? "" : `?${text}`}`;
}
