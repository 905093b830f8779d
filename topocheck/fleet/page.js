"use strict";
(() => {
  const rows = [...document.querySelectorAll("#grid tbody tr")];
  const heads = [...document.querySelectorAll("#grid thead th")].map((head) => head.textContent);
  const [name, check, severity, shown] = ["by-name", "by-check", "by-severity", "shown"].map((id) => document.getElementById(id));
  const wanted = { "": ["error", "warning", "info", ""], warning: ["error", "warning"], error: ["error"] };
  const show = () => {
    const part = name.value.trim().toLowerCase();
    const column = check.value ? heads.indexOf(check.value) : 0;
    let number = 0;
    for (const row of rows) {
      const worst = column ? row.cells[column].className : row.dataset.worst || "";
      const fits = wanted[severity.value].includes(worst) && !(column && !worst);
      const many = row.querySelector("details") !== null; // its names are folded: any node may be among them
      row.hidden = !fits || !(many || row.cells[0].textContent.toLowerCase().includes(part));
      number += !row.hidden;
    }
    shown.textContent = `${number} of ${rows.length} rows`;
  };
  document.getElementById("filters").hidden = false;
  name.addEventListener("input", show);
  check.addEventListener("change", show);
  severity.addEventListener("change", show);
  show();
})();
