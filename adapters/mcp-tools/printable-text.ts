/** Control characters, and what turns text around or shows nothing; no line feeds and tabs. */
const UNSEEN =
  // eslint-disable-next-line no-control-regex -- they are what is looked for
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u200B\u200E\u200F\u2028-\u202E\u2060-\u206F\uFEFF]|\p{Surrogate}|[\u{E0000}-\u{E007F}]/gu;

/** What a server says to people, or of itself, without what they could not see. */
export function plain(text: string): string {
  return text.replace(UNSEEN, "");
}

/** The same in a line. */
export function line(value: unknown): string {
  return typeof value === "string" ? plain(value.replace(/\s+/g, " ")).trim() : "";
}
