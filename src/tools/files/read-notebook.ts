import { stripVTControlCharacters } from "node:util";
import { capText } from "../../base/cut-text.js";
import { isRecord } from "../../base/json.js";
import { formatSize } from "./content.js";

/** Maximum bytes shown of an output. */
const MAX_OUTPUT_BYTES = 4_000;

/** A notebook as text. */
export interface NotebookView {
  readonly text: string;
  readonly cellCount: number;
}

/** Formats a Jupyter notebook (format 4) as its cells with their outputs. Undefined if the text is not a notebook. */
export function formatNotebook(json: string): NotebookView | undefined {
  let notebook: unknown;
  try {
    notebook = JSON.parse(json);
  } catch {
    return undefined;
  }
  if (!isRecord(notebook) || !Array.isArray(notebook["cells"])) return undefined;
  const cells = (notebook["cells"] as unknown[]).filter(isRecord);
  return { text: cells.map(formatCell).join("\n"), cellCount: cells.length };
}

function formatCell(cell: Readonly<Record<string, unknown>>, index: number): string {
  const outputs = Array.isArray(cell["outputs"]) ? (cell["outputs"] as unknown[]).filter(isRecord) : [];
  return [
    `[cell ${index + 1}: ${String(cell["cell_type"])}]`,
    joinLines(cell["source"]),
    ...outputs.flatMap((output) => [`[output of cell ${index + 1}]`, formatOutput(output)]),
  ].join("\n");
}

function formatOutput(output: Readonly<Record<string, unknown>>): string {
  if (output["output_type"] === "error") {
    const traceback = Array.isArray(output["traceback"]) ? output["traceback"].join("\n") : "";
    return toOutputText(traceback || `${String(output["ename"])}: ${String(output["evalue"])}`);
  }
  const data = output["data"];
  if (!isRecord(data)) return toOutputText(joinLines(output["text"]));
  return Object.entries(data)
    .map(([type, value]) => {
      const text = typeof value === "object" && !Array.isArray(value) ? JSON.stringify(value) : joinLines(value);
      // The other types are alternatives to the plain text, or images.
      return type === "text/plain" ? toOutputText(text) : `[${type}, ${formatSize(Buffer.byteLength(text))}]`;
    })
    .join("\n");
}

/** A notebook stores a text as one string or as a list of lines with their line feeds. */
function joinLines(value: unknown): string {
  return (Array.isArray(value) ? value.join("") : typeof value === "string" ? value : "").replace(/\n$/, "");
}

function toOutputText(text: string): string {
  return capText(stripVTControlCharacters(text).replace(/\n$/, ""), MAX_OUTPUT_BYTES);
}
