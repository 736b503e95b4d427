// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Tables of an evaluation, as puffervec.contract.evaluation.Report.to_json gives them: a number with its interval is one cell.

// A cell as it stands in a table.
function cellText(row, column) {
    const value = row[column], ends = row[`${column}_95`], interval = ends && ends[0] !== null ? ends : null;
    if (value === null || value === undefined) return "-";
    if (typeof value !== "number") return String(value);
    const digits = (number) => (number === null ? "-" : Number.isInteger(number) && !interval ? shortly(number) : fixed(number));
    return interval ? `${digits(value)} [${digits(interval[0])}, ${digits(interval[1])}]` : digits(value);
}

// A cell's text, which breaks before an interval but not within it where the table is wide.
function cellWords(row, column) {
    const text = cellText(row, column), end = typeof row[column] === "number" ? text.indexOf("[") : -1;
    return end < 0 ? [text] : [text.slice(0, end), element("span", {class: "interval"}, text.slice(end))];
}

function fixed(number) {
    const size = Math.abs(number);
    return size >= 1000 ? shortly(Math.round(number)) : size >= 0.01 || size === 0 ? number.toFixed(2) : String(Number(number.toPrecision(2)));
}

const MOST_ROWS = 12;  // of a table that is shown whole from the start
const FIRST_ROWS = 10;

// A table whose heads sort it, the total above; of many rows the first ones until somebody asks for all. rows: objects. settings: {columns, total, sort: [column, falling], more: (row) => element or null}.
function table(rows, {columns, total = null, sort = null, more = null}) {
    let [by, falling] = sort || [null, false], short = rows.length > MOST_ROWS;
    const body = element("tbody"), isNumber = (column) => rows.some((row) => typeof row[column] === "number");
    const line = (row, settings) => {
        const cells = columns.map((column) => element("td", {class: isNumber(column) ? "number" : ""}, ...cellWords(row, column)));
        return element("tr", settings, ...cells, more ? element("td", {class: "act"}, settings.class ? "" : more(row) || "") : null);
    };
    const fill = () => {
        const sorted = by === null ? rows : [...rows].sort((a, b) => (falling ? -1 : 1) * compared(a[by], b[by]));
        const seen = short ? sorted.slice(0, FIRST_ROWS) : sorted;
        body.replaceChildren(...(total ? [line(total, {class: "total"})] : []), ...seen.map((row) => line(row, {})));
        if (short) body.append(element("tr", {}, element("td", {colspan: columns.length + Boolean(more)}, all)));
    };
    const all = button(`all ${rows.length}`, `show all ${rows.length} rows`, () => {
        short = false;
        fill();
    });
    const heads = columns.map((column) => {
        const turn = () => {
            [by, falling] = [column, by === column ? !falling : false];
            fill();
        };
        const made = element("button", {type: "button", title: `sort by ${column}`, onclick: turn}, column);
        return element("th", {class: isNumber(column) ? "number" : "", scope: "col"}, made);
    });
    fill();
    const head = element("thead", {}, element("tr", {}, ...heads, more ? element("th", {class: "act"}) : null));
    return element("div", {class: "wide"}, element("table", {}, head, body));
}

// What is not known comes last.
function compared(a, b) {
    const known = (value) => value !== null && value !== undefined;
    if (!known(a) || !known(b)) return known(b) - known(a);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

// All columns of rows but the intervals, which stand beside their number.
function columnsOf(rows) {
    return [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => !name.endsWith("_95"));
}

// The tables of a report, the parts with the lowest score first. more: (row whose first column is a part) => element or null.
function reportTables(report, more = null) {
    const columns = report.shown && report.shown.length ? report.shown : columnsOf(report.rows);
    const sort = report.score ? [report.score, false] : null, names = new Set(report.rows.map((row) => row[columns[0]]));
    const made = [table(report.rows, {columns, total: report.total, sort, more})];
    made.push(...(report.remarks || []).map((words) => element("p", {class: "soft"}, words)));
    for (const [name, rows] of Object.entries(report.tables || {})) {
        if (!rows.length || name === "agents") continue;
        const known = (report.columns && report.columns[name]) || columnsOf(rows);
        const ofPart = more && rows.some((row) => names.has(row[known[0]])) ? (row) => (names.has(row[known[0]]) ? more(row) : null) : null;
        const lines = table(rows, {columns: known, more: ofPart});
        made.push(element("details", {class: "further", open: name === "beside"}, element("summary", {}, `${name}: ${rows.length}`), lines));
    }
    return made;
}
