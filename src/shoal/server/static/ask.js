"use strict";
// The page works without this file; it adds completion at the caret, the price while typing, and fields that fit a column.

function later(work, wait = 350) {
  let waiting = 0;
  return () => { clearTimeout(waiting); waiting = setTimeout(work, wait); };
}

// The price of what a form asks, without asking it.
function priced(form, ready) {
  const told = form.querySelector(".price"), built = form.querySelector(".built");
  let turn = 0;
  async function price() {
    if (!ready()) { told.textContent = ""; if (built) built.hidden = true; return; }
    const mine = ++turn, fields = new URLSearchParams(new FormData(form));
    fields.set("do", "price");
    try {
      const response = await fetch(form.action, { method: "POST", headers: { accept: "application/json" }, body: fields });
      const facts = await response.json();
      if (mine !== turn) return;
      told.textContent = facts.sentence || facts.error || "";
      if (built) { built.textContent = facts.sql || ""; built.hidden = !facts.sql; }
    } catch { told.textContent = ""; }
  }
  const soon = later(price);
  form.addEventListener("input", soon);
  form.addEventListener("change", soon);
  return soon;
}

// Where the caret stands, measured in a copy of the box that nobody sees.
function caretPlace(box) {
  const copy = document.createElement("div"), mark = document.createElement("span"), look = getComputedStyle(box);
  for (const each of ["fontFamily", "fontSize", "fontWeight", "lineHeight", "letterSpacing", "paddingTop", "paddingLeft", "paddingRight", "borderTopWidth", "borderLeftWidth", "borderRightWidth", "boxSizing", "width"]) copy.style[each] = look[each];
  Object.assign(copy.style, { position: "absolute", visibility: "hidden", whiteSpace: "pre-wrap", overflowWrap: "break-word", left: "0", top: "0" });
  copy.textContent = box.value.slice(0, box.selectionStart);
  mark.textContent = "\u200b";
  copy.append(mark);
  box.parentNode.append(copy);
  const place = { left: mark.offsetLeft, top: mark.offsetTop + mark.offsetHeight - box.scrollTop };
  copy.remove();
  return place;
}

function completion(box, list, all, soon) {
  let chosen = -1;
  // What is being typed: within quotes a level or a name, else a word; and the column before it, whose levels come first.
  function current() {
    const before = box.value.slice(0, box.selectionStart);
    const text = /'(?:[^']|'')*$/.exec(before.replace(/'(?:[^']|'')*'(?!')/g, (each) => " ".repeat(each.length)));
    if (text) return { typed: text[0], kinds: ["level"], before: before.slice(0, before.length - text[0].length) };
    const name = /"[^"]*$/.exec(before.replace(/"[^"]*"/g, (each) => " ".repeat(each.length)));
    if (name) return { typed: name[0], kinds: ["column"], before: before.slice(0, before.length - name[0].length) };
    const word = /[\p{L}_][\p{L}\p{N}_]*$/u.exec(before);
    const typed = word ? word[0] : "";
    return { typed, kinds: null, before: before.slice(0, before.length - typed.length) };
  }
  const bare = (text) => text.replace(/^['"]/, "").toLowerCase();
  function columnBefore(text) {
    const found = /("(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_]*)\s*(?:=|<>|!=|<=|>=|<|>|(?:NOT\s+)?IN\s*\((?:[^()]*,)?)\s*$/iu.exec(text);
    return found ? found[1] : "";
  }
  function fitting() {
    const { typed, kinds, before } = current(), column = columnBefore(before);
    const after = Boolean(column) && typed === "" && /[=<>(,]\s*$/.test(before);
    if (!typed && !after) return [];
    const begins = bare(typed);
    const fits = all.filter((each) => (!kinds || kinds.includes(each.kind)) && bare(each.text).startsWith(begins) && each.text.toLowerCase() !== typed.toLowerCase()
      && (!after || (each.kind === "level" && each.owner === column)));
    const rank = (each) => (column && each.owner === column ? 0 : each.kind === "column" ? 1 : each.kind === "function" ? 2 : each.kind === "level" ? 3 : 4);
    return fits.map((each, place) => [each, place]).sort((a, b) => rank(a[0]) - rank(b[0]) || a[1] - b[1]).map(([each]) => each);
  }
  function hide() { list.hidden = true; chosen = -1; box.removeAttribute("aria-activedescendant"); }
  function show() {
    const fits = fitting();
    list.replaceChildren(...fits.map((each, place) => {
      const item = document.createElement("li"), small = document.createElement("small");
      item.id = `word-${place}`; item.setAttribute("role", "option"); item.setAttribute("aria-selected", "false");
      item.dataset.word = each.text; item.textContent = each.text;
      small.textContent = each.kind === "level" ? each.column : each.kind; item.append(" ", small);
      item.addEventListener("mousedown", (event) => { event.preventDefault(); put(each.text); });
      return item;
    }));
    chosen = -1;
    list.hidden = fits.length === 0;
    if (list.hidden) { box.removeAttribute("aria-activedescendant"); return; }
    const place = caretPlace(box);
    list.style.left = `${Math.max(0, Math.min(place.left, box.clientWidth - list.offsetWidth))}px`;
    list.style.top = `${place.top + 2}px`;
  }
  function mark() {
    [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === chosen)));
    box.setAttribute("aria-activedescendant", `word-${chosen}`);
    list.children[chosen].scrollIntoView({ block: "nearest" });
  }
  function put(word, replacing = current().typed.length) {
    const at = box.selectionStart;
    box.setRangeText(word, at - replacing, box.selectionEnd, "end");
    hide(); box.focus(); soon();
  }
  box.setAttribute("aria-autocomplete", "list");
  box.setAttribute("aria-controls", list.id);
  box.addEventListener("input", show);
  box.addEventListener("blur", hide);
  box.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") { event.preventDefault(); hide(); box.form.requestSubmit(box.form.querySelector("button[value=ask]")); return; }
    if ((event.ctrlKey || event.metaKey) && event.key === " ") { event.preventDefault(); show(); return; }
    if (list.hidden) return;
    const size = list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      chosen = event.key === "ArrowDown" ? (chosen + 1) % size : (chosen <= 0 ? size : chosen) - 1;
      event.preventDefault(); mark();
    } else if (event.key === "Enter" && chosen >= 0) { event.preventDefault(); put(list.children[chosen].dataset.word); }
    else if (event.key === "Escape") { event.preventDefault(); hide(); }
    else if (event.key === "Tab") hide(); // Tab only ever leaves the box
  });
  return put;
}

function builder(form, columns) {
  const soon = priced(form, () => true), of = form.elements.of, known = new Map(columns.map((each) => [each.name, each]));
  const lines = [...form.querySelectorAll(".condition")];
  function figure() {
    const counts = form.elements.figure.value === "count";
    if (of) { of.disabled = counts; if (!counts && !of.value && of.options.length > 1) of.selectedIndex = 1; }
  }
  function field(line) {
    const [column, operator] = line.querySelectorAll("select"), old = line.querySelector("[name^=value]"), facts = known.get(column.value);
    const wants = !facts || ["null", "known"].includes(operator.value) ? "none" : facts.kind === "boolean" ? "levels" : facts.levels.length ? (operator.value === "in" ? "several" : "levels") : "text";
    if (line.dataset.wants === `${wants} ${column.value}`) return;
    line.dataset.wants = `${wants} ${column.value}`;
    const made = document.createElement(wants === "levels" || wants === "several" ? "select" : "input"), had = old.value.split(" | ");
    made.name = old.name; made.setAttribute("aria-label", old.getAttribute("aria-label"));
    if (made.tagName === "SELECT") {
      made.multiple = wants === "several";
      if (made.multiple) made.size = Math.min(6, Math.max(3, facts.levels.length));
      for (const level of facts.kind === "boolean" ? ["true", "false"] : facts.levels) made.add(new Option(level, level, false, had.includes(level)));
    } else {
      made.autocomplete = "off"; made.value = wants === "text" ? old.value : "";
      if (facts && facts.kind === "number" && operator.value !== "in") made.inputMode = "decimal";
      made.hidden = wants === "none";
    }
    old.replaceWith(made);
  }
  function shown() {
    const used = lines.filter((line) => line.querySelector("select").value).length;
    lines.forEach((line, place) => { line.hidden = place > used; line.querySelectorAll("select")[1].hidden = !line.querySelector("select").value; field(line); });
    form.querySelectorAll(".no-script").forEach((each) => { each.hidden = true; });
  }
  form.addEventListener("change", () => { figure(); shown(); });
  figure(); shown(); soon();
}

async function askPage(form) {
  const box = form.elements.sql, soon = priced(form, () => box.value.trim() !== "");
  const response = await fetch(`/ask/${encodeURIComponent(form.dataset.dataset)}/words`);
  if (!response.ok) return;
  const facts = await response.json();
  const put = completion(box, document.getElementById("words"), facts.words, soon);
  form.querySelector(".keys").hidden = false;
  const open = () => { form.closest("details").open = true; };
  document.querySelectorAll(".example").forEach((each) => each.addEventListener("click", () => { open(); box.value = each.dataset.sql; box.focus(); soon(); }));
  document.querySelectorAll(".word").forEach((each) => each.addEventListener("click", () => { open(); put(each.dataset.word, 0); }));
  const made = document.getElementById("build");
  if (made) builder(made, facts.columns);
  if (box.value.trim()) soon();
  document.body.dataset.ready = "ask";
}

const ask = document.getElementById("ask"), answered = document.getElementById("answer");
if (ask) askPage(ask);
if (answered) answered.scrollIntoView({ block: "nearest" });
