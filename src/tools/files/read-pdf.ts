import { basename } from "node:path";
import { MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";
import type { OpenedFile } from "../../files/path-guard.js";
import { ToolError, WorkLimitError } from "../../ports/errors.js";
import type { ToolOutput } from "../../ports/tool.js";
import type { PdfText } from "../../untrusted/pdf-text.js";
import { withWorker } from "../../untrusted/workers.js";
import { formatSize } from "./content.js";
import { readWhole } from "./read-file.js";

const MAX_PDF_BYTES = 20 * 1024 * 1024;
/** Maximum size of a PDF that is attached because it has no text. The session stores it. */
const MAX_ATTACHED_BYTES = 5 * 1024 * 1024;
/** Time limit for the text of one call, in ms. */
const READ_TIMEOUT_MS = 8_000;
/** Maximum growth of this process. A compressed page can have any size, and the limits of a thread exclude buffers. */
const MAX_GROWTH_BYTES = 512 * 1024 * 1024;
const MEMORY_CHECK_MS = 100;

/** Returns the text of the pages from `firstPage` on, or attaches a file without text. Rejects with `ToolError`. */
export async function readPdf(
  file: OpenedFile,
  name: string,
  firstPage: number,
  maxPages: number,
  signal: AbortSignal,
): Promise<ToolOutput> {
  const size = formatSize(Number(file.stats.size));
  if (Number(file.stats.size) > MAX_PDF_BYTES)
    throw new ToolError(`${name}: the PDF is ${size}; at most 20 MiB can be read. Split it with bash.`);
  const bytes = await readWhole(file, MAX_PDF_BYTES);
  const { pageCount, pages, isCut } = await readPdfText(bytes, name, firstPage, maxPages, signal);
  const lastPage = firstPage + pages.length - 1;
  if (pages.every((text) => text === "") && bytes.length <= MAX_ATTACHED_BYTES)
    return {
      text: `${name}: PDF, ${size}, ${pageCount} pages. Pages ${firstPage}-${lastPage} have no text, so the file is attached.`,
      parts: [
        { type: "file", mediaType: "application/pdf", filename: basename(file.path), data: bytes.toString("base64") },
      ],
    };
  return { text: formatPages(firstPage, { pageCount, pages, isCut }) };
}

/** Reads the text of at least one page in a worker. Rejects with `ToolError`. */
export async function readPdfText(
  bytes: Buffer,
  name: string,
  firstPage: number,
  maxPages: number,
  signal: AbortSignal,
  maxGrowthBytes = MAX_GROWTH_BYTES,
): Promise<PdfText> {
  // `body` is a copy, because the memory is transferred to the worker.
  const job = { body: new Uint8Array(bytes), firstPage, maxPages, maxBytes: MAX_MODEL_TEXT_BYTES };
  const maxBytes = process.memoryUsage.rss() + maxGrowthBytes;
  const memoryLimit = new AbortController();
  const memoryCheck = setInterval(() => {
    if (process.memoryUsage.rss() > maxBytes)
      memoryLimit.abort(new WorkLimitError("memory", "it needs too much memory"));
  }, MEMORY_CHECK_MS);
  try {
    const pdf = await withWorker(AbortSignal.any([signal, memoryLimit.signal]), (thread) =>
      thread.runJob("pdf", job, { ms: READ_TIMEOUT_MS, transfer: [job.body] }),
    );
    if (pdf.pages.length > 0) return pdf;
    throw new ToolError(`${name}: has ${pdf.pageCount} pages; page ${firstPage} does not exist. Use a smaller offset.`);
  } catch (error) {
    if (!(error instanceof WorkLimitError)) throw error;
    const reason = error.message.replace(/\.$/, "");
    throw new ToolError(
      `${name}: is a PDF document (${formatSize(bytes.length)}) and cannot be shown: ${reason}. Use bash with a program that reads it.`,
      { cause: error },
    );
  } finally {
    clearInterval(memoryCheck);
  }
}

/** Formats the pages that start with `firstPage`, with a note on the pages that follow. */
export function formatPages(firstPage: number, { pageCount, pages, isCut }: PdfText): string {
  const lines = pages.flatMap((text, i) => [`[page ${firstPage + i}${text === "" ? ", without text" : ""}]`, text]);
  const lastPage = firstPage + pages.length - 1;
  if (isCut) lines.push("[the rest of this page is too long and is omitted]");
  const next = lastPage < pageCount ? `; continue with offset ${lastPage + 1}` : "";
  return [...lines.filter((line) => line !== ""), `[pages ${firstPage}-${lastPage} of ${pageCount}${next}]`].join("\n");
}
