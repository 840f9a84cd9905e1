/**
 * Copies text to the clipboard. Returns false if the browser does not permit it. On plain HTTP, the clipboard API
 * exists only on loopback.
 */
export async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    // Deprecated, but the only fallback if the clipboard API is refused.
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
