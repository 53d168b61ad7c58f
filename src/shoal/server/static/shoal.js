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
  const steps = card.querySelector(".steps"), source = new EventSource(card.dataset.events);
  let heard = false;
  source.onmessage = (event) => {
    if (!heard) { steps.replaceChildren(); heard = true; }
    const item = document.createElement("li");
    item.textContent = JSON.parse(event.data);
    steps.append(item);
  };
  source.addEventListener("end", () => { source.close(); location.reload(); });
  source.onopen = () => { heard = false; };
}

document.querySelectorAll("pre.copied").forEach(copyButton);
const card = document.getElementById("progress");
if (card) progress(card);
