// Tables that can be browsed: a field that filters the rows, a list for each column of few values, heads that sort.
const FEW = 20;

function browse(box) {
  const table = box.querySelector("table");
  const heads = [...table.querySelectorAll("th")];
  const rows = [...table.tBodies[0].rows];
  const cell = (row, column) => row.cells[column].textContent.trim();
  const tools = document.createElement("div");
  tools.className = "tools";
  const field = Object.assign(document.createElement("input"), { type: "search", placeholder: "Filter" });
  const count = Object.assign(document.createElement("span"), { className: "count" });
  tools.append(field);
  const lists = heads.flatMap((head, column) => {
    const values = [...new Set(rows.map((row) => cell(row, column)))];
    const texts = values.some((value) => Number.isNaN(Number(value)));
    if (!texts || values.length < 2 || values.length > FEW || values.length * 2 > rows.length) return [];
    const list = document.createElement("select");
    list.setAttribute("aria-label", head.textContent);
    list.append(new Option(`every ${head.textContent}`, ""), ...values.map((value) => new Option(value)));
    tools.append(list);
    return [{ list, column }];
  });
  tools.append(count);
  box.prepend(tools);

  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const chosen = lists.every(({ list, column }) => !list.value || cell(row, column) === list.value);
      row.hidden = !(chosen && words.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    count.textContent = `${shown} of ${rows.length}`;
  };
  tools.addEventListener("input", filter);

  heads.forEach((head, column) => head.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const compare = (a, b) => cell(a, column).localeCompare(cell(b, column), "en", { numeric: true });
    rows.sort((a, b) => (down ? compare(b, a) : compare(a, b)));
    table.tBodies[0].append(...rows);
  }));
  filter();
}

document.querySelectorAll(".browsable").forEach(browse);
