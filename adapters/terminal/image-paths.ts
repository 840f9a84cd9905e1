import { stat } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Maximum size of an attached file, in bytes. */
const MAX_IMAGE_BYTES = 20 * 1024 * 1024;
const MAX_IMAGES = 20;
/** A word, or a quoted text between spaces. A backslash escapes a space, as terminals insert dropped files. */
const WORDS = /(?<=^|\s)(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\])+))(?=\s|$)/g;
const IMAGE_NAME = /\.(?:png|jpe?g|gif|webp)$/i;

/** Returns the images that a prompt names with an absolute path, with `~/` or as a `file:` URL, if they exist. */
export async function findImages(text: string): Promise<string[]> {
  const paths = new Set<string>();
  for (const [, doubleQuoted, singleQuoted, word = ""] of text.matchAll(WORDS)) {
    const path = toPath(doubleQuoted ?? singleQuoted ?? unescapeWord(word));
    if (path !== undefined && IMAGE_NAME.test(path) && paths.size < MAX_IMAGES) paths.add(path);
  }
  const images: string[] = [];
  for (const path of paths) {
    const file = await stat(path).catch(() => undefined);
    if (file?.isFile() && file.size > 0 && file.size <= MAX_IMAGE_BYTES) images.push(path);
  }
  return images;
}

function unescapeWord(word: string): string {
  const path = word.replace(/[.,;:!?)]+$/, "");
  return process.platform === "win32" ? path : path.replace(/\\(.)/g, "$1");
}

/** Returns an absolute path; undefined for other words. */
function toPath(word: string): string | undefined {
  if (word.startsWith("~/")) return join(homedir(), word.slice(2));
  if (!word.startsWith("file:///")) return isAbsolute(word) ? word : undefined;
  try {
    return fileURLToPath(word);
  } catch {
    return undefined;
  }
}
