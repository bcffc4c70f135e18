// The console's script: forms without a new page, parts of a page that are read again, and the streams.
import {followRows} from "./rows.js";
import {takeComments} from "./comments.js";

const notice = document.getElementById("notice");

function tell(text, bad) {
  notice.textContent = text;
  notice.classList.toggle("bad", Boolean(bad));
  notice.hidden = !text;
}

// refresh reads the page again and puts its live parts in the place of those that are shown, except where the reader
// is at work in one.
let reading = false, again = false;
async function refresh() {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  const began = performance.now();
  try {
    const answer = await fetch(location.href, {headers: {"Holon-Part": "live"}});
    if (answer.status === 401) {
      location.reload();
      return;
    }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(part.id);
      const busy = part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
      if (next && !busy && next.innerHTML !== part.innerHTML) replace(part, next);
    }
  } catch {
    // the daemon is away: the stream tells when it is back
  } finally {
    reading = false;
    took = performance.now() - began;
    if (again) refreshSoon();
    again = false;
  }
}

// replace keeps what is unfolded, what was entered, and the focus: of the same element, never of the one that took its
// place, which does something else.
function replace(part, next) {
  const all = (selector) => [...part.querySelectorAll(selector)];
  const open = new Set(all("details[open]").map(identity));
  const entered = new Map(all("input:not([type=hidden]), textarea").filter((e) => e.value !== e.defaultValue ||
    e.checked !== e.defaultChecked).map((e) => [identity(e), e]));
  const focused = part.contains(document.activeElement) && identity(document.activeElement);
  part.replaceChildren(...next.childNodes);
  for (const one of all("details")) one.open = open.has(identity(one));
  for (const one of all("input:not([type=hidden]), textarea")) {
    const was = entered.get(identity(one));
    if (was) [one.value, one.checked] = [was.value, was.checked];
  }
  if (focused) all("a, button, input, textarea, select, summary, [tabindex]").find((e) => identity(e) === focused)?.focus();
}

// identity says what an element is for: where it leads, or what its form sends to where.
function identity(element) {
  const form = element.closest("form");
  const hidden = form ? [...form.querySelectorAll("input[type=hidden]")].map((e) => e.name + "=" + e.value) : [];
  const own = element.id || element.getAttribute("href") || element.dataset.comment || element.name ||
    element.getAttribute("aria-label") || element.closest("details")?.id || element.textContent.trim();
  return JSON.stringify([element.tagName, form?.getAttribute("action"), hidden, own]);
}

// refreshSoon waits for what comes together, and longer where reading takes long: most of the time is the reader's.
let waiting = 0, took = 0;
function refreshSoon() {
  waiting ||= setTimeout(() => { waiting = 0; refresh(); }, Math.max(200, 5 * took));
}

// A form with data-act is sent without leaving the page. The key makes a message once, also if it is sent again; what
// says something else has another key.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("[data-act]")) return;
  event.preventDefault();
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
  const body = new URLSearchParams(new FormData(form));
  if (form.dataset.said !== body.toString()) {
    form.dataset.said = body.toString();
    delete form.dataset.key;
  }
  form.dataset.key ||= [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
  body.set("key", form.dataset.key);
  const buttons = form.querySelectorAll("button");
  buttons.forEach((b) => { b.disabled = true; });
  try {
    const answer = await fetch(form.action, {method: "POST", headers: {Accept: "application/json"}, body});
    if (answer.status === 401) {
      tell("This browser is not signed in any more: run holon ui.", true);
      return;
    }
    const said = await answer.json();
    if (said.error) {
      tell([said.error.message, said.error.hint].filter(Boolean).join("; "), true);
    } else {
      tell(said.done);
      delete form.dataset.key;
      form.reset();
      form.dispatchEvent(new Event("sent"));
    }
    refreshSoon();
  } catch {
    tell("The daemon does not answer. Nothing is lost: send it again.", true);
  } finally {
    buttons.forEach((b) => { b.disabled = false; });
  }
});

// Enter sends a message, Alt+Enter and Shift+Enter are a new line.
document.addEventListener("keydown", (event) => {
  const box = event.target;
  if (event.key === "Enter" && box.matches?.(".composer textarea") && !event.isComposing) {
    if (event.altKey) {
      event.preventDefault();
      box.setRangeText("\n", box.selectionStart, box.selectionEnd, "end");
    } else if (!event.shiftKey) {
      event.preventDefault();
      box.form.requestSubmit();
    }
  } else if (event.key === "Escape") {
    tell("");
  } else if (event.key === "/" && !box.matches?.("input, textarea, select")) {
    const composer = document.querySelector(".composer textarea");
    if (composer) {
      event.preventDefault();
      composer.focus();
    }
  }
});

// A task's output is shown while it is printed.
const output = document.getElementById("output");
if (output) {
  const source = new EventSource(output.dataset.stream);
  source.addEventListener("output", (event) => {
    const said = JSON.parse(event.data);
    output.textContent = said.text;
    output.scrollTop = output.scrollHeight;
    document.getElementById("task-status").textContent = said.status.replaceAll("_", " ");
    if (said.ended) source.close();
  });
}

takeComments();
if (document.body.dataset.from) followRows(document.body, refreshSoon);
else { // a page that no stream changes is read again while somebody sees it
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  setInterval(() => document.hidden || refresh(), 5000);
}
