import type { Command, Health, Model, NotReady, Ready, RunBegun, RunRequest, RunResult } from "../shapes.js";
import { areIds, Connection, linked, type Call, type CallOptions, type ClientOptions } from "./connection.js";
import { UnavailableError } from "./errors.js";
import { RunStream, type RunIds } from "./run-stream.js";
import { Asks, Runs, Sessions } from "./sessions.js";

/** What a run takes beside its request. */
export interface RunOptions extends CallOptions {
  /** An Idempotency-Key: the run is done once, however often it is asked for. */
  key?: string | undefined;
}

/** A run as it is asked for; how it is answered is said by the method. */
export type RunInput = Omit<RunRequest, "stream" | "background">;

/** A gantry server, as programs see it. Every method throws `GantryError`. */
export class GantryClient {
  readonly sessions: Sessions;
  readonly runs: Runs;
  readonly asks: Asks;
  readonly #connection: Connection;

  constructor(options: ClientOptions = {}) {
    this.#connection = new Connection(options);
    this.sessions = new Sessions(this.#connection);
    this.runs = new Runs(this.#connection);
    this.asks = new Asks(this.#connection);
  }

  /** That the process lives, and which version it is. */
  async health({ signal }: CallOptions = {}): Promise<Health> {
    return (await this.#connection.json<Health>("health", { signal })).body;
  }

  /** Whether runs should be sent there; where not, `reasons` says why. */
  async ready({ signal }: CallOptions = {}): Promise<Ready | NotReady> {
    try {
      return (await this.#connection.json<Ready>("ready", { signal })).body;
    } catch (error) {
      if (error instanceof UnavailableError && error.code === "not_ready") return error.body as NotReady;
      throw error;
    }
  }

  /** The models of every provider that can be reached. */
  async models({ signal }: CallOptions = {}): Promise<Model[]> {
    return this.#connection.list<Model>("models", "models", { signal });
  }

  /** What can be said by `/name words`, of a session or a folder; a run that says so has `commands: true`. */
  async commands(
    { sessionId, projectDir }: { sessionId?: string | undefined; projectDir?: string | undefined } = {},
    { signal }: CallOptions = {},
  ): Promise<Command[]> {
    const query = { session_id: sessionId, project_dir: projectDir };
    return this.#connection.list<Command>("commands", "commands", { query, signal });
  }

  /** A run, answered when it has ended. Whoever aborts ends it. */
  async run(request: RunInput, { key, signal }: RunOptions = {}): Promise<RunResult & RunIds> {
    const { body, headers } = await this.#connection.json<RunResult>("run", post(request, key, signal));
    return { ...body, ...idsOf(headers) };
  }

  /** A run, told as it goes; resolves when it has begun, or is in line. */
  async stream(request: RunInput, { key, signal }: RunOptions = {}): Promise<RunStream> {
    const one = linked(signal);
    try {
      const response = await this.#connection.open("run", post({ ...request, stream: true }, key, one.signal));
      return new RunStream(idsOf(response.headers), this.#connection.events(response, one.signal), one.end);
    } catch (error) {
      one.end();
      throw error;
    }
  }

  /** A run that goes on without its client; resolves when it is stored. */
  async begin(request: RunInput, { key, signal }: RunOptions = {}): Promise<RunBegun> {
    const call = post({ ...request, background: true }, key, signal);
    const isWhole = ({ run_id, session_id }: RunBegun) => areIds(run_id, session_id);
    return (await this.#connection.json<RunBegun>("run", call, isWhole)).body;
  }
}

function post(body: RunRequest, key: string | undefined, signal: AbortSignal | undefined): Call {
  return { method: "POST", body, headers: key === undefined ? {} : { "idempotency-key": key }, signal };
}

function idsOf(headers: Headers): RunIds {
  const model = headers.get("x-model") ?? "";
  return { sessionId: headers.get("x-session-id") ?? "", runId: headers.get("x-run-id") ?? "", model: decoded(model) };
}

/** What is no visible ASCII comes percent-encoded; a name with a bare `%` is itself. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
