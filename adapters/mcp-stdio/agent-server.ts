import { isAbsolute } from "node:path";
import { hasCode, SessionNotFoundError, type Agent, type Logger, type RunInput } from "gantry";
import { isRecord } from "gantry/plugin";
import {
  ProtocolErrorCode,
  Server,
  type CallToolResult,
  type ServerContext,
  type Transport,
} from "@modelcontextprotocol/server";
import { createAskHandler } from "./ask.js";
import { formatConversation } from "./conversation-text.js";
import { MODES, TOOLS } from "./tools.js";

type ToolArguments = Readonly<Record<string, unknown>>;

/**
 * Sent to the client as a JSON-RPC error. The SDK's own error class repeats the code in its message, and clients
 * prepend the code again.
 */
class McpRequestError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly data?: Readonly<Record<string, unknown>>,
  ) {
    super(message);
  }
}

const RESOURCES_PAGE_SIZE = 50;
const DEFAULT_LISTED_SESSIONS = 20;
const MAX_LISTED_SESSIONS = 100;
const MAX_CONVERSATION_MESSAGES = 500;
/** Error code of MCP for an unknown resource. */
const RESOURCE_NOT_FOUND_CODE = -32_002;
const SESSION_URI_PATTERN = /^gantry:\/\/sessions\/([\w-]{1,100})$/;

/** Serves one MCP client: runs the agent and reads the agent's sessions. */
export class AgentServer {
  readonly #agent: Agent;
  readonly #logger: Logger;
  readonly #server: Server;
  readonly #closeController = new AbortController();
  readonly #calls = new Set<Promise<unknown>>();
  #isClosing = false;

  constructor(agent: Agent, logger: Logger) {
    this.#agent = agent;
    this.#logger = logger;
    this.#server = new Server(
      { name: "gantry", title: "Gantry", version: agent.version },
      {
        capabilities: { tools: {}, resources: {} },
        instructions:
          "gantry is an autonomous coding agent for the folder it was started in: give `run` a complete task. A session keeps the conversation; continue one by its id.",
      },
    );
    this.#server.setRequestHandler("tools/list", () => ({ tools: [...TOOLS] }));
    this.#server.setRequestHandler("tools/call", ({ params }, context) =>
      this.#track(this.#callTool(params.name, params.arguments ?? {}, context)),
    );
    this.#server.setRequestHandler("resources/templates/list", () => ({
      resourceTemplates: [
        {
          uriTemplate: "gantry://sessions/{id}",
          name: "session",
          title: "Messages of a session",
          mimeType: "text/markdown",
        },
      ],
    }));
    this.#server.setRequestHandler("resources/list", ({ params }) => this.#listResources(params?.cursor));
    this.#server.setRequestHandler("resources/read", ({ params }) => this.#readResource(params.uri));
  }

  /** `onDisconnect` is called when the client disconnects or the protocol connection breaks. */
  async connect(transport: Transport, onDisconnect: () => void): Promise<void> {
    this.#server.onclose = onDisconnect;
    this.#server.onerror = (error) => this.#logger.debug("invalid client message; ignored", { error });
    await this.#server.connect(transport);
  }

  /**
   * Rejects new calls and waits for active calls. An abort of `signal` cancels the active calls. Resolves when the
   * connection is closed.
   */
  async close(signal: AbortSignal): Promise<void> {
    this.#isClosing = true;
    const cancel = () => this.#closeController.abort(signal.reason);
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    await Promise.allSettled(this.#calls);
    await this.#server.close();
  }

  #track<T>(call: Promise<T>): Promise<T> {
    this.#calls.add(call);
    const forget = () => void this.#calls.delete(call);
    call.then(forget, forget);
    return call;
  }

  /**
   * A failure of a known tool is returned to the calling model as a tool error. An unknown tool is a protocol error for
   * the client.
   */
  async #callTool(name: string, args: ToolArguments, context: ServerContext): Promise<CallToolResult> {
    if (this.#isClosing) throw new McpRequestError(ProtocolErrorCode.InternalError, "the server is shutting down");
    try {
      switch (name) {
        case "run":
          return await this.#run(args, context);
        case "sessions":
          return await this.#listSessions(args);
        case "session":
          return textResult(await this.#readConversation(readText(args, "session"), readInteger(args, "after", 0)));
      }
    } catch (error) {
      if (error instanceof McpRequestError || context.mcpReq.signal.aborted) throw error;
      return { ...textResult(this.#describeError(error)), isError: true };
    }
    throw new McpRequestError(ProtocolErrorCode.InvalidParams, `no tool ${JSON.stringify(name.slice(0, 100))}`);
  }

  async #run(args: ToolArguments, context: ServerContext): Promise<CallToolResult> {
    const signal = AbortSignal.any([context.mcpReq.signal, this.#closeController.signal]);
    const run = await this.#agent.run({
      ...toRunInput(args),
      signal,
      ...this.#responderOptions(context),
      overflow: "merge",
    });
    const progressToken = context.mcpReq._meta?.progressToken;
    let progress = 0;
    const reportProgress = async (message: string) => {
      if (progressToken === undefined || signal.aborted) return;
      const params = { progressToken, progress: (progress += 1), message };
      // Delivery errors are ignored: the call's signal ends the run of a disconnected client.
      await context.mcpReq.notify({ method: "notifications/progress", params }).catch(() => undefined);
    };
    await reportProgress(`session ${run.sessionId}`);
    for await (const event of run) {
      if (event.type === "tool_call") await reportProgress(event.title);
      else if (event.type === "retry") await reportProgress(`retrying: ${event.error.message}`);
      else if (event.type === "compaction") await reportProgress("the conversation was compacted");
    }
    const { output, endedBy, usage } = await run.result;
    const structuredContent = {
      output,
      session: run.sessionId,
      run: run.id,
      ended_by: endedBy,
      tokens: usage.totalTokens,
      cost_usd: usage.cost,
    };
    const note = endedBy === "model" ? "" : `\n\n[The run ended at a limit and may be incomplete: ${endedBy}.]`;
    return { content: [{ type: "text", text: `${output}${note}\n\n[session ${run.sessionId}]` }], structuredContent };
  }

  /** Run options for permission requests and questions. `ask` is set only if the client supports form elicitation. */
  #responderOptions(context: ServerContext): Pick<RunInput, "ask" | "clientName" | "alwaysAsk"> {
    const { elicitation } = this.#server.getClientCapabilities() ?? {};
    const name = this.#server.getClientVersion()?.name ?? "";
    const clientName = name === "" ? "mcp" : `mcp:${[...name.replace(/\p{C}/gu, "")].slice(0, 100).join("")}`;
    // An elicitation capability without any mode implies forms. Only URL mode must be declared.
    const hasForms = elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
    return {
      clientName,
      alwaysAsk: false,
      ...(hasForms && { ask: createAskHandler(this.#server, context) }),
    };
  }

  async #listSessions(args: ToolArguments): Promise<CallToolResult> {
    const search = readOptionalText(args, "search");
    const limit = Math.min(readInteger(args, "limit", 1) ?? DEFAULT_LISTED_SESSIONS, MAX_LISTED_SESSIONS);
    const { sessions, total } = await this.#agent.sessions.list({ limit, search });
    const lines = sessions.map(
      ({ id, title, updatedAt, projectDir }) => `${id}  ${updatedAt}  ${title}  ${projectDir}`,
    );
    const sessionEntries = sessions.map(({ id, title, updatedAt, projectDir, provider, model }) => ({
      ...{ id, title, updated_at: updatedAt, project_dir: projectDir, provider, model },
    }));
    return {
      content: [{ type: "text", text: lines.length > 0 ? lines.join("\n") : "no sessions" }],
      structuredContent: { sessions: sessionEntries, total },
    };
  }

  async #readConversation(id: string, afterSeq = 0): Promise<string> {
    const session = await this.#agent.sessions.get(id);
    if (!session) throw new SessionNotFoundError(id);
    return formatConversation(
      session,
      await this.#agent.sessions.messages(id, { after: afterSeq, limit: MAX_CONVERSATION_MESSAGES }),
    );
  }

  async #listResources(cursor: string | undefined) {
    if (cursor !== undefined && !/^\d{1,9}$/.test(cursor))
      throw new McpRequestError(ProtocolErrorCode.InvalidParams, "unknown cursor");
    const offset = Number(cursor ?? 0);
    const { sessions, total } = await this.#agent.sessions.list({ limit: RESOURCES_PAGE_SIZE, offset });
    const resources = sessions.map(({ id, title, updatedAt }) => ({
      uri: `gantry://sessions/${id}`,
      ...{ name: id, title, mimeType: "text/markdown", annotations: { lastModified: updatedAt } },
    }));
    const nextOffset = offset + sessions.length;
    return { resources, ...(sessions.length > 0 && nextOffset < total && { nextCursor: String(nextOffset) }) };
  }

  async #readResource(uri: string) {
    const [, id] = SESSION_URI_PATTERN.exec(uri) ?? [];
    try {
      if (id === undefined) throw new SessionNotFoundError("");
      return { contents: [{ uri, mimeType: "text/markdown", text: await this.#readConversation(id) }] };
    } catch (error) {
      if (hasCode(error, "session_not_found"))
        throw new McpRequestError(RESOURCE_NOT_FOUND_CODE, "resource not found", { uri: uri.slice(0, 200) });
      throw new McpRequestError(ProtocolErrorCode.InternalError, this.#describeError(error));
    }
  }

  /** Error text for the client. Internal errors are logged and reported as "internal error". */
  #describeError(error: unknown): string {
    const isPublic = error instanceof Error && typeof (error as { code?: unknown }).code === "string";
    if (isPublic && !hasCode(error, "store")) return error.message;
    this.#logger.error("MCP request failed; returned an internal error", { error });
    return "internal error";
  }
}

function toRunInput(
  args: ToolArguments,
): Pick<RunInput, "message" | "commands" | "sessionId" | "provider" | "model" | "mode" | "projectDir"> {
  const model = readOptionalText(args, "model");
  const projectDir = readOptionalText(args, "project_dir");
  const mode = readOptionalText(args, "mode");
  const validMode = MODES.find((candidate) => candidate === mode);
  if (mode !== undefined && validMode === undefined) throw createArgumentError("mode", `one of ${MODES.join(", ")}`);
  if (projectDir !== undefined && !isAbsolute(projectDir)) throw createArgumentError("project_dir", "an absolute path");
  const slashIndex = model?.indexOf("/") ?? -1;
  const sessionId = readOptionalText(args, "session");
  const message = readText(args, "prompt");
  return {
    message,
    // The prompt of another agent is a task; only this command has no other tool.
    commands: sessionId !== undefined && /^\/compact(\s|$)/.test(message),
    ...(sessionId !== undefined && { sessionId }),
    ...(model !== undefined &&
      (slashIndex < 0 ? { model } : { provider: model.slice(0, slashIndex), model: model.slice(slashIndex + 1) })),
    ...(validMode !== undefined && { mode: validMode }),
    ...(projectDir !== undefined && { projectDir }),
  };
}

function textResult(message: string): CallToolResult {
  return { content: [{ type: "text", text: message }] };
}

function createArgumentError(field: string, expected: string): McpRequestError {
  return new McpRequestError(ProtocolErrorCode.InvalidParams, `${field}: expected ${expected}`);
}

function readText(args: ToolArguments, field: string): string {
  const value = readOptionalText(args, field);
  if (value === undefined || value.trim() === "") throw createArgumentError(field, "a string that is not empty");
  return value;
}

function readOptionalText(args: ToolArguments, field: string): string | undefined {
  const value = isRecord(args) ? (args[field] ?? undefined) : undefined;
  if (value !== undefined && typeof value !== "string") throw createArgumentError(field, "a string");
  return value === "" ? undefined : value;
}

function readInteger(args: ToolArguments, field: string, min: number): number | undefined {
  const value = args[field] ?? undefined;
  if (value === undefined) return undefined;
  if (!Number.isSafeInteger(value) || (value as number) < min)
    throw createArgumentError(field, `an integer from ${min}`);
  return value as number;
}
