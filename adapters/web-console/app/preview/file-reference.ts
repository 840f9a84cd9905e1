/** A file of the project, with the line to show. */
export interface FileReference {
  path: string;
  /** Counts from 1. */
  line?: number;
}

const MAX_PATH_CHARACTERS = 1_000;
/** Matches a path with a line: `a.ts:12`, `a.ts:12:5`, `a.ts:12-20`, `a.ts#L12`. */
const LINE_PATTERN = /^(.*?)(?::(\d{1,7})(?:[:-]\d+)?|#L(\d{1,7})(?:[C-].*)?)$/;
const SCHEME_PATTERN = /^[a-z][a-z\d+.-]*:/i;

/** Reads a path with an optional line. Undefined for a URL, a fragment, and a text that is no path. */
export function parseFileReference(text: string): FileReference | undefined {
  const [, pathText = text, lineAfterColon, lineAfterHash] = LINE_PATTERN.exec(text) ?? [];
  const path = pathText.replace(/^(?:\.\/)+/, "");
  if (path.length > MAX_PATH_CHARACTERS || !/^[^\s#?][^\n\r#?]*$/.test(path)) return undefined;
  if (path.startsWith("//") || SCHEME_PATTERN.test(path) || !/[./]/.test(path) || path.endsWith("/")) return undefined;
  const line = Number(lineAfterColon ?? lineAfterHash ?? 0);
  return line > 0 ? { path, line } : { path };
}

/** Reads the target of a Markdown link. */
export function parseLinkTarget(target: string): FileReference | undefined {
  try {
    return parseFileReference(decodeURIComponent(target));
  } catch {
    return undefined;
  }
}
