import { Agent, type AgentOptions, type Logger, type Tool, type ToolContext, type ToolOutput } from "gantry";
import { ToolInputError } from "gantry/plugin";
import { ScriptedProvider, type ScriptedProviderOptions, type ScriptedStep } from "gantry/testing";
import { ACP_DEFAULTS, AcpServer, type AcpConnection, type AcpOptions } from "../../adapters/acp-shared/index.js";
import { silentLogger } from "gantry";
import { AcpPeer } from "./acp-peer.js";
import type { Hooks } from "./temp-dir.js";

/** A tool for tests. Its arguments are an object without a schema. */
export function createTestTool(
  name: string,
  run: (args: Record<string, unknown>, context: ToolContext) => Promise<ToolOutput> | ToolOutput,
  spec: Partial<Tool> = {},
): Tool<Record<string, unknown>> {
  return {
    name,
    description: name,
    inputSchema: { type: "object" },
    kind: "other",
    parallel: false,
    needsPermission: false,
    parse: (input) => {
      if (typeof input !== "object" || input === null) throw new ToolInputError("expected an object");
      return input as Record<string, unknown>;
    },
    describe: (args) => ({ title: `${name} ${JSON.stringify(args)}`, locations: [{ path: "/tmp/place", line: 3 }] }),
    run: async (args, context) => run(args, context),
    ...spec,
  };
}

/** Repeats the last message in two chunks, each after a pause of 1 ms. */
export const echoLastMessage: ScriptedStep = ({ messages }) => {
  const lastTexts = messages.at(-1)?.parts.map((part) => ("text" in part ? part.text : "")) ?? [];
  return [1, { type: "text", block: "t", text: "echo " }, 1, { type: "text", block: "t", text: lastTexts.join("") }];
};

/** An agent whose model plays the steps. The agent's questions do not wait for disconnected clients. */
export function createScriptedAgent(
  hooks: Hooks,
  steps: readonly ScriptedStep[] = [],
  options: Partial<AgentOptions> & { provider?: ScriptedProviderOptions } = {},
): { agent: Agent; provider: ScriptedProvider } {
  const { provider: providerOptions, ...agentOptions } = options;
  const provider = new ScriptedProvider(steps, providerOptions);
  const agent = new Agent({ providers: [provider], logger: silentLogger, clientGraceSeconds: 0, ...agentOptions });
  hooks.after(() => agent.close());
  return { agent, provider };
}

/** A server on an agent, with clients that connect without a socket. */
export class InProcessAcp {
  readonly server: AcpServer;
  readonly options: AcpOptions;

  constructor(hooks: Hooks, agent: Agent, options: Partial<AcpOptions> = {}, logger: Logger = silentLogger) {
    this.options = { ...ACP_DEFAULTS, ...options };
    this.server = new AcpServer(agent, this.options, logger);
    hooks.after(() => this.server.close());
  }

  connect(): AcpPeer & { connection: AcpConnection } {
    const peer = new AcpPeer(
      (text) => connection.receive(text),
      this.options.profile === "official" ? "official" : "spec",
    );
    const connection = this.server.connect({
      // Serialized as JSON, as on a wire.
      send: (message) => peer.receiveMessage(JSON.parse(JSON.stringify(message))),
      waitUntilReady: () => undefined,
      waitForReader: () => undefined,
      isReachable: true,
    });
    return Object.assign(peer, { connection });
  }
}
