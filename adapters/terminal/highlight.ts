import { span, type Line, type Span, type SpanStyle } from "./spans.js";

/** The functions of highlight.js that this module calls. The types of the package require those of browsers. */
interface HighlightJs {
  getLanguage(name: string): object | undefined;
  highlight(code: string, options: { language: string; ignoreIllegals: boolean }): { value: string };
  registerLanguage(name: string, language: unknown): void;
  registerAliases(aliases: readonly string[], options: { languageName: string }): void;
}

/** Returns the coloured lines of the code; undefined if the language is unknown. */
export type HighlightCode = (code: string, language: string) => Line[] | undefined;

/** Styles by the scopes of the highlighter. Other scopes have the style of the scope that contains them. */
const STYLES: Readonly<Record<string, SpanStyle>> = {
  ...{ comment: "dim", quote: "dim", keyword: "keyword", meta: "keyword", name: "keyword", "selector-tag": "keyword" },
  ...{ string: "good", regexp: "good", symbol: "good", addition: "good", deletion: "bad", subst: "plain" },
  ...{ number: "accent", literal: "accent", attr: "accent", attribute: "accent", built_in: "accent", type: "accent" },
  ...{ title: "bold", section: "bold", strong: "bold", emphasis: "italic" },
};
const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };

/**
 * Loads the highlighter and its common languages. Rejects in an embedding without the optional package `highlight.js`;
 * the build of the command contains it.
 */
export async function loadHighlighter(): Promise<HighlightCode> {
  // `as string`: the compiler would load the types of browsers for the whole project.
  const [{ default: hljs }, { default: dockerfile }] = await Promise.all([
    import("highlight.js/lib/common" as string) as Promise<{ default: HighlightJs }>,
    import("highlight.js/lib/languages/dockerfile" as string) as Promise<{ default: unknown }>,
  ]);
  hljs.registerLanguage("dockerfile", dockerfile);
  hljs.registerAliases(["jsonc", "json5"], { languageName: "json" });
  hljs.registerAliases(["console"], { languageName: "shell" });
  return (code, language) =>
    hljs.getLanguage(language) && readLines(hljs.highlight(code, { language, ignoreIllegals: true }).value);
}

/** Reads the lines of the highlighter's HTML. */
function readLines(html: string): Line[] {
  let line: Span[] = [];
  const lines = [line];
  /** Styles of the open elements, the innermost last. */
  const styles: SpanStyle[] = [];
  for (const [token, className] of html.matchAll(/<span class="([^"]*)">|<\/span>|[^<]+/g)) {
    const style = styles.at(-1) ?? "plain";
    if (className !== undefined) styles.push(STYLES[/^hljs-([\w-]+)/.exec(className)?.[1] ?? ""] ?? style);
    else if (token === "</span>") styles.pop();
    else
      for (const [i, text] of decodeEntities(token).split("\n").entries()) {
        if (i > 0) lines.push((line = []));
        if (text !== "") line.push(span(text, style));
      }
  }
  return lines;
}

function decodeEntities(html: string): string {
  return html.replace(/&(amp|lt|gt|quot|#x27);/g, (entity, name: string) => ENTITIES[name] ?? entity);
}
