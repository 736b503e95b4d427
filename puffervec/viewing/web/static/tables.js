// SPDX-FileCopyrightText: 2026 the puffervec authors
// SPDX-License-Identifier: MIT
//
// Tables of an evaluation, as puffervec.contract.evaluation.Report.to_json writes it: a number and
// its interval share a cell.

// Return the text of a cell in a table.
function cellText(row, column) {
    const value = row[column],
        ends = row[`${column}_95`],
        interval = ends && ends[0] !== null ? ends : null;
    if (value === null || value === undefined) return "-";
    if (typeof value !== "number") return String(value);
    const digits = (number) =>
        number === null
            ? "-"
            : Number.isInteger(number) && !interval
              ? shortNumber(number)
              : fixed(number);
    return interval
        ? `${digits(value)} [${digits(interval[0])}, ${digits(interval[1])}]`
        : digits(value);
}

// Return a cell's text; a wide table may break lines before an interval, but not within it.
function cellWords(row, column) {
    const text = cellText(row, column),
        end = typeof row[column] === "number" ? text.indexOf("[") : -1;
    return end < 0
        ? [text]
        : [text.slice(0, end), element("span", {class: "interval"}, text.slice(end))];
}

function fixed(number) {
    const size = Math.abs(number);
    return size >= 1000
        ? shortNumber(Math.round(number))
        : size >= 0.01 || size === 0
          ? number.toFixed(2)
          : String(Number(number.toPrecision(2)));
}

const MOST_ROWS = 12; // Rows that a table shows at first; longer ones show them all on request.
const FIRST_ROWS = 10;

// Make a table that can be sorted by its heads, with the total on top; of many rows only the first
// ones are shown until the user asks for all. rows: objects. settings: {columns, total, sort:
// [column, falling], more: (row) => element or null}.
function table(rows, {columns, total = null, sort = null, more = null}) {
    let [by, falling] = sort || [null, false],
        short = rows.length > MOST_ROWS;
    const body = element("tbody"),
        isNumber = (column) => rows.some((row) => typeof row[column] === "number");
    const line = (row, settings) => {
        const cells = columns.map((column) =>
            element("td", {class: isNumber(column) ? "number" : ""}, ...cellWords(row, column)),
        );
        return element(
            "tr",
            settings,
            ...cells,
            more ? element("td", {class: "act"}, settings.class ? "" : more(row) || "") : null,
        );
    };
    const fill = () => {
        const sorted =
            by === null
                ? rows
                : [...rows].sort((a, b) => (falling ? -1 : 1) * compared(a[by], b[by]));
        const seen = short ? sorted.slice(0, FIRST_ROWS) : sorted;
        body.replaceChildren(
            ...(total ? [line(total, {class: "total"})] : []),
            ...seen.map((row) => line(row, {})),
        );
        if (short)
            body.append(
                element("tr", {}, element("td", {colspan: columns.length + Boolean(more)}, all)),
            );
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
        const node = element(
            "button",
            {type: "button", title: `sort by ${column}`, onclick: turn},
            column,
        );
        return element("th", {class: isNumber(column) ? "number" : "", scope: "col"}, node);
    });
    fill();
    const head = element(
        "thead",
        {},
        element("tr", {}, ...heads, more ? element("th", {class: "act"}) : null),
    );
    return element("div", {class: "wide"}, element("table", {}, head, body));
}

// Unknown values come last.
function compared(a, b) {
    const known = (value) => value !== null && value !== undefined;
    if (!known(a) || !known(b)) return known(b) - known(a);
    return typeof a === "number" && typeof b === "number"
        ? a - b
        : String(a).localeCompare(String(b));
}

// Return all columns of rows except intervals, which are shown next to their numbers.
function columnsOf(rows) {
    return [...new Set(rows.flatMap((row) => Object.keys(row)))].filter(
        (name) => !name.endsWith("_95"),
    );
}

// Make the tables of a report, the parts with the lowest score first. more: (row whose first column
// is a part) => element or null.
function reportTables(report, more = null) {
    const columns = report.shown?.length ? report.shown : columnsOf(report.rows);
    const sort = report.score ? [report.score, false] : null,
        names = new Set(report.rows.map((row) => row[columns[0]]));
    const node = [table(report.rows, {columns, total: report.total, sort, more})];
    node.push(...(report.remarks || []).map((words) => element("p", {class: "soft"}, words)));
    for (const [name, rows] of Object.entries(report.tables || {})) {
        if (!rows.length || name === "agents") continue;
        const known = report.columns?.[name] || columnsOf(rows);
        const ofPart =
            more && rows.some((row) => names.has(row[known[0]]))
                ? (row) => (names.has(row[known[0]]) ? more(row) : null)
                : null;
        const lines = table(rows, {columns: known, more: ofPart});
        node.push(
            element(
                "details",
                {class: "further", open: name === "comparison"},
                element("summary", {}, `${name}: ${rows.length}`),
                lines,
            ),
        );
    }
    return node;
}
