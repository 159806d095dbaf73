/**
 * The rows of a result: changes folded into the rows as they stand, and the last changes. Both are bounded. Pure.
 */

export const MAX_ROWS = 10000;
export const MAX_CHANGES = 1000;

const NUMBERS = new Set(["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"]);
const TIMES = new Set(["DATE", "TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE"]);

export class Rows {
  constructor(maxRows = MAX_ROWS, maxChanges = MAX_CHANGES) {
    this.maxRows = maxRows;
    this.maxChanges = maxChanges;
    this.byId = new Map(); // in the order of the result; an update stays in its place
    this.idsOf = new Map(); // text of a row → ids of equal rows
    this.changes = []; // [{ number, kind, fields }], the newest last
    this.count = 0; // changes that came
    this.cut = 0; // rows that were dropped because there are too many
    this.updates = false; // anything but insertions came
    this.freed = null; // the id of the row that an update has just taken back
    this.next = 0;
  }

  get size() {
    return this.byId.size;
  }

  /** Take in a page of changes: { kind, fields }. */
  take(page) {
    for (const { kind, fields } of page) {
      this.count += 1;
      this.changes.push({ number: this.count, kind, fields });
      if (kind !== "INSERT") this.updates = true;
      if (kind === "INSERT" || kind === "UPDATE_AFTER") this.add(fields, kind === "UPDATE_AFTER");
      else this.withdraw(fields, kind === "UPDATE_BEFORE");
    }
    if (this.changes.length > this.maxChanges) this.changes.splice(0, this.changes.length - this.maxChanges);
  }

  add(fields, isUpdate) {
    const text = JSON.stringify(fields);
    const id = isUpdate && this.freed !== null ? this.freed : this.next++;
    this.freed = null;
    this.byId.set(id, fields);
    const equal = this.idsOf.get(text);
    if (equal === undefined) this.idsOf.set(text, [id]);
    else equal.push(id);
    this.bound();
  }

  withdraw(fields, isUpdate) {
    this.releaseFreed();
    const text = JSON.stringify(fields);
    const equal = this.idsOf.get(text);
    if (equal === undefined) return; // it was among those that were dropped
    const id = equal.pop();
    if (equal.length === 0) this.idsOf.delete(text);
    if (isUpdate) this.freed = id;
    else this.byId.delete(id);
  }

  /** An update without its second half: the row is gone. */
  releaseFreed() {
    if (this.freed !== null) this.byId.delete(this.freed);
    this.freed = null;
  }

  bound() {
    while (this.byId.size > this.maxRows) {
      const [id, fields] = this.byId.entries().next().value;
      this.byId.delete(id);
      const text = JSON.stringify(fields);
      const left = (this.idsOf.get(text) || []).filter((one) => one !== id);
      if (left.length === 0) this.idsOf.delete(text);
      else this.idsOf.set(text, left);
      this.cut += 1;
    }
  }

  /** Return the rows as they stand. */
  all() {
    return [...this.byId].filter(([id]) => id !== this.freed).map(([, fields]) => fields);
  }
}

export function isNumeric(column) {
  return NUMBERS.has(column.logicalType.type);
}

export function isTime(column) {
  return TIMES.has(column.logicalType.type);
}

/** Return a type as SQL writes it, such as DECIMAL(10, 2). */
export function typeText(column) {
  const { type, precision, scale, length } = column.logicalType;
  if (type === "DECIMAL") return `DECIMAL(${precision}, ${scale})`;
  if (type === "VARCHAR" && length === 2147483647) return "STRING";
  if (type === "CHAR" || type === "VARCHAR") return `${type}(${length})`;
  if (type === "TIMESTAMP_WITHOUT_TIME_ZONE") return `TIMESTAMP(${precision})`;
  if (type === "TIMESTAMP_WITH_LOCAL_TIME_ZONE") return `TIMESTAMP_LTZ(${precision})`;
  return type === "INTEGER" ? "INT" : type.replaceAll("_", " ");
}

/** Return rows as CSV with a head. NULL is an empty field, an empty text is "". */
export function csv(columns, rows) {
  const field = (value) => {
    if (value === null) return "";
    return value === "" || /[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
  };
  return [columns.map((column) => column.name), ...rows].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
}

/** Return the points of a chart: { x, label, values } for each row that has them, cut to the last `limit`. */
export function chartPoints(columns, rows, x, ys, limit) {
  const places = ys.map((name) => columns.findIndex((column) => column.name === name));
  const at = columns.findIndex((column) => column.name === x);
  const of = (text) => (text === null ? null : Number(text));
  const place = at < 0 ? null : isNumeric(columns[at]) ? of : isTime(columns[at]) ? (text) => (text === null ? null : Date.parse(text.replace(" ", "T") + (text.length > 10 && !/Z$/.test(text) ? "Z" : ""))) : null;
  const points = rows.map((row, index) => ({
    x: place === null ? null : place(row[at]),
    label: at < 0 ? String(index + 1) : row[at] === null ? "NULL" : String(row[at]),
    values: places.map((one) => of(row[one])),
  }));
  const shown = points.slice(-limit);
  const ordered = shown.length > 0 && shown.every((point) => Number.isFinite(point.x));
  if (ordered) shown.sort((one, other) => one.x - other.x);
  return { points: shown, cut: points.length - shown.length, continuous: ordered };
}
