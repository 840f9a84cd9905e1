import { options } from "preact";
import { escapeInvisible } from "./escape.js";

/** Attributes that browsers show or screen readers read. */
const TEXT_ATTRIBUTES = ["title", "aria-label", "alt", "placeholder"];

/**
 * Installs a hook that shows invisible characters in every text that preact renders, so that no component can omit the
 * escaping. `markdown.ts` escapes HTML.
 */
export function installEscapeHook(): void {
  const previousHook = options.vnode;
  options.vnode = (vnode) => {
    // For text nodes, `props` is the text.
    const { type, props } = vnode as { type: unknown; props: unknown };
    if (type === null && typeof props === "string") Object.assign(vnode, { props: escapeInvisible(props) });
    else if (typeof type === "string" && typeof props === "object" && props !== null) {
      const attributes = props as Record<string, unknown>;
      for (const name of TEXT_ATTRIBUTES) {
        const value = attributes[name];
        if (typeof value === "string") attributes[name] = escapeInvisible(value);
      }
    }
    previousHook?.(vnode);
  };
}
