import { Agent, MemoryDriver, type AgentOptions, type Logger } from "gantry";
import type { Listening } from "gantry/plugin";
import { type HttpHost, type HttpHostOptions, openHttpHost } from "gantry/http";
import { KoaHttpTransport, type KoaHttpOptions } from "gantry/adapters/koa-http-api";
import { ScriptedProvider, type ScriptedProviderOptions, type ScriptedStep } from "gantry/testing";
import type { Hooks } from "./temp-dir.js";
import { checkExchange } from "./api-contract.js";
import { sendRawRequest, type RawRequest, type RawResponse } from "./raw-http.js";

export interface ApiOptions {
  steps?: readonly ScriptedStep[];
  providerOptions?: ScriptedProviderOptions;
  agent?: Partial<AgentOptions>;
  http?: Partial<KoaHttpOptions>;
  host?: HttpHostOptions;
}

/**
 * The API of a real agent on a real port, with a scripted model. The agent's questions do not wait for disconnected
 * clients (`clientGraceSeconds: 0`).
 */
export interface TestApi {
  url: string;
  agent: Agent;
  driver: MemoryDriver;
  provider: ScriptedProvider;
  host: HttpHost;
  listening: Listening;
  /** Log lines as `level message {fields}`. */
  logLines: string[];
  send(path: string, options?: RawRequest): Promise<RawResponse>;
  /** Sends `POST /api/run` with this body. */
  postRun(body: unknown, headers?: Readonly<Record<string, string>>): Promise<RawResponse>;
}

export async function startApi(hooks: Hooks, options: ApiOptions = {}): Promise<TestApi> {
  const logLines: string[] = [];
  const createLogFunction = (level: string) => (message: string, fields?: object) =>
    void logLines.push(
      `${level} ${message} ${fields ? JSON.stringify(fields, (_k, v: unknown) => (v instanceof Error ? v.message : v)) : ""}`,
    );
  const logger: Logger = {
    debug: createLogFunction("debug"),
    info: createLogFunction("info"),
    warn: createLogFunction("warn"),
    error: createLogFunction("error"),
  };
  const provider = new ScriptedProvider(options.steps ?? [], options.providerOptions);
  const driver = new MemoryDriver();
  const agent = new Agent({ providers: [provider], driver, logger, clientGraceSeconds: 0, ...options.agent });
  const host = openHttpHost({ port: 0, logger, ...options.host });
  const transport = new KoaHttpTransport(options.http ?? {}, host, logger);
  const close = async () => {
    await host.close(AbortSignal.abort());
    await agent.close();
  };
  hooks.after(close);
  const listening = await transport.start(agent);
  // The wildcard address is not a valid request address.
  const url = listening.address.replace("//0.0.0.0:", "//127.0.0.1:");
  // Checks each request and response against the API's own description.
  const sendChecked = async (path: string, request: RawRequest = {}): Promise<RawResponse> => {
    const response = await sendRawRequest(url, path, request);
    const method = request.method ?? (request.body === undefined ? "GET" : "POST");
    checkExchange({ method, path, body: request.body, ...response });
    return response;
  };
  return {
    url,
    agent,
    driver,
    provider,
    host,
    listening,
    logLines,
    send: sendChecked,
    postRun: (body, headers) =>
      sendChecked("/api/run", {
        body: typeof body === "string" ? body : JSON.stringify(body),
        ...(headers ? { headers } : {}),
      }),
  };
}
