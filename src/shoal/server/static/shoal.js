"use strict";
// Every page works without this file; it adds the price while typing, completion, and live progress.

function askPage(form) {
  const sql = form.elements.sql, epsilon = form.elements.epsilon, mode = form.elements.mode;
  const told = document.getElementById("cost"), list = document.getElementById("words");
  const said = told.textContent;
  const names = [...document.querySelectorAll(".word")].map((each) => each.dataset.word);
  const levels = [...document.querySelectorAll(".levels span")].map((each) => each.textContent);
  const keywords = ["SELECT", "COUNT(*)", "SUM(", "AVG(", "MIN(", "MAX(", "MEDIAN(", "QUANTILE(", "VAR_POP(", "FROM", "WHERE", "GROUP BY", "AND", "OR", "NOT", "IN (", "BETWEEN", "IS NULL"];
  let waiting = 0, asked = 0, chosen = 0;

  async function price() {
    if (!sql.value.trim()) { told.textContent = said; return; }
    const turn = ++asked;
    try {
      const response = await fetch(`/api/v1/datasets/${encodeURIComponent(form.dataset.dataset)}/cost`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-csrf-token": document.querySelector("meta[name=csrf]").content },
        body: JSON.stringify({ sql: sql.value, epsilon: Number(epsilon.value) || 0, mode: mode.value }),
      });
      const facts = await response.json();
      if (turn !== asked) return;
      if (!response.ok) { told.textContent = facts.error; return; }
      const scales = facts.parts.filter((part) => part.noise_scale).map((part) => Number(part.noise_scale.toPrecision(3)));
      const noise = scales.length ? ` Typical error: about ${scales[0]}.` : "";
      told.textContent = facts.epsilon === 0
        ? "You hold this answer already: asking again costs nothing."
        : `This costs ${facts.rho == null ? "epsilon" : "rho"} ${facts.rho ?? facts.epsilon}; you would have ${Number(Math.max(0, facts.remaining - (facts.rho ?? facts.epsilon)).toFixed(6))} left` +
          (facts.questions_left > 1 ? `, enough for about ${facts.questions_left} such questions.` : ".") +
          (facts.affordable ? (facts.parts.length === 1 ? noise.replace("Typical error", "Typical size of the noise") : "") : " Your budget does not allow it.");
    } catch { told.textContent = said; }
  }
  const later = () => { clearTimeout(waiting); waiting = setTimeout(price, 350); };

  function current() {
    const before = sql.value.slice(0, sql.selectionStart);
    const found = /[\p{L}_][\p{L}\p{N}_]*$/u.exec(before);
    return found ? found[0] : "";
  }
  function hide() { list.hidden = true; sql.removeAttribute("aria-activedescendant"); }
  function show() {
    const typed = current();
    const all = [...names.map((each) => [each, "column"]), ...levels.map((each) => [`'${each.replaceAll("'", "''")}'`, "level"]), ...keywords.map((each) => [each, ""])];
    const fits = typed.length < 1 ? [] : all.filter(([word]) => word.replace("'", "").toLowerCase().startsWith(typed.toLowerCase()) && word.toLowerCase() !== typed.toLowerCase()).slice(0, 6);
    list.replaceChildren(...fits.map(([word, kind], place) => {
      const item = document.createElement("li"), small = document.createElement("small");
      item.id = `word-${place}`; item.setAttribute("role", "option"); item.dataset.word = word; item.textContent = word;
      small.textContent = kind; item.append(small);
      item.addEventListener("mousedown", (event) => { event.preventDefault(); put(word); });
      return item;
    }));
    chosen = 0; list.hidden = fits.length === 0; mark();
  }
  function mark() {
    [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === chosen)));
    if (!list.hidden) sql.setAttribute("aria-activedescendant", `word-${chosen}`);
  }
  function put(word, replacing = current().length) {
    const at = sql.selectionStart;
    const quoted = sql.value.slice(0, at - replacing).endsWith("'") && word.startsWith("'");
    sql.setRangeText(quoted ? word.slice(1) : word, at - replacing, sql.selectionEnd, "end");
    hide(); sql.focus(); later();
  }
  sql.addEventListener("input", () => { show(); later(); });
  sql.addEventListener("blur", hide);
  sql.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") { event.preventDefault(); form.requestSubmit(); return; }
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : list.children.length - 1)) % list.children.length;
      event.preventDefault(); mark();
    } else if (event.key === "Tab" && !event.shiftKey) { event.preventDefault(); put(list.children[chosen].dataset.word); }
    else if (event.key === "Escape") { event.preventDefault(); hide(); }
  });
  epsilon.addEventListener("input", later);
  mode.addEventListener("change", later);
  document.querySelectorAll(".example").forEach((each) => each.addEventListener("click", () => { sql.value = each.dataset.sql; sql.focus(); later(); }));
  document.querySelectorAll(".word").forEach((each) => each.addEventListener("click", () => put(each.dataset.word, 0)));
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

const form = document.getElementById("ask"), card = document.getElementById("progress"), answer = document.getElementById("answer");
if (form) askPage(form);
if (card) progress(card);
if (answer) answer.scrollIntoView({ block: "nearest" });
