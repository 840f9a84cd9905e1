import { toLine } from "./printable-text.js";

const MAX_PROGRESS_CHARACTERS = 1_000;

/** Formats a progress notification as one line. */
export function formatProgress({
  progress,
  total,
  message,
}: {
  progress?: number;
  total?: number | undefined;
  message?: string | undefined;
}): string {
  const shareText =
    typeof progress === "number" ? (typeof total === "number" ? `${progress}/${total}` : String(progress)) : "";
  const messageText = toLine(message).slice(0, MAX_PROGRESS_CHARACTERS);
  return [shareText, messageText].filter((part) => part !== "").join(" ");
}
