// Conveniences of every page: copying, filtering and sorting names, and the key for the search.

/** @param {string} selector */
const all = (selector) => /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]);

for (const button of all("[data-copy]")) {
  const text = document.getElementById(button.dataset.copy ?? "")?.textContent ?? "";
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  });
}

for (const table of all("table[data-filter]")) {
  const field = /** @type {HTMLInputElement} */ (document.getElementById(table.dataset.filter ?? ""));
  if (field.parentElement) field.parentElement.hidden = false;
  const rows = /** @type {HTMLTableRowElement[]} */ ([...table.querySelectorAll("tbody tr")]);
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    for (const row of rows) {
      row.hidden = !(row.cells[0].dataset.value ?? "").toLowerCase().includes(wanted);
    }
  });
}

for (const table of all("table[data-sortable]")) {
  const body = table.querySelector("tbody");
  const heads = /** @type {HTMLTableCellElement[]} */ ([...table.querySelectorAll("thead th")]);
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = head.ariaSort === "ascending" ? "descending" : "ascending";
      for (const other of heads) other.ariaSort = null;
      head.ariaSort = order;
      const sign = order === "ascending" ? 1 : -1;
      const rows = /** @type {HTMLTableRowElement[]} */ ([...(body?.rows ?? [])]);
      /** @param {HTMLTableRowElement} row */
      const value = (row) => row.cells[at].dataset.value ?? row.cells[at].textContent ?? "";
      rows.sort((a, b) => sign * value(a).localeCompare(value(b), undefined, { numeric: true }));
      body?.append(...rows);
    });
  });
}

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const isTyping = target.closest("input, textarea, select") !== null;
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  /** @type {HTMLInputElement | null} */ (document.querySelector("header input[type=search]"))?.focus();
});
