// Tables as CSV, written as Python's read_decisions reads them; read also as a spreadsheet may have saved them.
const QUOTED = /[",;\t\r\n]|^\s|\s$/;

const writeCsv = (rows) => rows.map((cells) => cells.map(String)
  .map((cell) => (QUOTED.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(",")).join("\r\n") + "\r\n";

// The rows of a file as objects by the names of its first row, with their lines; blank rows are left out.
function readCsv(text) {
  const head = text.replace(/^\uFEFF/, "");
  const first = head.split(/\r?\n/, 1)[0];
  const separator = [",", ";", "\t"].sort((a, b) => first.split(b).length - first.split(a).length)[0];
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|([^${separator}\\r\\n]*))(${separator}|\\r\\n|\\r|\\n|$)`, "y");
  const rows = [[]];
  while (cell.lastIndex < head.length) {
    const match = cell.exec(head);
    if (!match) throw new Error("has a quotation mark that does not end");
    rows.at(-1).push(match[1] === undefined ? match[2] : match[1].replaceAll('""', '"'));
    if (match[3] !== separator) rows.push([]);
  }
  const [names, ...body] = rows;
  return { names, rows: body.map((cells, row) => ({ line: row + 2, cells }))
    .filter(({ cells }) => cells.some((one) => one))
    .map(({ line, cells }) => ({ line, ...Object.fromEntries(names.map((name, place) => [name.trim(), cells[place] ?? ""])) })) };
}
