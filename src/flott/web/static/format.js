/**
 * Numbers with units, and times in the viewer's zone. Pure functions of values to text; `now` is always a parameter.
 * What is not known (null, undefined, NaN, "NaN", negative times) becomes a dash.
 */

export const NONE = "–";

/** The first and last time there is: a watermark before the first record, and after the last. */
const LOWEST = -9223372036854775000;
const HIGHEST = 9223372036854775000;

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** 1234567 → 1,234,567 */
export function count(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en-US") : NONE;
}

/** 1234567 → 1.23 M */
export function short(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  if (size < 1000) return Number.isInteger(value) || size >= 100 ? String(Math.round(value)) : trim(value, size < 10 ? 2 : 1);
  for (const [limit, divisor, unit] of [[1e6, 1e3, "k"], [1e9, 1e6, "M"], [1e12, 1e9, "G"], [Infinity, 1e12, "T"]]) {
    if (size < limit * 0.9995) return `${trim(value / divisor, 3 - digits(value / divisor))} ${unit}`;
  }
  return NONE;
}

function digits(value) {
  return Math.min(3, Math.max(1, Math.floor(Math.log10(Math.abs(value))) + 1));
}

function trim(value, decimals) {
  const text = value.toFixed(Math.max(0, decimals));
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

/** 1234.5 → 1.23 k/s */
export function rate(value) {
  return isNumber(value) ? `${short(value)}/s` : NONE;
}

/** 2048 → 2 KiB */
export function bytes(value) {
  if (!isNumber(value) || value < 0) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(size) : trim(size, size < 10 ? 2 : size < 100 ? 1 : 0)} ${units[unit]}`;
}

/** 0.256 → 26 %, 0.004 → 0.4 % */
export function percent(value) {
  return isNumber(value) ? `${trim(value * 100, Math.abs(value) < 0.0995 ? 1 : 0)} %` : NONE;
}

/** Milliseconds → 850 ms, 12.3 s, 4 min 5 s, 3 h 20 min, 2 d 4 h */
export function duration(value) {
  if (!isNumber(value) || value < 0) return NONE;
  if (value < 1000) return `${value < 10 ? trim(value, 1) : Math.round(value)} ms`;
  if (value < 59950) return `${trim(value / 1000, 1)} s`;
  const seconds = Math.round(value / 1000);
  if (seconds < 3600) return pair(Math.floor(seconds / 60), "min", seconds % 60, "s");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1440) return pair(Math.floor(minutes / 60), "h", minutes % 60, "min");
  return pair(Math.floor(minutes / 1440), "d", Math.floor((minutes % 1440) / 60), "h");
}

/** The same with a sign: of lags and ages by two clocks, which may be negative. */
export function signedDuration(value) {
  return isNumber(value) && value < 0 ? `−${duration(-value)}` : duration(value);
}

function pair(large, largeUnit, small, smallUnit) {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

/**
 * A duration that changes every second: 0 s, 12 s, 4 min 05 s, 3 h 00 min, 2 d 04 h. Always two parts beyond a minute, with
 * two digits in the second, so that what stands beside it does not move.
 */
export function age(value) {
  if (!isNumber(value) || value < 0) return NONE;
  const seconds = Math.floor(value / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${twoDigits(seconds % 60)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${twoDigits(minutes % 60)} min`;
  return `${Math.floor(minutes / 1440)} d ${twoDigits(Math.floor((minutes % 1440) / 60))} h`;
}

function twoDigits(value) {
  return String(value).padStart(2, "0");
}

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const HOUR = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });

/** 2026-03-01 14:05:09, in the viewer's zone */
export function dateTime(value) {
  if (!isNumber(value) || value <= 0) return NONE;
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? NONE : `${DAY.format(date)} ${TIME.format(date)}`;
}

/** 14:05:09, in the viewer's zone */
export function clockTime(value) {
  return isNumber(value) && value > 0 ? TIME.format(new Date(value)) : NONE;
}

/** 14:05, in the viewer's zone */
export function hourTime(value) {
  return isNumber(value) && value > 0 ? HOUR.format(new Date(value)) : NONE;
}

/** 03-01, in the viewer's zone */
export function dayOfYear(value) {
  return isNumber(value) && value > 0 ? DAY.format(new Date(value)).slice(5) : NONE;
}

/** The viewer's zone, for the foot of the page. */
export function zone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
}

/** A watermark: a time, or before the first record, or after the last. */
export function watermark(value) {
  if (!isNumber(value)) return NONE;
  if (value <= LOWEST) return "none yet";
  if (value >= HIGHEST) return "end of input";
  return dateTime(value);
}

/** The same to the millisecond. */
export function exactWatermark(value) {
  return lagOf(value, 0) === null ? watermark(value) : `${dateTime(value)}.${String(Math.floor(value) % 1000).padStart(3, "0")}`;
}

/** How far a watermark is behind the clock; null if it is no time. */
export function lagOf(value, now) {
  return isNumber(value) && value > LOWEST && value < HIGHEST && value > 0 ? now - value : null;
}

export function lag(value, now) {
  const behind = lagOf(value, now);
  if (behind === null) return isNumber(value) && value >= HIGHEST ? "end of input" : NONE;
  return behind < 0 ? `${duration(-behind)} ahead` : age(behind);
}

export function shortId(id) {
  return String(id).slice(0, 8);
}

/**
 * What the value of a metric is, told from its name: an instant, a duration (in ms), a share of a second (ms in each), bytes,
 * bytes per second, a rate, or a number.
 */
export function unitOf(name) {
  if (/watermark$/i.test(name)) return "watermark";
  if (/timestamp$/i.test(name)) return "instant";
  if (/(TimeMsPerSecond|MsPerSecond)$/.test(name)) return "share";
  if (/PerSecond$/.test(name)) return /Bytes/.test(name) ? "bytes per second" : "rate";
  if (/(Bytes|Size|Used|Max|Committed)(In|Out|Total)?$/.test(name) || /^numBytes/.test(name)) return "bytes";
  return /(Ms|Duration|Latency|Lag|uptime|Time|downtime)$/.test(name) ? "duration" : "number";
}

const READINGS = {
  watermark,
  instant: (value) => (value > 1e11 ? dateTime(value) : plain(value)),
  share: (value) => `${short(value)} ms/s`,
  "bytes per second": (value) => `${bytes(value)}/s`,
  rate,
  bytes,
  duration: signedDuration,
  number: plain,
};

function plain(value) {
  return Math.abs(value) < 1e5 ? trim(value, 3) : short(value);
}

/** The value of a metric with the unit that its name tells. */
export function metric(name, value) {
  const number = Number(value);
  if (value === null || value === undefined || value === "" || !Number.isFinite(number)) return value == null ? NONE : String(value);
  return READINGS[unitOf(name)](number);
}

/**
 * Which numbers of the subtasks say something together: counts, rates and sizes add up; event time is that of the slowest
 * subtask; of all others, such as lags, shares and gauges of programs, the least, the mean and the largest.
 */
export function togetherOf(name) {
  const last = name.split(".").pop();
  if (unitOf(last) === "watermark") return ["min"];
  if (/^num[A-Z]/.test(last) || /(Count|Bytes|Total)$/.test(last)) return ["sum"];
  return ["min", "avg", "max"];
}
