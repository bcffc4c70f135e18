// Comments on lines of a diff, which become the agent's next message.

export function takeComments() {
  const form = document.getElementById("comments");
  if (!form) {
    for (const button of document.querySelectorAll("[data-comment]")) button.disabled = true;
    return;
  }
  const text = form.elements.text, onlyComments = form.hidden;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-comment]");
    if (!button) return;
    const row = button.closest("tr");
    form.hidden = false;
    text.value += `${text.value ? "\n\n" : ""}${button.dataset.comment}\n> ${row.querySelector("code").textContent}\n\n`;
    text.focus();
    text.setSelectionRange(text.value.length, text.value.length);
  });
  form.addEventListener("sent", () => { form.hidden = onlyComments; });
}
