// Adds a tea to the cart without reloading the page.
const form = document.querySelector("form.tea");

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/cart", { method: "POST", body: new FormData(form) });
  document.querySelector("#count").textContent = (await answer.json()).count;
});
