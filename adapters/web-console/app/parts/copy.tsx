import { useSignal } from "@preact/signals";
import { IconButton } from "./button.js";
import { copyToClipboard } from "./clipboard.js";

/** Time for which the button shows that the text was copied, in ms. */
const COPY_RESULT_MS = 1_500;

/** A button that copies the result of `getText`, which is called on click. */
export function CopyButton({ getText, label = "Copy" }: { getText: () => string; label?: string }) {
  const isCopied = useSignal(false);
  const copy = async () => {
    isCopied.value = await copyToClipboard(getText());
    setTimeout(() => (isCopied.value = false), COPY_RESULT_MS);
  };
  return (
    <IconButton
      class="copy"
      icon={isCopied.value ? "check" : "copy"}
      label={isCopied.value ? "Copied" : label}
      onClick={() => void copy()}
    />
  );
}
