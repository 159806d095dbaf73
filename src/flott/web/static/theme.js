/**
 * Light or dark: what the system prefers, unless the viewer has chosen. The choice is kept in this browser.
 */

const KEY = "flott.theme";
const ORDER = ["system", "light", "dark"];

export function theme() {
  try {
    const kept = localStorage.getItem(KEY);
    return ORDER.includes(kept) ? kept : "system";
  } catch {
    return "system"; // storage is switched off
  }
}

/** Choose the next theme and return it. */
export function nextTheme() {
  const chosen = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length];
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // The choice then holds for this page only.
  }
  applyTheme(chosen);
  return chosen;
}

export function applyTheme(chosen = theme()) {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
}
