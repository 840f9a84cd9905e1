import { htmlToText } from "./html-text.js";

/** A body that was fetched, and which part of its text is wanted. */
export interface PageJob {
  body: Uint8Array;
  /** Whether it is HTML, to be shown as a person reads it. */
  html: boolean;
  /** What the text is encoded in; anything that is not known counts as UTF-8. */
  charset: string;
  /** Address that links are relative to. */
  url: string;
  /** First character, and most bytes of UTF-8. */
  offset: number;
  bytes: number;
}

export interface PageText {
  text: string;
  /** Characters of the whole text. */
  length: number;
  /** Whether there is nothing but white space in the whole. */
  blank: boolean;
  /** Whether the page had more text than is kept. */
  cut: boolean;
}

/** Text of a page, a part at a time. */
export async function pageText({ body, html, charset, url, offset, bytes }: PageJob): Promise<PageText> {
  let text = decoder(charset).decode(body);
  let cut = false;
  if (html) {
    const page = await htmlToText(text, url);
    cut = page.cut;
    text = page.title === "" || page.text.startsWith(`# ${page.title}`) ? page.text : `# ${page.title}\n\n${page.text}`;
  }
  return { text: part(text, offset, bytes), length: text.length, blank: !/\S/.test(text), cut };
}

/** As much as is wanted at once, ending at a line where one is near. */
function part(text: string, offset: number, bytes: number): string {
  let page = text.slice(offset, offset + bytes);
  while (Buffer.byteLength(page) > bytes)
    page = page.slice(0, Math.floor((page.length * bytes) / Buffer.byteLength(page)));
  if (offset + page.length === text.length) return page;
  const line = page.lastIndexOf("\n") + 1;
  return line > page.length / 2 ? page.slice(0, line) : page.replace(/[\uD800-\uDBFF]$/, "");
}

function decoder(charset: string): InstanceType<typeof TextDecoder> {
  try {
    return new TextDecoder(charset);
  } catch {
    return new TextDecoder();
  }
}
