// Pages of this server as parsed documents, of which nothing runs.

const policy = globalThis.trustedTypes?.createPolicy("explorer", {
  // Only for the server's own pages, which are parsed and never run.
  createHTML: (/** @type {string} */ text) => text,
});

/**
 * @param {string} address
 * @param {AbortSignal} [signal]
 * @returns {Promise<{isFound: boolean, page: Document}>}
 */
export async function readPage(address, signal) {
  const response = await fetch(address, { headers: { accept: "text/html" }, signal });
  const text = await response.text();
  const html = /** @type {string} */ (policy?.createHTML(text) ?? text);
  return { isFound: response.ok, page: new DOMParser().parseFromString(html, "text/html") };
}
