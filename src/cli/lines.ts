import { constants } from "node:buffer";
import { StringDecoder } from "node:string_decoder";
import { abortable } from "../base/abort.js";
import { InputError } from "../ports/errors.js";

/**
 * Splits the input into lines, at LF only: JSON texts can contain other line breaks. Throws `InputError` as soon as a
 * line exceeds `maxLineCharacters` (default: the maximum of a string).
 */
export async function* readLines(
  input: AsyncIterable<Uint8Array>,
  onChunk: (chunk: Uint8Array) => void,
  interruptSignal: AbortSignal,
  maxLineCharacters = constants.MAX_STRING_LENGTH,
): AsyncGenerator<string> {
  const decoder = new StringDecoder("utf8");
  const chunks = input[Symbol.asyncIterator]();
  let lineParts: string[] = [];
  let lineCharacters = 0;
  let lineNumber = 1;
  for (;;) {
    // The writer can pause for a long time: an interrupt must end the wait.
    const next = await abortable(chunks.next(), interruptSignal);
    if (next.done) break;
    const chunk: Uint8Array = next.value;
    onChunk(chunk);
    const parts = decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)).split("\n");
    for (const [i, part] of parts.entries()) {
      if (i > 0) {
        yield lineParts.join("");
        lineParts = [];
        lineCharacters = 0;
        lineNumber++;
      }
      lineCharacters += part.length;
      if (lineCharacters > maxLineCharacters)
        throw new InputError(`line ${lineNumber}`, `at most ${maxLineCharacters} characters`);
      lineParts.push(part);
    }
  }
  const lastLine = lineParts.join("") + decoder.end();
  if (lastLine !== "") yield lastLine;
}
