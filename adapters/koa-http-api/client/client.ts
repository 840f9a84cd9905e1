import type {
  ApiFileContent,
  Command,
  GitState,
  Health,
  ApiModel,
  NotReady,
  Ready,
  RunAccepted,
  RunRequest,
  ApiRunResult,
} from "../shapes.js";
import {
  areIds,
  ServerConnection,
  linkSignal,
  type RequestParts,
  type CallOptions,
  type ClientOptions,
} from "./connection.js";
import { UnavailableError } from "./errors.js";
import { RunStream, type RunIds } from "./run-stream.js";
import { AsksApi, RunsApi, SessionsApi } from "./sessions.js";
import type { WatchAll, WatchAllOptions } from "./watch-all.js";

/** Options of a run besides its request. */
export interface RunOptions extends CallOptions {
  /** The idempotency key: repeated requests with the same key start one run. Default: no key. */
  key?: string | undefined;
}

/** The request of a run. The method sets `stream` and `background`. */
export type ApiRunInput = Omit<RunRequest, "stream" | "background">;

/**
 * A client of a gantry server. A method rejects with `ApiError` if its request fails, or with the signal's reason if it
 * is aborted.
 */
export class GantryClient {
  readonly sessions: SessionsApi;
  readonly runs: RunsApi;
  readonly asks: AsksApi;
  readonly #connection: ServerConnection;

  constructor(options: ClientOptions = {}) {
    this.#connection = new ServerConnection(options);
    this.sessions = new SessionsApi(this.#connection);
    this.runs = new RunsApi(this.#connection);
    this.asks = new AsksApi(this.#connection);
  }

  /** Checks that the process is alive; returns its version. */
  async health({ signal }: CallOptions = {}): Promise<Health> {
    return (await this.#connection.requestJson<Health>("health", { signal })).body;
  }

  /** Whether the server accepts runs; if not, `reasons` says why. */
  async ready({ signal }: CallOptions = {}): Promise<Ready | NotReady> {
    try {
      return (await this.#connection.requestJson<Ready>("ready", { signal })).body;
    } catch (error) {
      if (error instanceof UnavailableError && error.code === "not_ready") return error.body as NotReady;
      throw error;
    }
  }

  /** The models of every reachable provider. */
  async models({ signal }: CallOptions = {}): Promise<ApiModel[]> {
    return this.#connection.requestList<ApiModel>("models", "models", { signal });
  }

  /** The slash commands of a session or a folder. To use them, start the run with `commands: true`. */
  async commands(
    { sessionId, projectDir }: { sessionId?: string | undefined; projectDir?: string | undefined } = {},
    { signal }: CallOptions = {},
  ): Promise<Command[]> {
    const query = { session_id: sessionId, project_dir: projectDir };
    return this.#connection.requestList<Command>("commands", "commands", { query, signal });
  }

  /** The Git branch and state of a session's folder or of another folder. Default: the served folder. */
  async git(
    { sessionId, projectDir }: { sessionId?: string | undefined; projectDir?: string | undefined } = {},
    { signal }: CallOptions = {},
  ): Promise<GitState> {
    const query = { session_id: sessionId, project_dir: projectDir };
    return (await this.#connection.requestJson<GitState>("git", { query, signal })).body;
  }

  /** Opens one connection for the events of any number of sessions, until its `close`. Never rejects. */
  async watchAll(options: WatchAllOptions = {}): Promise<WatchAll> {
    const { WatchAll } = await import("./watch-all.js");
    return new WatchAll(this.#connection, options);
  }

  /** The beginning of a file in the folder of a session or in another folder, else in the served folder. */
  async fileContent(
    path: string,
    { sessionId, projectDir }: { sessionId?: string | undefined; projectDir?: string | undefined } = {},
    { signal }: CallOptions = {},
  ): Promise<ApiFileContent> {
    const query = { path, session_id: sessionId, project_dir: projectDir };
    return (await this.#connection.requestJson<ApiFileContent>("files/content", { query, signal })).body;
  }

  /**
   * Paths of files in the folder of a session or in a project folder, best match first. `query`: characters of the path
   * in this order. `limit`: at most 100, default 20.
   */
  async files(
    {
      sessionId,
      projectDir,
      query: text,
      limit,
    }: {
      sessionId?: string | undefined;
      projectDir?: string | undefined;
      query?: string | undefined;
      limit?: number | undefined;
    } = {},
    { signal }: CallOptions = {},
  ): Promise<string[]> {
    const query = { session_id: sessionId, project_dir: projectDir, query: text, limit };
    const files = await this.#connection.requestList<{ path: string }>("files", "files", { query, signal });
    return files.map(({ path }) => path);
  }

  /** Starts a run and resolves when the run has ended. Aborting the signal cancels the run. */
  async run(request: ApiRunInput, { key, signal }: RunOptions = {}): Promise<ApiRunResult & RunIds> {
    const { body, headers } = await this.#connection.requestJson<ApiRunResult>(
      "run",
      toPostRequest(request, key, signal),
    );
    return { ...body, ...readRunIdentity(headers) };
  }

  /** Starts a run with a stream of its events. Resolves when the run has started or is queued. */
  async stream(request: ApiRunInput, { key, signal }: RunOptions = {}): Promise<RunStream> {
    const link = linkSignal(signal);
    try {
      const response = await this.#connection.sendRequest(
        "run",
        toPostRequest({ ...request, stream: true }, key, link.signal),
      );
      return new RunStream(
        readRunIdentity(response.headers),
        this.#connection.readEvents(response, link.signal),
        link.end,
      );
    } catch (error) {
      link.end();
      throw error;
    }
  }

  /** Starts a background run, which continues without its client. Resolves when the run is stored. */
  async start(request: ApiRunInput, { key, signal }: RunOptions = {}): Promise<RunAccepted> {
    const postRequest = toPostRequest({ ...request, background: true }, key, signal);
    const hasIds = ({ run_id, session_id }: RunAccepted) => areIds(run_id, session_id);
    return (await this.#connection.requestJson<RunAccepted>("run", postRequest, hasIds)).body;
  }
}

/** The request of a run; `key`: the idempotency key. */
function toPostRequest(body: RunRequest, key: string | undefined, signal: AbortSignal | undefined): RequestParts {
  return { method: "POST", body, headers: key === undefined ? {} : { "idempotency-key": key }, signal };
}

/** Reads the ids from the response headers; `""` for a missing header. */
function readRunIdentity(headers: Headers): RunIds {
  const model = headers.get("x-model") ?? "";
  return {
    sessionId: headers.get("x-session-id") ?? "",
    runId: headers.get("x-run-id") ?? "",
    model: decodeModel(model),
  };
}

/** Decodes the percent-encoded name of a model. A value that is not valid encoding is returned unchanged. */
function decodeModel(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
