"use strict";
(() => {
  const section = document.getElementById("what-if");
  if (!section) return;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const boxes = [...section.querySelectorAll("input[type=checkbox]")];
  const show = () => {
    const choice = boxes.reduce((sum, box, place) => sum + (box.checked ? 1 << place : 0), 0);
    section.querySelectorAll("output").forEach((output, place) => {
      const before = figures[place][0];
      const after = figures[place][choice];
      const change = before > 0 && after !== before ? ` (${after > before ? "+" : "−"}${Math.abs(Math.round((after / before - 1) * 100))} %)` : "";
      output.textContent = `${after.toFixed(1)} GB/s${change}`;
    });
  };
  section.querySelector("fieldset").hidden = false;
  boxes.forEach((box) => box.addEventListener("change", show));
  show();
})();
