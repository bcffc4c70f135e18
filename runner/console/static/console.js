// The console's script: forms without a new page, parts of a page that are read again, and the streams.
import {followRows, followTurns} from "./rows.js";
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
      if (next && !busy && unfollowed(next) !== unfollowed(part)) replace(part, next);
    }
    followTurns(refreshSoon);
  } catch {
    // the daemon is away: the stream tells when it is back
  } finally {
    reading = false;
    took = performance.now() - began;
    if (again) refreshSoon();
    again = false;
  }
}

// unfollowed is a part without the rows of the turns that it follows.
function unfollowed(part) {
  const copy = part.cloneNode(true);
  for (const turn of copy.querySelectorAll("[data-turn]")) turn.replaceChildren();
  return copy.innerHTML;
}

// replace keeps what is unfolded, what was entered, and the focus: of the same element, never of the one that took its
// place, which does something else.
function replace(part, next) {
  const all = (selector) => [...part.querySelectorAll(selector)];
  const open = new Set(all("details[open]").map(identity));
  const entered = new Map(all("input:not([type=hidden]), textarea").filter((e) => e.value !== e.defaultValue ||
    e.checked !== e.defaultChecked).map((e) => [identity(e), e]));
  const focused = part.contains(document.activeElement) && identity(document.activeElement);
  for (const turn of all("[data-turn]")) next.querySelector("#" + turn.id)?.replaceWith(turn);
  part.replaceChildren(...next.childNodes);
  for (const one of all("details")) one.open = open.has(identity(one));
  for (const one of all("input:not([type=hidden]), textarea")) {
    const was = entered.get(identity(one));
    if (was) [one.value, one.checked] = [was.value, was.checked];
  }
  const controls = all("a, button, input, textarea, select, summary, [tabindex]");
  if (focused) controls.find((e) => identity(e) === focused)?.focus();
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

// A form with data-act is sent without leaving the page. A composer is emptied at once, so that the next message can be
// typed, and gets its text back if that was not taken; messages are sent one after another, in the order of the person.
const keys = new Map(); // by what was sent and has no answer: if it is sent again, it is the same message
const outbox = []; // of composers: the first one is being sent
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-act]")) return;
  event.preventDefault();
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
  const body = new URLSearchParams(new FormData(form));
  if (!form.matches(".composer")) {
    const buttons = form.querySelectorAll("button");
    buttons.forEach((b) => { b.disabled = true; });
    send(form, body).then((done) => {
      buttons.forEach((b) => { b.disabled = false; });
      if (done && new URLSearchParams(new FormData(form)).toString() === body.toString()) form.reset();
    });
    return;
  }
  form.reset();
  if (outbox.push([form, body]) === 1) sendAll();
});

// sendAll empties the outbox. What follows a message that was not taken does not overtake it.
async function sendAll() {
  while (outbox.length > 0) {
    const [form, body] = outbox[0];
    if (!await send(form, body)) {
      for (const unsent of outbox.splice(0).reverse()) putBack(...unsent);
      return;
    }
    outbox.shift();
    if (!form.querySelector("textarea").value) form.dispatchEvent(new Event("sent"));
  }
}

// send says whether the daemon did what a form asks for, and shows what it answered.
async function send(form, body) {
  const what = form.getAttribute("action") + "?" + body;
  const random = crypto.getRandomValues(new Uint8Array(16)); // randomUUID is for https only
  if (!keys.has(what)) keys.set(what, [...random].map((b) => b.toString(16).padStart(2, "0")).join(""));
  const keyed = new URLSearchParams(body);
  keyed.set("key", keys.get(what));
  try {
    const answer = await fetch(form.getAttribute("action"),
      {method: "POST", headers: {Accept: "application/json"}, body: keyed});
    if (answer.status === 401) {
      tell("This browser is not signed in any more: run holon ui.", true);
      return false;
    }
    const said = await answer.json();
    refreshSoon();
    if (said.error) {
      tell([said.error.message, said.error.hint].filter(Boolean).join("; "), true);
      return false;
    }
    keys.delete(what);
    tell(said.done);
    return true;
  } catch {
    tell("The daemon does not answer. Nothing is lost: send it again.", true);
    return false;
  }
}

// putBack puts what was not taken before what was typed since.
function putBack(form, body) {
  for (const field of form.querySelectorAll("[name]:not([type=hidden])")) {
    const was = body.get(field.name) || "";
    field.value = field.matches("textarea") && field.value ? `${was}\n${field.value}` : was;
  }
}

// Enter sends a message, Alt+Enter and Shift+Enter are a new line.
document.addEventListener("keydown", (event) => {
  const box = event.target;
  if (event.key === "Enter" && box.matches?.(".composer textarea") && !event.isComposing) {
    if (event.altKey) {
      event.preventDefault();
      box.setRangeText("\n", box.selectionStart, box.selectionEnd, "end");
    } else if (!event.shiftKey) {
      event.preventDefault();
      if (box.value) box.form.requestSubmit();
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
followTurns(refreshSoon);
if (document.body.dataset.from) followRows(document.body, refreshSoon);
else { // a page that no stream changes is read again while somebody sees it
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  setInterval(() => document.hidden || refresh(), 5000);
}
