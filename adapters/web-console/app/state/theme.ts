export type Theme = "dark" | "light";

const STORAGE_KEY = "gantry.theme";

/** The theme that the user chose in this browser, otherwise the theme of the system. */
export function readPreferredTheme(): Theme {
  const storedTheme = localStorage.getItem(STORAGE_KEY);
  if (storedTheme === "dark" || storedTheme === "light") return storedTheme;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function showTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
}

/** Shows a theme and stores it for later visits. */
export function storeTheme(theme: Theme): void {
  showTheme(theme);
  localStorage.setItem(STORAGE_KEY, theme);
}
