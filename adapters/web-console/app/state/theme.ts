export type Theme = "dark" | "light";

const KEPT = "gantry.theme";

/** What was chosen here before, else what the system has. */
export function preferredTheme(): Theme {
  const kept = localStorage.getItem(KEPT);
  if (kept === "dark" || kept === "light") return kept;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Draw the page so. */
export function showTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
}

/** Draw the page so from now on, also when it comes again. */
export function keepTheme(theme: Theme): void {
  showTheme(theme);
  localStorage.setItem(KEPT, theme);
}
