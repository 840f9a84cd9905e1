import { options } from "preact";
import { seen } from "./seen.js";

/** Attributes that browsers show or screen readers read. */
const READ = ["title", "aria-label", "alt", "placeholder"];

/**
 * Installs a hook that applies `seen` to every text that preact renders, so that no component can omit it.
 * `markdown.ts` does the same for HTML.
 */
export function showAsSeen(): void {
  const before = options.vnode;
  options.vnode = (vnode) => {
    // For text nodes, `props` is the text.
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
