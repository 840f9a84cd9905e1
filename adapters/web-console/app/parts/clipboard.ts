/** Put text on the clipboard; false where that is not allowed. A page of plain HTTP beyond loopback has no clipboard of its own. */
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
    // The only way there is where the other is refused.
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
