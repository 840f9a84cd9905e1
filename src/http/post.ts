import { once } from "node:events";
import type { IncomingMessage } from "node:http";

const ANSWER_MS = 10_000;
const MOST_CHARACTERS = 4_096;

/** Ask a server of ours something small, without a body. Rejects when nothing answers; of an answer that is long it has the beginning. */
export async function post(url: string, headers: Record<string, string>): Promise<{ status: number; text: string }> {
  const { request } = url.startsWith("https:") ? await import("node:https") : await import("node:http");
  const sent = request(url, { method: "POST", headers: asBytes(headers), signal: AbortSignal.timeout(ANSWER_MS) });
  sent.end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  let text = "";
  for await (const chunk of response.setEncoding("utf8") as AsyncIterable<string>) {
    text += chunk;
    if (text.length > MOST_CHARACTERS) break;
  }
  return { status: response.statusCode ?? 0, text };
}

/** Node sends Latin-1 alone; what is beyond it is UTF-8 to our port. */
function asBytes(headers: Record<string, string>): Record<string, string> {
  const bytes = (value: string) => {
    const isLatin1 = Buffer.from(value, "latin1").toString("latin1") === value;
    return isLatin1 ? value : Buffer.from(value, "utf8").toString("latin1");
  };
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, bytes(value)]));
}
