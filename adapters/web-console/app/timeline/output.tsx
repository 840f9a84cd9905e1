import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { piecesOf, plainOf } from "../content/ansi.js";
import { seen } from "../content/seen.js";
import { CopyButton } from "../parts/copy.js";

/** Characters that are shown before somebody asks for the rest. */
const SHOWN = 12_000;

/** What a tool printed, in the colours that it chose. `grows`: the end is kept in sight. */
export function Output({ text, grows = false }: { text: string; grows?: boolean }) {
  const all = useSignal(false);
  const place = useRef<HTMLPreElement>(null);
  const cut = !all.value && text.length > SHOWN;
  const shown = cut ? (grows ? text.slice(-SHOWN) : text.slice(0, SHOWN)) : text;
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
      <CopyButton text={() => seen(plainOf(text))} label="Copy the output" />
      {cut && !grows && (
        <button type="button" class="output-more" onClick={() => (all.value = true)}>
          Show all {text.length.toLocaleString()} characters
        </button>
      )}
    </div>
  );
}
