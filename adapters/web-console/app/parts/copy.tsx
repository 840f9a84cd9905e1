import { useSignal } from "@preact/signals";
import { IconButton } from "./button.js";
import { copyToClipboard } from "./clipboard.js";

/** A button that copies the result of `getText`, which is called on click. */
export function CopyButton({ getText, label = "Copy" }: { getText: () => string; label?: string }) {
  const isCopied = useSignal(false);
  const copy = async () => {
    isCopied.value = await copyToClipboard(getText());
    setTimeout(() => (isCopied.value = false), 1500);
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
