import { useSignal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { GantryClient } from "gantry/client";
import { useEffect, useMemo } from "preact/hooks";

const MAX_SUGGESTIONS = 8;
/** Pause in typing before the files are requested, in ms. */
const TYPING_PAUSE_MS = 80;
/** Matches an `@` with the characters of a path, before the caret. */
const TOKEN_PATTERN = /(?:^|[\s(])@([^\s@]{0,200})$/;

/** The part of a prompt that names a file: the text between `@` and the caret. */
interface PathToken {
  readonly query: string;
  /** Position of the `@`. */
  readonly start: number;
  readonly end: number;
}

function findToken(text: string, caret: number): PathToken | undefined {
  const [, query] = TOKEN_PATTERN.exec(text.slice(0, caret)) ?? [];
  return query === undefined ? undefined : { query, start: caret - query.length - 1, end: caret };
}

/** Paths of files that complete the `@` before the caret. */
export class PathSuggestions {
  readonly #paths: Signal<readonly string[]>;
  readonly #index: Signal<number>;
  readonly #token: PathToken | undefined;
  readonly #text: string;
  readonly #replaceText: (text: string, caret: number) => void;

  constructor(
    paths: Signal<readonly string[]>,
    index: Signal<number>,
    token: PathToken | undefined,
    text: string,
    replaceText: (text: string, caret: number) => void,
  ) {
    this.#paths = paths;
    this.#index = index;
    this.#token = token;
    this.#text = text;
    this.#replaceText = replaceText;
  }

  get paths(): readonly string[] {
    return this.#token ? this.#paths.value : [];
  }

  /** Index of the selected path; -1 if there are no paths. */
  get selectedIndex(): number {
    return Math.min(this.#index.value, this.paths.length - 1);
  }

  /** Handles a key of the list. Returns false for other keys. */
  handleKey({ key, shiftKey }: KeyboardEvent): boolean {
    const { paths, selectedIndex } = this;
    const path = paths[selectedIndex];
    if (path === undefined || shiftKey) return false;
    if (key === "ArrowDown" || key === "ArrowUp")
      this.#index.value = (selectedIndex + (key === "ArrowDown" ? 1 : paths.length - 1)) % paths.length;
    else if (key === "Tab" || key === "Enter") this.choose(path);
    else if (key === "Escape") this.#paths.value = [];
    else return false;
    return true;
  }

  /** Replaces the `@` and its characters with the path. */
  choose(path: string): void {
    if (!this.#token) return;
    const { start, end } = this.#token;
    const insertedText = `${/\s/.test(path) ? `"${path}"` : path} `;
    this.#paths.value = [];
    this.#replaceText(
      `${this.#text.slice(0, start)}${insertedText}${this.#text.slice(end)}`,
      start + insertedText.length,
    );
  }
}

/** Loads the files that match the `@` before the caret. */
export function usePathSuggestions(
  client: GantryClient,
  { text, caret }: { text: ReadonlySignal<string>; caret: ReadonlySignal<number> },
  { sessionId, projectDir }: { sessionId: string | undefined; projectDir: string },
  replaceText: (text: string, caret: number) => void,
): PathSuggestions {
  const paths = useSignal<readonly string[]>([]);
  const index = useSignal(0);
  const token = useMemo(() => findToken(text.value, caret.value), [text.value, caret.value]);
  useEffect(() => {
    index.value = 0;
    if (!token) {
      paths.value = [];
      return undefined;
    }
    const controller = new AbortController();
    const scope = sessionId === undefined ? (projectDir === "" ? {} : { projectDir }) : { sessionId };
    const timer = setTimeout(() => {
      client.files({ ...scope, query: token.query, limit: MAX_SUGGESTIONS }, { signal: controller.signal }).then(
        (foundPaths) => (paths.value = foundPaths),
        // Without files, the text stays as typed.
        () => undefined,
      );
    }, TYPING_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [token?.query, token?.start]);
  return new PathSuggestions(paths, index, token, text.value, replaceText);
}

/** The list of paths above the prompt. */
export function ComposerPaths({ suggestions }: { suggestions: PathSuggestions }) {
  const { paths, selectedIndex } = suggestions;
  if (paths.length === 0) return null;
  return (
    <ul class="composer-commands" role="listbox" aria-label="Files" id="composer-paths">
      {paths.map((path, index) => (
        <li
          key={path}
          id={`composer-path-${index}`}
          class="composer-command"
          role="option"
          aria-selected={index === selectedIndex}
          title={path}
          onMouseDown={(event) => {
            // Keeps the focus in the prompt.
            event.preventDefault();
            suggestions.choose(path);
          }}
        >
          <bdi class="clipped">{path}</bdi>
        </li>
      ))}
    </ul>
  );
}
