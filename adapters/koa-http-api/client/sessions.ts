import type {
  ApiMessage,
  ApiRun,
  ApiRunState,
  ApiAsk,
  AnswerRequest,
  ApiSession,
  ApiSessionChange,
  ApiSessionContext,
  ApiShellResult,
  MessageMatchList,
  SessionList,
} from "../shapes.js";
import {
  areIds,
  createResourcePath,
  type RequestParts,
  type CallOptions,
  type ServerConnection,
} from "./connection.js";
import { SessionRewindsApi } from "./rewind.js";
import { runShellCommand, type ApiShellCommand } from "./shell.js";
import { watch, type WatchedEvent, type ApiWatchOptions } from "./watch.js";

const hasId = ({ id }: { id: string }): boolean => areIds(id);

/** `client.sessions`. */
export class SessionsApi extends SessionRewindsApi {
  readonly #connection: ServerConnection;

  constructor(connection: ServerConnection) {
    super(connection);
    this.#connection = connection;
  }

  /**
   * A page of sessions, last used first. `page` counts from 1; `search` is part of a title; `spawnedBy` lists the
   * subagent sessions of a session. Archived sessions are not listed unless `archived` is `include` or `only`.
   */
  async list(
    {
      page,
      size,
      search,
      projectDir,
      spawnedBy,
      archived,
    }: {
      page?: number;
      size?: number;
      search?: string;
      projectDir?: string;
      spawnedBy?: string;
      archived?: "exclude" | "include" | "only";
    } = {},
    { signal }: CallOptions = {},
  ): Promise<SessionList> {
    const query = { page, size, search, project_dir: projectDir, spawned_by: spawnedBy, archived };
    const hasSessions = ({ sessions }: SessionList) => Array.isArray(sessions);
    return (await this.#connection.requestJson<SessionList>("sessions", { query, signal }, hasSessions)).body;
  }

  /**
   * Finds messages of all sessions that contain all words of a text, newest first. `before`: `next` of the previous
   * page, which may be empty. Archived sessions are not searched unless `archived` is `include` or `only`.
   */
  async search(
    text: string,
    {
      projectDir,
      ...filters
    }: { projectDir?: string; limit?: number; before?: string; archived?: "exclude" | "include" | "only" } = {},
    { signal }: CallOptions = {},
  ): Promise<MessageMatchList> {
    const query = { query: text, project_dir: projectDir, ...filters };
    const hasMatches = ({ matches }: MessageMatchList) => Array.isArray(matches);
    return (await this.#connection.requestJson<MessageMatchList>("search", { query, signal }, hasMatches)).body;
  }

  /** Returns a session. Rejects with `NotFoundError`. */
  get(id: string, { signal }: CallOptions = {}): Promise<ApiSession> {
    return this.#request<ApiSession>(id, "", { signal }, hasId);
  }

  /** Changes title, model, reasoning effort, mode or archive state. Returns the changed session. */
  update(id: string, change: ApiSessionChange, { signal }: CallOptions = {}): Promise<ApiSession> {
    return this.#request<ApiSession>(id, "", { method: "PATCH", body: change, signal }, hasId);
  }

  /** Deletes a session with its messages and cancels its run. */
  async delete(id: string, { signal }: CallOptions = {}): Promise<void> {
    await this.#request(id, "", { method: "DELETE", signal });
  }

  /**
   * The messages of a session by ascending `seq`: messages after the seq `after`, or the last `limit` messages before
   * the seq `before`. `view: "model"`: only messages that the model sees now.
   */
  async messages(
    id: string,
    query: { after?: number; before?: number; limit?: number; view?: "model" } = {},
    { signal }: CallOptions = {},
  ): Promise<ApiMessage[]> {
    return this.#connection.requestList<ApiMessage>("messages", `${createResourcePath("session", id)}/messages`, {
      query,
      signal,
    });
  }

  /** Cancels the active run and returns the run; null if no run was active. */
  async cancel(id: string, { signal }: CallOptions = {}): Promise<ApiRun | null> {
    return (await this.#request<{ run: ApiRun | null }>(id, "/cancel", { method: "POST", body: {}, signal })).run;
  }

  /** Sends a message to the active run. Rejects with `ApiError` with the code `no_run` if no run is active. */
  steer(id: string, message: string, { signal }: CallOptions = {}): Promise<{ run_id: string }> {
    return this.#request(id, "/steer", { method: "POST", body: { message }, signal });
  }

  /**
   * Moves a running command of the active run to the background, so that the model continues. Without `toolCallId`:
   * all running commands. Rejects with `ApiError` with the code `no_run` if no run is active.
   */
  moveToBackground(
    id: string,
    { toolCallId }: { toolCallId?: string } = {},
    { signal }: CallOptions = {},
  ): Promise<{ run_id: string }> {
    const body = toolCallId === undefined ? {} : { tool_call_id: toolCallId };
    return this.#request(id, "/background", { method: "POST", body, signal });
  }

  /** Measures what the next model call of a session would contain, in tokens. Starts no run. */
  context(id: string, { signal }: CallOptions = {}): Promise<ApiSessionContext> {
    return this.#request<ApiSessionContext>(id, "/context", { signal }, ({ parts }) => Array.isArray(parts));
  }

  /**
   * Runs a person's shell command in the project folder of a session. Aborting the signal stops the command. `onOutput`
   * receives the output while the command runs. Rejects with `BusyError` if the session has an active run, unless
   * `share` is false.
   */
  shell(
    id: string,
    command: ApiShellCommand,
    { signal, onOutput }: CallOptions & { onOutput?: ((text: string) => void) | undefined } = {},
  ): Promise<ApiShellResult> {
    const path = `${createResourcePath("session", id)}/shell`;
    return runShellCommand(this.#connection, path, command, signal, onOutput);
  }

  /**
   * The events of a session, from its first message or from a given position. Reconnects automatically, with growing
   * delays. Ends when the session is deleted or the signal aborts. Throws `ApiError` for an answer that a retry does
   * not change: 400, 401, 403, 404.
   */
  watch(id: string, options?: ApiWatchOptions): AsyncGenerator<WatchedEvent, void, undefined> {
    return watch(this.#connection, id, options);
  }

  async #request<T extends object>(
    id: string,
    subPath: string,
    request: RequestParts,
    isExpectedBody?: (body: T) => boolean,
  ): Promise<T> {
    return (
      await this.#connection.requestJson<T>(`${createResourcePath("session", id)}${subPath}`, request, isExpectedBody)
    ).body;
  }
}

/** `client.runs`. */
export class RunsApi {
  readonly #connection: ServerConnection;

  constructor(connection: ServerConnection) {
    this.#connection = connection;
  }

  /** Runs, newest first; `before` is the id of the last run of the previous page. */
  async list(
    {
      state,
      sessionId,
      before,
      size,
    }: { state?: ApiRunState; sessionId?: string; before?: string; size?: number } = {},
    { signal }: CallOptions = {},
  ): Promise<ApiRun[]> {
    const query = { state, session_id: sessionId, before, size };
    return this.#connection.requestList<ApiRun>("runs", "runs", { query, signal });
  }

  /** Returns a run. Rejects with `NotFoundError`. */
  async get(id: string, { signal }: CallOptions = {}): Promise<ApiRun> {
    return (await this.#connection.requestJson<ApiRun>(createResourcePath("run", id), { signal }, hasId)).body;
  }

  /** Cancels a run of any client. Returns the run; an ended run stays unchanged. */
  async cancel(id: string, { signal }: CallOptions = {}): Promise<ApiRun> {
    const request = { method: "POST", body: {}, signal };
    return (await this.#connection.requestJson<ApiRun>(`${createResourcePath("run", id)}/cancel`, request, hasId)).body;
  }
}

/** `client.asks`. */
export class AsksApi {
  readonly #connection: ServerConnection;

  constructor(connection: ServerConnection) {
    this.#connection = connection;
  }

  /**
   * Lists open questions, newest first. `state: "all"` includes answered and withdrawn questions. `canAnswer`: this
   * client can answer questions without watching a session. Questions then wait until 90 s after the client's last
   * request with `canAnswer`.
   */
  async list(
    {
      state,
      sessionId,
      canAnswer,
      before,
      size,
    }: { state?: "open" | "all"; sessionId?: string; canAnswer?: boolean; before?: string; size?: number } = {},
    { signal }: CallOptions = {},
  ): Promise<ApiAsk[]> {
    const query = { state, session_id: sessionId, can_answer: canAnswer, before, size };
    return this.#connection.requestList<ApiAsk>("asks", "asks", { query, signal });
  }

  /** Returns a question. Rejects with `NotFoundError`. */
  async get(id: string, { signal }: CallOptions = {}): Promise<ApiAsk> {
    return (await this.#connection.requestJson<ApiAsk>(createResourcePath("ask", id), { signal }, hasId)).body;
  }

  /**
   * Answers a question with the id of a choice or a text. Rejects with `AskConflictError` if the question was already
   * answered or withdrawn.
   */
  async answer(id: string, answer: AnswerRequest, { signal }: CallOptions = {}): Promise<ApiAsk> {
    const request = { method: "POST", body: answer, signal };
    return (await this.#connection.requestJson<ApiAsk>(createResourcePath("ask", id), request, hasId)).body;
  }
}
