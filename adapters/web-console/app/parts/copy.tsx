import { useSignal } from "@preact/signals";
import { IconButton } from "./button.js";
import { toClipboard } from "./clipboard.js";

/** A button that copies the result of `text`, which is called on click. */
export function CopyButton({ text, label = "Copy" }: { text: () => string; label?: string }) {
  const copied = useSignal(false);
  const copy = async () => {
    copied.value = await toClipboard(text());
    setTimeout(() => (copied.value = false), 1500);
  };
  return (
    <IconButton
      class="copy"
      icon={copied.value ? "check" : "copy"}
      label={copied.value ? "Copied" : label}
      onClick={() => void copy()}
    />
  );
}
