#include "report/page.h"

namespace planish::report::page {

std::string style() {
  return R"css(
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5f6b7a; --rule: #d9dee5; --paper: #ffffff; --panel: #f5f7f9;
  --ours: #0a6cbd; --other: #9aa7b5; --fail: #b3261e; --best: #0a6cbd; --full: #12805c; --heat-ink: #0a6cbd; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #a0abb8; --rule: #353d48; --paper: #14181d;
  --panel: #1c2127; --ours: #5aa9e6; --other: #66717e; --fail: #ef8a82; --best: #5aa9e6; --full: #4fc39a; --heat-ink: #2b6ea6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1100px; padding: 1rem; font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
a { color: var(--ours); } h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; border-bottom: 1px solid var(--rule); padding-bottom: .2rem; margin-top: 2rem; }
h3 { font-size: 1.05rem; } h4 { font-size: .9rem; margin: 1rem 0 .3rem; color: var(--soft); }
svg { width: 100%; max-width: 760px; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); } svg .name { fill: var(--ink); }
.chart { overflow-x: auto; } @media (max-width: 760px) { .chart svg { width: 680px; } }
.grid { stroke: var(--rule); stroke-width: 1; } .line { fill: none; stroke-width: 2; } .line.best { stroke: var(--best); }
.line.roof { stroke: var(--ink); } .level { stroke: var(--soft); stroke-dasharray: 4 4; }
.dot { fill: var(--best); fill-opacity: .55; cursor: pointer; } .dot.failed { fill: var(--fail); } .dot.aten { fill: var(--other); }
.dot.full { fill: var(--full); fill-opacity: .9; } .dot.picked { stroke: var(--ink); stroke-width: 2; fill-opacity: 1; }
.conclusion { font-size: 1.15rem; }
.bars { display: grid; gap: .45rem; margin: .6rem 0; font-size: .9rem; } .bars .row { display: grid; grid-template-columns: minmax(0, 17rem) minmax(0, 1fr); gap: 0 .8rem; align-items: center; }
.bars .name { overflow-wrap: anywhere; } .bars .track { position: relative; height: 1rem; background: var(--panel); }
.bars .bar { position: absolute; inset: 0 auto 0 0; background: var(--other); } .bars .bar.ours { background: var(--ours); }
.bars .whisker { position: absolute; top: 25%; bottom: 25%; border: solid var(--ink); border-width: 0 1px; background: linear-gradient(var(--ink), var(--ink)) center / 100% 1px no-repeat; }
.bars .note { grid-column: 2; color: var(--soft); font-size: .82rem; }
@media (max-width: 600px) { .bars .row { grid-template-columns: minmax(0, 1fr); } .bars .note { grid-column: 1; }
  .facts, .facts tbody, .facts tr, .facts th, .facts td { display: block; } .facts th { border: 0; padding-bottom: 0; white-space: normal; } .facts td { padding-top: 0; } }
.scroll { overflow: auto; max-height: 34rem; } table { border-collapse: collapse; font-size: .86rem; margin: .4rem 0; }
caption { text-align: left; color: var(--soft); padding: .2rem 0; } @media (min-width: 601px) { caption { white-space: nowrap; } }
th, td { padding: .2rem .5rem; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; white-space: nowrap; }
.facts td { white-space: normal; overflow-wrap: anywhere; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
.sortable thead th { position: sticky; top: 0; background: var(--paper); cursor: pointer; } .sortable tr.failed { color: var(--soft); }
.sortable th[aria-sort=ascending]::after { content: " ↑"; } .sortable th[aria-sort=descending]::after { content: " ↓"; }
.sortable tbody tr { cursor: pointer; } .sortable tr.picked { background: var(--panel); outline: 2px solid var(--ours); outline-offset: -2px; }
.heat td { text-align: right; background: color-mix(in srgb, var(--heat-ink) calc(var(--heat, 0) * 70%), transparent); } .heat .none { background: none; }
.heat td[data-pick] { cursor: pointer; } .heat .picked { outline: 2px solid var(--ink); outline-offset: -2px; }
.heat th[scope=col] { white-space: normal; min-width: 5.2rem; font-weight: normal; color: var(--soft); }
.line.by { stroke: var(--rule); stroke-width: 1.2; } .legend { list-style: none; padding: 0; margin: .3rem 0; font-size: .86rem; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; }
.legend li::before { content: ""; display: inline-block; width: 1.2em; height: 3px; margin-right: .4em; vertical-align: middle; background: var(--by, var(--rule)); }
.by0 { --by: #0a6cbd; } .by1 { --by: #c2571a; } .by2 { --by: #12805c; } .by3 { --by: #8a4fbf; } .by4 { --by: #b3261e; } .by5 { --by: #7a7215; } .line[class*="by"]:not(.by) { stroke: var(--by); }
@media (prefers-color-scheme: dark) { .by0 { --by: #5aa9e6; } .by1 { --by: #f0975f; } .by2 { --by: #4fc39a; } .by3 { --by: #c39aec; } .by4 { --by: #ef8a82; } .by5 { --by: #d3c94f; } }
#details { position: fixed; z-index: 2; right: 0; bottom: 0; left: 0; max-height: 55vh; overflow: auto; overflow-wrap: anywhere; background: var(--panel);
  padding: .8rem max(1rem, calc(50vw - 550px)); border-top: 2px solid var(--ours); } #details h3 { margin: 0 0 .4rem; } #details td { white-space: normal; }
#details button { position: sticky; top: 0; float: right; font: inherit; } body:has(#details:not([hidden])) { padding-bottom: 57vh; }
pre { overflow: auto; max-height: 40rem; font-size: .8rem; }
code { font-size: .82rem; } .diff .added { color: var(--full); } .diff .gone { color: var(--fail); } .diff .cut, small, footer { color: var(--soft); }
)css";
}

std::string script() {
  // Text goes in through textContent alone.
  return R"js(
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const details = document.getElementById("details");
  function add(parent, tag, text) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    parent.appendChild(element);
    return element;
  }
  function table(parent, rows) {
    const body = add(add(parent, "table"), "tbody");
    for (const row of rows) {
      const line = add(body, "tr");
      for (const cell of row) add(line, "td", cell);
    }
  }
  function pick(n) {
    const c = data.candidates[n];
    if (!c) return;
    for (const old of document.querySelectorAll(".picked")) old.classList.remove("picked");
    for (const now of document.querySelectorAll('[data-pick="' + n + '"]')) now.classList.add("picked");
    details.hidden = false;
    details.textContent = "";
    const close = add(details, "button", "Close");
    close.addEventListener("click", function () { details.hidden = true; });
    add(details, "h3", "#" + n + " " + c.program.slice(0, 16));
    table(details, c.facts);
    if (c.parent) add(details, "p", "parent " + c.parent.slice(0, 16));
    if (c.message) add(details, "p", c.message);
    add(details, "pre", c.verdict);
    if (c.tests.length) {
      table(details, [["regime", "seed", "passed", "error", "gate", "eager"]].concat(
        c.tests.map(t => [t.regime, t.seed, t.ok ? "yes" : "no: " + t.problem, t.fro, t.gate, t.eager])));
    }
    if (c.log) add(details, "pre", c.log);
    add(details, "pre", c.source >= 0 ? data.sources[c.source] : "(no kernel source)");
    details.scrollTop = 0;
  }
  document.addEventListener("click", function (event) {
    const at = event.target.closest("[data-pick]");
    if (at) pick(Number(at.dataset.pick));
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") details.hidden = true;
    if (event.key === "Enter" && event.target.dataset && event.target.dataset.pick) pick(Number(event.target.dataset.pick));
  });
  // An address that names a candidate shows it.
  if (/^#c[0-9]+$/.test(location.hash)) pick(Number(location.hash.slice(2)));
  for (const sorted of document.querySelectorAll("table.sortable")) {
    const body = sorted.tBodies[0];
    sorted.tHead.addEventListener("click", function (event) {
      const head = event.target.closest("th");
      if (!head) return;
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const column = head.cellIndex;
      const key = row => row.cells[column].dataset.v === undefined ? null : Number(row.cells[column].dataset.v);
      const numeric = Array.from(body.rows).some(row => key(row) !== null);
      const rows = Array.from(body.rows);
      rows.sort(function (a, b) {
        if (!numeric) {
          const order = a.cells[column].textContent.localeCompare(b.cells[column].textContent);
          return down ? -order : order;
        }
        const x = key(a), y = key(b);
        if (x === null || y === null) return (x === null) - (y === null);
        return down ? y - x : x - y;
      });
      for (const row of rows) body.appendChild(row);
    });
  }
})();
)js";
}

}  // namespace planish::report::page
