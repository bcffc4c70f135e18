// The rows of an agent: a window of the newest, which the stream changes, and older ones on demand.

const most = 400; // rows that are shown at a time

// followRows follows the agent's events from the place that the page was made at. changed is called after a row of a
// category that the page watches.
export function followRows(body, changed) {
  const list = document.getElementById("rows");
  const link = document.getElementById("link");
  const agent = "/ui/agents/" + encodeURIComponent(body.dataset.agent);
  const watched = new Set((body.dataset.watch || "").split(" "));
  const mode = list ? list.dataset.mode : "debug";
  const rows = list && window_(list, agent, mode);
  let from = body.dataset.from;

  function connect() {
    const source = new EventSource(`${agent}/stream?mode=${mode}&from=${encodeURIComponent(from)}`);
    source.addEventListener("live", () => {
      link.textContent = "live";
      link.classList.remove("bad");
      if (source.before) changed(); // back again
      source.before = true;
    });
    source.addEventListener("row", (event) => {
      from = event.lastEventId || from;
      const row = JSON.parse(event.data);
      rows?.take(row);
      if (watched.has(row.category) && row.seq) changed();
    });
    source.addEventListener("reset", () => location.reload());
    source.onerror = () => {
      link.textContent = "reconnecting";
      link.classList.add("bad");
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      source.close();
      fetch("/ui/runtime", {method: "HEAD"}).then((answer) => {
        if (answer.status === 401) location.reload();
        else setTimeout(connect, 1000);
      }, () => setTimeout(connect, 1000));
    };
  }
  connect();
}

// followTurns follows the turns of a session that go on, each to its end, after which ended is called.
export function followTurns(ended) {
  for (const list of document.querySelectorAll("[data-turn]")) {
    if (list.source) continue;
    const rows = window_(list);
    list.source = new EventSource(list.dataset.turn);
    list.source.addEventListener("row", (event) => {
      if (list.isConnected) rows.take(JSON.parse(event.data));
      else list.source.close();
    });
    list.source.addEventListener("ended", () => { list.source.close(); ended(); });
  }
}

// window_ are the rows of a list. One without an agent has no older ones.
function window_(list, agent, mode) {
  const older = agent && document.getElementById("older");
  const newest = agent && document.getElementById("newest");
  const byKey = new Map();
  let atEnd = true; // the window has the newest row

  const make = (html) => {
    const parsed = document.createElement("template");
    parsed.innerHTML = html; // made by the server, which escapes every text
    return [...parsed.content.children];
  };
  const nearEnd = () => list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  const toEnd = () => { list.scrollTop = list.scrollHeight; };
  for (const row of list.children) byKey.set(row.dataset.key, row);
  toEnd();

  function drop(row) {
    if (byKey.get(row.dataset.key) === row) byKey.delete(row.dataset.key);
    row.remove();
  }

  // put adds a row, or changes the one of its key unless that is newer.
  function put(row, before) {
    const was = byKey.get(row.dataset.key);
    if (was) {
      if (Number(was.dataset.seq) > Number(row.dataset.seq) && Number(row.dataset.seq) > 0) return;
      const unfolded = was.querySelector("details")?.open;
      was.replaceWith(row);
      if (unfolded) row.querySelector("details").open = true;
    } else {
      list.insertBefore(row, before);
    }
    byKey.set(row.dataset.key, row);
  }

  older?.addEventListener("click", async () => {
    older.disabled = true;
    try {
      const answer = await fetch(`${agent}/rows?mode=${mode}&before=${older.dataset.before}`);
      if (!answer.ok) return;
      const first = list.firstElementChild;
      const place = first ? first.getBoundingClientRect().top : 0;
      for (const row of make(await answer.text())) if (!byKey.has(row.dataset.key)) put(row, first);
      older.dataset.before = answer.headers.get("Holon-Oldest");
      older.hidden = older.dataset.before === "0";
      while (list.children.length > most) {
        drop(list.lastElementChild);
        atEnd = false;
      }
      newest.hidden = atEnd;
      if (first?.isConnected) list.scrollTop += first.getBoundingClientRect().top - place;
    } finally {
      older.disabled = false;
    }
  });

  newest?.addEventListener("click", () => location.reload());

  // take puts a change off until the ones that came with it are here too, and a moment longer while there are many: the
  // page is laid out once for all of them.
  let changes = [], last = 0;
  function apply() {
    const follow = nearEnd();
    for (const change of changes) {
      const was = byKey.get(change.key);
      if (change.gone) {
        if (was) drop(was);
      } else if (!was && !atEnd) { // it is behind the window
        if (newest) newest.hidden = false;
      } else if (change.append !== undefined && was) {
        was.querySelector(".writing")?.append(change.append);
      } else if (change.html) {
        for (const row of make(change.html)) put(row, null);
      }
    }
    changes = [];
    last = performance.now();
    if (follow && list.children.length > most) {
      while (list.children.length > most) drop(list.firstElementChild);
      if (older) [older.dataset.before, older.hidden] = [list.firstElementChild.dataset.seq, false];
    } else if (list.children.length > most * 2) { // the reader stays at older rows
      while (list.children.length > most) drop(list.lastElementChild);
      atEnd = false;
      if (newest) newest.hidden = false;
    }
    if (follow) toEnd();
  }
  return {
    take(change) {
      if (changes.push(change) === 1) setTimeout(apply, performance.now() - last < 100 ? 16 : 0);
      else if (changes.length > most) apply();
    },
  };
}
