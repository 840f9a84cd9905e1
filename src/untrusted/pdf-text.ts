import { createPackageRequire } from "./package-require.js";

/** Pages of a PDF to read as text. */
export interface PdfJob {
  readonly body: Uint8Array;
  /** Number of the first page, from 1. */
  readonly firstPage: number;
  readonly maxPages: number;
  /** Maximum bytes of the text. The first page is cut, later pages are omitted. */
  readonly maxBytes: number;
}

/** The texts of the pages from `firstPage` on that fit. The text of an image is empty. */
export interface PdfText {
  readonly pageCount: number;
  readonly pages: string[];
  /** Whether the only page is cut. */
  readonly isCut: boolean;
}

/** The library is large and its bundle is an ES module, which a worker's bundle cannot include. */
const PACKAGE = "unpdf";
/** Time after which no further page is read, in ms. */
const MAX_READ_MS = 3_000;

/** Reads the text of a PDF, page by page. Rejects if the file is not a PDF, needs a password or is damaged. */
export async function extractPdfText({ body, firstPage, maxPages, maxBytes }: PdfJob): Promise<PdfText> {
  const { getDocumentProxy } = createPackageRequire(PACKAGE)(PACKAGE) as typeof import("unpdf");
  // Without the option, the library prints warnings to the standard output, which can belong to a protocol.
  const options = { verbosity: 0, useSystemFonts: false, stopAtErrors: false };
  const document = (await getDocumentProxy(body, options)) as PdfDocument;
  try {
    const pages: string[] = [];
    let remainingBytes = maxBytes;
    const lastPage = Math.min(document.numPages, firstPage + maxPages - 1);
    const endMs = performance.now() + MAX_READ_MS;
    for (let number = firstPage; number <= lastPage && (pages.length === 0 || performance.now() < endMs); number++) {
      const page = await readPage(await document.getPage(number), remainingBytes);
      if (page.isCut && pages.length > 0) break;
      pages.push(page.text);
      if (page.isCut) return { pageCount: document.numPages, pages, isCut: true };
      remainingBytes -= Buffer.byteLength(page.text);
    }
    return { pageCount: document.numPages, pages, isCut: false };
  } finally {
    await document.destroy();
  }
}

/** The used part of a document. The library's declarations of it do not resolve in an ES module. */
interface PdfDocument {
  readonly numPages: number;
  getPage(number: number): Promise<Page>;
  destroy(): Promise<void>;
}

interface Page {
  streamTextContent(): ReadableStream<{ items: { str?: string; hasEOL?: boolean }[] }>;
}

/** Reads a page, and returns at most `maxBytes` of its text. */
async function readPage(page: Page, maxBytes: number): Promise<{ text: string; isCut: boolean }> {
  let text = "";
  const reader = page.streamTextContent().getReader();
  // The stream is read to its end: a cancelled stream of the library rejects promises that it does not handle.
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read())
    for (const { str = "", hasEOL = false } of chunk.value.items)
      if (text.length <= maxBytes) text += str + (hasEOL ? "\n" : "");
  text = text.trim();
  if (Buffer.byteLength(text) <= maxBytes) return { text, isCut: false };
  const start = Buffer.from(text).subarray(0, maxBytes).toString();
  return { text: start.replace(/\uFFFD$/, ""), isCut: true };
}
