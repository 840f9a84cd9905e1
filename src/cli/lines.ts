import { constants } from "node:buffer";
import { StringDecoder } from "node:string_decoder";
import { abortable } from "../base/abort.js";
import { InputError } from "../ports/errors.js";

/**
 * What comes in, line by line. Split on LF alone: other line breaks may stand in a JSON text. A line that no string can
 * hold is an `InputError` as soon as it is so long.
 */
export async function* linesOf(
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
    // Whoever writes may say nothing for long.
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
      if (length > longest) throw new InputError(`line ${line}`, `no more than ${longest} characters`);
      pieces.push(part);
    }
  }
  const rest = pieces.join("") + decoder.end();
  if (rest !== "") yield rest;
}
