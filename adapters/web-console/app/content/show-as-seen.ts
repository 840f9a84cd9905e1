import { options } from "preact";
import { seen } from "./seen.js";

/** Attributes that somebody reads, or has read to them. */
const READ = ["title", "aria-label", "alt", "placeholder"];

/**
 * From now on every text that preact draws is drawn as `seen`, whatever component it is of: none can forget it. What comes
 * in as HTML does the same in `markdown.ts`.
 */
export function showAsSeen(): void {
  const before = options.vnode;
  options.vnode = (vnode) => {
    // Of a text, by its type, the properties are the text.
    const { type, props } = vnode as { type: unknown; props: unknown };
    if (type === null && typeof props === "string") Object.assign(vnode, { props: seen(props) });
    else if (typeof type === "string" && typeof props === "object" && props !== null) {
      const attributes = props as Record<string, unknown>;
      for (const name of READ) {
        const value = attributes[name];
        if (typeof value === "string") attributes[name] = seen(value);
      }
    }
    before?.(vnode);
  };
}
