import { htmlToText } from "./html-text.js";

/** A fetched response body, and the requested part of its text. */
export interface PageJob {
  body: Uint8Array;
  /** Whether the body is HTML and must be converted to readable text. */
  isHtml: boolean;
  /** Encoding of the text. An unknown name counts as UTF-8. */
  charset: string;
  /** Base address of relative links. */
  url: string;
  /** Index of the first requested character. */
  offset: number;
  /** Maximum size of the returned text, in bytes of UTF-8. */
  maxBytes: number;
}

export interface PageText {
  text: string;
  /** Length of the full text, in characters. */
  length: number;
  /** Whether the full text consists only of white space. */
  isBlank: boolean;
  /** Whether the page had more text than is kept. */
  isTruncated: boolean;
}

/** Returns the requested part of the text of a page. */
export async function extractPageText({ body, isHtml, charset, url, offset, maxBytes }: PageJob): Promise<PageText> {
  let text = createDecoder(charset).decode(body);
  let hasMoreText = false;
  if (isHtml) {
    const page = await htmlToText(text, url);
    hasMoreText = page.isTruncated;
    text = page.title === "" || page.text.startsWith(`# ${page.title}`) ? page.text : `# ${page.title}\n\n${page.text}`;
  }
  return {
    text: slicePage(text, offset, maxBytes),
    length: text.length,
    isBlank: !/\S/.test(text),
    isTruncated: hasMoreText,
  };
}

/** Returns the requested part. It ends after a line if a line ends in its second half. */
function slicePage(text: string, offset: number, maxBytes: number): string {
  let page = text.slice(offset, offset + maxBytes);
  while (Buffer.byteLength(page) > maxBytes)
    page = page.slice(0, Math.floor((page.length * maxBytes) / Buffer.byteLength(page)));
  if (offset + page.length === text.length) return page;
  const lineStart = page.lastIndexOf("\n") + 1;
  return lineStart > page.length / 2 ? page.slice(0, lineStart) : page.replace(/[\uD800-\uDBFF]$/, "");
}

function createDecoder(charset: string): InstanceType<typeof TextDecoder> {
  try {
    return new TextDecoder(charset);
  } catch {
    return new TextDecoder();
  }
}
