// Comfort only: the page works without it. Dropping files, progress, filtering, opening trees.
"use strict";

const $ = (id) => document.getElementById(id);

// --- open the way to a linked node ---

function reveal() {
  const target = location.hash.length > 1 ? $(decodeURIComponent(location.hash.slice(1))) : null;
  if (!target) return;
  for (let up = target.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
  target.scrollIntoView({ block: "center" });
  if (!target.matches("a, button, input, summary")) target.tabIndex = -1;
  target.focus({ preventScroll: true });
}
addEventListener("hashchange", reveal);
reveal();

for (const [kind, open] of [["open", true], ["close", false]]) {
  for (const button of document.querySelectorAll(`[data-${kind}]`)) {
    button.addEventListener("click", () => {
      for (const d of $(button.dataset[kind]).querySelectorAll("details")) d.open = open;
    });
  }
}

// --- copy the link ---

const share = $("share");
if (share && navigator.clipboard) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy link";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(share.href);
    button.textContent = "Copied";
  });
  share.after(" ", button);
}

// --- files dropped on a side of the comparison ---

for (const side of document.querySelectorAll("[data-drop]")) {
  hover(side);
  side.addEventListener("drop", async (event) => {
    event.preventDefault();
    const files = [...event.dataTransfer.files];
    const names = side.dataset.drop === "a" ? ["a", "b"] : ["b", "a"];
    for (const [n, file] of files.slice(0, 2).entries()) {
      $("text_" + names[n]).value = await file.text();
    }
  });
}
for (const name of ["a", "b"]) {
  const input = $("file_" + name);
  if (!input) continue;
  input.addEventListener("change", async () => {
    if (!input.files.length) return;
    $("text_" + name).value = await input.files[0].text();
    input.value = "";
  });
}

function hover(element) {
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    element.classList.add("over");
  });
  for (const name of ["dragleave", "drop"]) {
    element.addEventListener(name, () => element.classList.remove("over"));
  }
}

// --- a folder or files dropped for a sweep ---

async function walk(entry, path, found) {
  if (entry.isFile) {
    const file = await new Promise((good, bad) => entry.file(good, bad));
    found.push([path + entry.name, file]);
  } else {
    const reader = entry.createReader();
    for (;;) {
      const batch = await new Promise((good, bad) => reader.readEntries(good, bad));
      if (!batch.length) break;
      for (const inner of batch) await walk(inner, path + entry.name + "/", found);
    }
  }
}

const WANTED = /\.(ptx|amdgcn|gcn|s|json|jsonl|best_config|ttir|source|zip|tar|gz|tgz|bz2|xz)$/i;

async function sweep(found) {
  const status = $("upload-status");
  const body = new FormData();
  let count = 0;
  for (const [name, file] of found) {
    if (!WANTED.test(name)) continue;
    body.append("files", file, name);
    count += 1;
  }
  if (!count) { status.textContent = "No assembly among these files."; return; }
  body.append("launches", $("launches").value);
  status.textContent = `Sending ${count} files…`;
  const answer = await fetch("/v1/partition", { method: "POST", body });
  const told = await answer.json();
  if (answer.ok) location.href = "/j/" + told.id;
  else status.textContent = `${told.title}: ${told.detail}`;
}

const zone = $("dropzone");
if (zone) {
  hover(zone);
  zone.addEventListener("drop", async (event) => {
    event.preventDefault();
    const entries = [...event.dataTransfer.items].map((i) => i.webkitGetAsEntry()).filter(Boolean);
    const found = [];
    for (const entry of entries) await walk(entry, "", found);
    await sweep(found);
  });
  $("partition").addEventListener("submit", (event) => {
    event.preventDefault();
    const found = [];
    for (const id of ["files", "folder"]) {
      for (const file of $(id).files) found.push([file.webkitRelativePath || file.name, file]);
    }
    sweep(found);
  });
}

// --- a sweep's progress ---

const progress = $("progress");
if (progress && progress.dataset.final === "0") {
  const id = progress.dataset.job;
  const source = new EventSource(`/v1/jobs/${id}/events`);
  source.addEventListener("progress", (event) => {
    const now = JSON.parse(event.data);
    $("state").textContent = now.state;
    $("done").textContent = now.done;
    $("bar").value = now.done;
    $("classes").textContent = `, ${now.classes} classes so far`;
  });
  source.addEventListener("end", () => { source.close(); location.reload(); });
  $("cancel").addEventListener("click", () => fetch(`/v1/jobs/${id}`, { method: "DELETE" }));
}

// --- filter classes ---

const filter = $("filter");
if (filter) {
  const rows = [...document.querySelectorAll("#classes-table tbody tr")];
  const basis = $("basis-filter");
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.dataset.text.toLowerCase();
      const tokens = new Set(text.split(/\s+/));
      const hit = words.every((w) => (w.includes("=") ? tokens.has(w) : text.includes(w)));
      row.hidden = !hit || (basis.value !== "" && row.dataset.basis !== basis.value);
      shown += row.hidden ? 0 : 1;
    }
    $("filter-count").textContent = `${shown} of ${rows.length} classes`;
  };
  filter.addEventListener("input", apply);
  basis.addEventListener("change", apply);
  apply();
}
