// Reads pages while somebody types: the results of a search, and values for a prompt.

import { readPage } from "./pages.js";

const PAUSE_MS = 250;

const results = document.getElementById("results");
const said = document.getElementById("said");

/**
 * @param {HTMLInputElement} field
 * @param {() => string} address
 * @param {(page: Document, address: string) => void} show
 */
function readWhileTyping(field, address, show) {
  let timer = 0;
  let asked = new AbortController();
  field.addEventListener("input", () => {
    clearTimeout(timer);
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    timer = setTimeout(async () => {
      const wanted = address();
      try {
        const { page } = await readPage(wanted, signal);
        if (!signal.aborted) show(page, wanted);
      } catch {
        if (!signal.aborted && said) said.textContent = "Not connected";
      }
    }, PAUSE_MS);
  });
}

/** @param {HTMLFormElement} form @param {string} action */
function filled(form, action) {
  const values = /** @type {[string, string][]} */ ([...new FormData(form)]);
  return `${action}?${new URLSearchParams(values)}`;
}

/** @param {Element} region @param {Element | null} fresh */
function replace(region, fresh) {
  region.replaceChildren(...(fresh ? document.adoptNode(fresh).childNodes : []));
}

const search = /** @type {HTMLFormElement} */ (document.querySelector("form.search"));
const query = /** @type {HTMLInputElement} */ (search.elements.namedItem("query"));
if (results && said) {
  const isSearchPage = results.closest("main") !== null;
  readWhileTyping(query, () => filled(search, search.action), (page, address) => {
    // A refusal has no results, and the page that asks to sign in neither.
    replace(results, page.getElementById("results") ?? page.querySelector("main"));
    results.hidden = !isSearchPage && query.value.trim() === "";
    said.textContent = results.querySelector("p")?.textContent ?? "";
    if (isSearchPage) history.replaceState(null, "", address);
  });
}

const suggesting = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("input[list]"));
for (const field of suggesting) {
  const { form, list } = field;
  if (!form || !list) continue;
  readWhileTyping(field, () => filled(form, location.pathname), (page) => {
    replace(list, page.getElementById(list.id));
  });
}
