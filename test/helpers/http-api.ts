import { Agent, MemoryDriver, type AgentOptions, type Logger } from "gantry";
import type { Listening } from "gantry/plugin";
import { type HttpHost, type HttpHostOptions, openHttpHost } from "gantry/http";
import { KoaHttpTransport, type KoaHttpOptions } from "gantry/adapters/koa-http-api";
import { ScriptedProvider, type ScriptedProviderOptions, type ScriptedStep } from "gantry/testing";
import type { Hooks } from "./temp.js";
import { checkExchange } from "./api-contract.js";
import { send, type RawRequest, type RawResponse } from "./http.js";

export interface ApiOptions {
  steps?: readonly ScriptedStep[];
  scripted?: ScriptedProviderOptions;
  agent?: Partial<AgentOptions>;
  http?: Partial<KoaHttpOptions>;
  host?: HttpHostOptions;
}

/**
 * The API of a real agent on a real port, with a scripted model. Its questions do not wait for disconnected clients.
 */
export interface Api {
  url: string;
  agent: Agent;
  driver: MemoryDriver;
  provider: ScriptedProvider;
  host: HttpHost;
  listening: Listening;
  /** Log lines as `level message {fields}`. */
  log: string[];
  send(path: string, options?: RawRequest): Promise<RawResponse>;
  /** Sends `POST /api/run` with this body. */
  run(body: unknown, headers?: Readonly<Record<string, string>>): Promise<RawResponse>;
}

export async function startApi(hooks: Hooks, options: ApiOptions = {}): Promise<Api> {
  const log: string[] = [];
  const write = (level: string) => (message: string, fields?: object) =>
    void log.push(
      `${level} ${message} ${fields ? JSON.stringify(fields, (_k, v: unknown) => (v instanceof Error ? v.message : v)) : ""}`,
    );
  const logger: Logger = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
  const provider = new ScriptedProvider(options.steps ?? [], options.scripted);
  const driver = new MemoryDriver();
  const agent = new Agent({ providers: [provider], driver, logger, clientGraceSeconds: 0, ...options.agent });
  const host = openHttpHost({ port: 0, logger, ...options.host });
  const transport = new KoaHttpTransport(options.http ?? {}, host, logger);
  const end = async () => {
    await host.close(AbortSignal.abort());
    await agent.close();
  };
  hooks.after(end);
  const listening = await transport.start(agent);
  // The wildcard address is not a valid request address.
  const url = listening.address.replace("//0.0.0.0:", "//127.0.0.1:");
  // Checks each request and response against the API's own description.
  const checked = async (path: string, request: RawRequest = {}): Promise<RawResponse> => {
    const answer = await send(url, path, request);
    const method = request.method ?? (request.body === undefined ? "GET" : "POST");
    checkExchange({ method, path, body: request.body, ...answer });
    return answer;
  };
  return {
    url,
    agent,
    driver,
    provider,
    host,
    listening,
    log,
    send: checked,
    run: (body, headers) =>
      checked("/api/run", {
        body: typeof body === "string" ? body : JSON.stringify(body),
        ...(headers ? { headers } : {}),
      }),
  };
}
