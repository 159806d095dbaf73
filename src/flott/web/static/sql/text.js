/**
 * SQL as text: tokens for colours, statements and the one under the cursor, the place that an error names. Pure.
 */

const WORDS = new Set(
  `ADD ALL ALTER ANALYZE AND ANY ARRAY AS ASC BEGIN BETWEEN BIGINT BINARY BOOLEAN BY BYTES CASE CAST CATALOG CATALOGS CHAR COLUMN COLUMNS COMMENT CONSTRAINT CREATE
   CROSS CURRENT DATABASE DATABASES DATE DECIMAL DESC DESCRIBE DESCRIPTOR DISTINCT DISTRIBUTED DOUBLE DROP ELSE END ENFORCED EXCEPT EXECUTE EXISTS EXPLAIN FALSE
   FETCH FIRST FLOAT FOLLOWING FOR FROM FULL FUNCTION FUNCTIONS GROUP GROUPING HAVING IF IN INNER INSERT INT INTEGER INTERSECT INTERVAL INTO IS JOB JOBS JOIN KEY
   LANGUAGE LAST LATERAL LEFT LIKE LIMIT LOAD MAP MULTISET MODULES NATURAL NOT NULL NULLS OF OFFSET ON OPTIONS OR ORDER OUTER OVER OVERWRITE PARTITION PARTITIONED PLAN PRECEDING
   PRIMARY PROCTIME PYTHON RANGE RENAME REPLACE RESET RIGHT ROLLUP ROW ROWS SELECT SET SETS SHOW SIMILAR SMALLINT SOME STATEMENT STRING SYSTEM_TIME TABLE TABLES TEMPORARY
   THEN TIME TIMESTAMP TIMESTAMP_LTZ TINYINT TO TRUE TRUNCATE UNBOUNDED UNION UNIQUE UNKNOWN UNNEST USE USING VALUES VARBINARY VARCHAR VIEW VIEWS WATERMARK WHEN WHERE
   WINDOW WITH WITHIN`.split(/\s+/),
);

const TOKEN = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$))|(`(?:[^`]|``)*(?:`|$)|"(?:[^"]|"")*(?:"|$))|(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|([\p{L}_][\p{L}\p{N}_]*)|(;)|(\s+)|([\s\S])/gu;
const KINDS = ["comment", "string", "name", "number", "word", "end", "space", "other"];

/** Return [{ kind, text, start }]; the texts joined are the text. Words that SQL reserves have the kind "keyword". */
export function tokens(text) {
  const found = [];
  for (const match of text.matchAll(TOKEN)) {
    const kind = KINDS[match.slice(1).findIndex((group) => group !== undefined)];
    found.push({ kind: kind === "word" && WORDS.has(match[0].toUpperCase()) ? "keyword" : kind, text: match[0], start: match.index });
  }
  return found;
}

/** Return [{ text, start, end }] of the statements of a text, without what is around them. A statement set is one. */
export function statements(text) {
  const found = [];
  let start = null;
  let end = 0;
  let words = [];
  let inSet = false;
  const close = () => {
    if (start !== null) found.push({ text: text.slice(start, end), start, end });
    start = null;
    words = [];
    inSet = false;
  };
  for (const token of tokens(text)) {
    if (token.kind === "end") {
      if (!inSet) close();
      continue;
    }
    if (token.kind === "space" || token.kind === "comment") continue;
    start ??= token.start;
    end = token.start + token.text.length;
    if (token.kind === "keyword" || token.kind === "word") {
      words = [...words, token.text.toUpperCase()].slice(-3);
      if (words.slice(-2).join(" ") === "STATEMENT SET") inSet = true;
      if (inSet && words.at(-1) === "END") inSet = false;
    }
  }
  close();
  return found;
}

/** Return the statement at an offset: the one around it or before it on the line, or else the next; null if none. */
export function statementAt(text, offset) {
  const all = statements(text);
  const around = all.find((one) => one.start <= offset && offset <= one.end);
  if (around !== undefined) return around;
  const before = all.findLast((one) => one.end < offset);
  if (before !== undefined && !text.slice(before.end, offset).includes("\n")) return before;
  return all.find((one) => one.start > offset) || before || null;
}

/** Return { start, end } in a statement of the place that an error names, or null. */
export function errorPlace(statement, message) {
  const match = /\(at line (\d+), column (\d+)\)/.exec(message);
  if (match === null) return null;
  const lines = statement.split("\n");
  const line = Number(match[1]) - 1;
  if (line >= lines.length) return null;
  const before = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
  // Columns count characters, offsets count UTF-16 units.
  const start = before + Array.from(lines[line]).slice(0, Number(match[2]) - 1).join("").length;
  const token = tokens(statement).find((one) => one.start <= start && start < one.start + one.text.length);
  return { start, end: Math.max(start + 1, token === undefined ? 0 : token.start + token.text.length) };
}

/** Return the sentence of an error without the line of text and the caret that are shown in the editor. */
export function sentenceOf(message) {
  return message.replace(/(\(at line \d+, column \d+\))\n[\s\S]*$/, "$1");
}

/** Return the part of a word before an offset. */
export function wordBefore(text, offset) {
  return /[\p{L}\p{N}_]*$/u.exec(text.slice(0, offset))[0];
}

/** Return whether a statement may hold a secret, so that it is not kept. */
export function holdsSecret(text) {
  return /password|secret|token|credential|api.?key|access.key|account.key|private.key|jaas|basic-auth/i.test(text);
}

/** Return the first word, in capitals. */
export function firstWord(text) {
  const found = tokens(text).find((token) => token.kind === "keyword" || token.kind === "word");
  return found === undefined ? "" : found.text.toUpperCase();
}

/** Return a name as SQL quotes it where it must. */
export function quoted(name) {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !WORDS.has(name.toUpperCase()) ? name : `\`${name.replaceAll("`", "``")}\``;
}
