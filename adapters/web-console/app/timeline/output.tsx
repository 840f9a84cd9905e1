import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { toStyledTexts, toPlainText } from "../content/ansi.js";
import { escapeInvisible } from "../content/escape.js";
import { CopyButton } from "../parts/copy.js";

/** Maximum characters that are shown until the user expands the output. */
const MAX_SHOWN_CHARACTERS = 12_000;

/** Output of a tool, with terminal colours. With `isStreaming`, shows the end of the output and scrolls along. */
export function Output({ text, isStreaming = false }: { text: string; isStreaming?: boolean }) {
  const showsAll = useSignal(false);
  const container = useRef<HTMLPreElement>(null);
  const isShortened = !showsAll.value && text.length > MAX_SHOWN_CHARACTERS;
  const shownText = isShortened
    ? isStreaming
      ? text.slice(-MAX_SHOWN_CHARACTERS)
      : text.slice(0, MAX_SHOWN_CHARACTERS)
    : text;
  const styledTexts = useMemo(() => toStyledTexts(shownText), [shownText]);
  useLayoutEffect(() => {
    if (isStreaming && container.current) container.current.scrollTop = container.current.scrollHeight;
  }, [shownText, isStreaming]);
  return (
    <div class="output">
      <pre ref={container} tabIndex={0} aria-label="Output">
        {styledTexts.map((styledText, index) => (
          <span
            key={index}
            class={styledText.classes}
            style={styledText.colour && { color: `var(--ansi-${styledText.colour})` }}
          >
            {styledText.text}
          </span>
        ))}
      </pre>
      <CopyButton getText={() => escapeInvisible(toPlainText(text))} label="Copy the output" />
      {isShortened && !isStreaming && (
        <button type="button" class="output-more" onClick={() => (showsAll.value = true)}>
          Show all {text.length.toLocaleString("en")} characters
        </button>
      )}
    </div>
  );
}
