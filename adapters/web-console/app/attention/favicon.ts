const SIZE = 64;
const ICON = `<rect width="${SIZE}" height="${SIZE}" rx="14" fill="#3a5bc7"/><path d="M14 20h36M20 20v28M44 20v28M32 20v12" stroke="#fff" stroke-width="6" stroke-linecap="round" fill="none"/>`;
const MAX_SHOWN_COUNT = 9;

/** Shows the page's icon, with the number of open questions if there are any. */
export function showFavicon(questionCount: number): void {
  const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  const text = questionCount > MAX_SHOWN_COUNT ? `${MAX_SHOWN_COUNT}+` : String(questionCount);
  const badge = `<circle cx="44" cy="44" r="20" fill="#b3261e"/><text x="44" y="54" text-anchor="middle" font-family="sans-serif" font-weight="700" font-size="28" fill="#fff">${text}</text>`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${SIZE} ${SIZE}">${ICON}${questionCount > 0 ? badge : ""}</svg>`;
  if (link) link.href = `data:image/svg+xml,${encodeURIComponent(svg)}`;
}
