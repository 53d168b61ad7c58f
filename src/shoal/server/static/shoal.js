"use strict";
// Every page works without this file; it adds buttons that copy, and live progress.

function copyButton(text) {
  const button = document.createElement("button");
  button.type = "button"; button.className = "plain copy"; button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text.textContent); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(text); button.textContent = "Selected"; }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  text.before(button);
}

function progress(card) {
  const list = card.querySelector(".steps"), bar = card.querySelector("progress"), source = new EventSource(card.dataset.events);
  let items = new Map();
  source.onmessage = (event) => {
    const [stage, share] = JSON.parse(event.data);
    if (!items.size) list.replaceChildren();
    if (!items.has(stage)) { const item = document.createElement("li"); items.set(stage, item); list.append(item); }
    items.get(stage).textContent = share === null ? stage : `${stage}, ${Math.round(100 * share)} %`;
    if (share === null) bar.removeAttribute("value"); else bar.value = share;
  };
  source.addEventListener("end", () => { source.close(); location.reload(); });
  source.onopen = () => { items = new Map(); };
}

document.querySelectorAll("pre.copied").forEach(copyButton);
const card = document.getElementById("progress");
if (card) progress(card);
