/**
 * Copies text to the clipboard. Resolves with false if the browser does not permit copying. On plain HTTP, the
 * clipboard API exists only on loopback.
 */
export async function copyToClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const textArea = document.createElement("textarea");
    textArea.value = text;
    textArea.className = "visually-hidden";
    document.body.append(textArea);
    textArea.select();
    // `execCommand` is deprecated, but the only fallback if the clipboard API is refused.
    const isCopied = document.execCommand("copy");
    textArea.remove();
    return isCopied;
  }
}
