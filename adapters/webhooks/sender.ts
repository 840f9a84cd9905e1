import { createHmac } from "node:crypto";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { createDeadline } from "gantry/plugin";

/** Maximum bytes of an answer's body, which is ignored. */
const MAX_ANSWER_BYTES = 65_536;

/**
 * Statuses with which a receiver rejects the content of a request: bad request, content too large, unsupported media type,
 * unprocessable content. 401, 403 and 404 are not among them, because a deployment or a changed secret causes them too.
 */
const CONTENT_STATUSES = new Set([400, 413, 415, 422]);

/**
 * Result of one attempt. `isRejected`: the receiver rejected the content of the event. `reason` contains no part of the
 * address except its host.
 */
export type SendResult =
  | { readonly outcome: "delivered" }
  | { readonly outcome: "gone" }
  | {
      readonly outcome: "failed";
      readonly reason: string;
      readonly retryAfterMs: number;
      readonly isRejected: boolean;
    };

/** Sends signed requests to one receiver, by the Standard Webhooks specification. */
export class WebhookSender {
  readonly #url: URL;
  readonly #key: Buffer;
  readonly #timeoutMs: number;

  constructor(url: URL, key: Buffer, timeoutMs: number) {
    this.#url = url;
    this.#key = key;
    this.#timeoutMs = timeoutMs;
  }

  /** Makes one attempt. Never rejects. */
  async send(id: string, body: string, signal: AbortSignal): Promise<SendResult> {
    const deadline = createDeadline(this.#timeoutMs, signal);
    try {
      const { statusCode = 0, headers } = await this.#post(this.#sign(id, body), body, deadline.signal);
      if (statusCode >= 200 && statusCode < 300) return { outcome: "delivered" };
      if (statusCode === 410) return { outcome: "gone" };
      return {
        outcome: "failed",
        reason: `answered ${statusCode}`,
        retryAfterMs: parseRetryAfter(headers["retry-after"]),
        isRejected: CONTENT_STATUSES.has(statusCode),
      };
    } catch (error) {
      const reason = deadline.hasExpired ? `no answer within ${this.#timeoutMs} ms` : describeError(error);
      return { outcome: "failed", reason, retryAfterMs: 0, isRejected: false };
    } finally {
      deadline.clear();
    }
  }

  /** Returns the headers of an attempt. Each attempt has its own time, because receivers reject old ones. */
  #sign(id: string, body: string): Record<string, string> {
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const signature = createHmac("sha256", this.#key).update(`${id}.${timestamp}.${body}`).digest("base64");
    return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${signature}` };
  }

  /** Resolves when the answer has been read, or with its status if the reading fails. */
  #post(headers: Record<string, string>, body: string, signal: AbortSignal): Promise<IncomingMessage> {
    const send = this.#url.protocol === "https:" ? httpsRequest : httpRequest;
    const length = Buffer.byteLength(body);
    const allHeaders = {
      ...headers,
      "Content-Type": "application/json",
      "Content-Length": length,
      "User-Agent": "gantry",
    };
    return new Promise((resolve, reject) => {
      let answer: IncomingMessage | undefined;
      // A connection of its own, because a receiver may close an idle one while a request is being written to it.
      const request = send(this.#url, { method: "POST", headers: allHeaders, agent: false, signal }, (response) => {
        answer = response;
        let bytes = 0;
        response.on("data", ({ length: chunkBytes }: Buffer) => {
          bytes += chunkBytes;
          if (bytes > MAX_ANSWER_BYTES) response.destroy();
        });
        response.on("error", () => undefined);
        response.once("close", () => resolve(response));
      });
      request.on("error", (error) => (answer ? resolve(answer) : reject(error)));
      request.end(body);
    });
  }
}

/** Returns the delay that a header `Retry-After` requests, in ms; 0 if it requests none. */
export function parseRetryAfter(header: string | undefined): number {
  if (header === undefined) return 0;
  const delayMs = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return delayMs > 0 ? delayMs : 0;
}

function describeError(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}
