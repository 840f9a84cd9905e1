import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { piecesOf, plainOf } from "../content/ansi.js";
import { escapeInvisible } from "../content/seen.js";
import { CopyButton } from "../parts/copy.js";

/** Maximum characters that are shown until the user expands the output. */
const MAX_SHOWN_CHARACTERS = 12_000;

/** Output of a tool, with its terminal colours. With `grows`, it shows the end and scrolls along. */
export function Output({ text, grows = false }: { text: string; grows?: boolean }) {
  const all = useSignal(false);
  const place = useRef<HTMLPreElement>(null);
  const cut = !all.value && text.length > MAX_SHOWN_CHARACTERS;
  const shown = cut ? (grows ? text.slice(-MAX_SHOWN_CHARACTERS) : text.slice(0, MAX_SHOWN_CHARACTERS)) : text;
  const pieces = useMemo(() => piecesOf(shown), [shown]);
  useLayoutEffect(() => {
    if (grows && place.current) place.current.scrollTop = place.current.scrollHeight;
  }, [shown, grows]);
  return (
    <div class="output">
      <pre ref={place} tabIndex={0} aria-label="Output">
        {pieces.map((piece, index) => (
          <span key={index} class={piece.classes} style={piece.colour && { color: `var(--ansi-${piece.colour})` }}>
            {piece.text}
          </span>
        ))}
      </pre>
      <CopyButton text={() => escapeInvisible(plainOf(text))} label="Copy the output" />
      {cut && !grows && (
        <button type="button" class="output-more" onClick={() => (all.value = true)}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </div>
  );
}
