import { constants } from "node:buffer";
import { StringDecoder } from "node:string_decoder";
import { abortable } from "../base/abort.js";
import { InputError } from "../ports/errors.js";

/**
 * Splits the input into lines, at LF only: JSON texts can contain other line breaks. Throws `InputError` as soon as a
 * line exceeds `longest` characters (default: the maximum of a string).
 */
export async function* readLines(
  input: AsyncIterable<Uint8Array>,
  onChunk: (chunk: Uint8Array) => void,
  interrupted: AbortSignal,
  longest = constants.MAX_STRING_LENGTH,
): AsyncGenerator<string> {
  const decoder = new StringDecoder("utf8");
  const chunks = input[Symbol.asyncIterator]();
  let pieces: string[] = [];
  let length = 0;
  let line = 1;
  for (;;) {
    // The writer can pause for long: an interrupt must end the wait.
    const next = await abortable(chunks.next(), interrupted);
    if (next.done) break;
    const chunk: Uint8Array = next.value;
    onChunk(chunk);
    const parts = decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)).split("\n");
    for (const [at, part] of parts.entries()) {
      if (at > 0) {
        yield pieces.join("");
        pieces = [];
        length = 0;
        line++;
      }
      length += part.length;
      if (length > longest) throw new InputError(`line ${line}`, `at most ${longest} characters`);
      pieces.push(part);
    }
  }
  const lastLine = pieces.join("") + decoder.end();
  if (lastLine !== "") yield lastLine;
}
