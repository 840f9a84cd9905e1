import { CopyButton } from "../parts/copy.js";

/** Button that copies the text of a message as Markdown. It appears while the row has the pointer or the focus. */
export function CopyMessage({ text, label }: { text: string; label: string }) {
  return (
    <span class="row-copy">
      <CopyButton getText={() => text} label={label} />
    </span>
  );
}
