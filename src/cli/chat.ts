import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { TerminalOptions } from "gantry/adapters/terminal";
import { ConfigError } from "../ports/errors.js";
import { environment } from "../serve/environment.js";
import type { FlagsOf } from "./about.js";
import type { chat } from "./about/chat.js";
import type { ChatServer } from "./chat-server.js";
import type { CommandHandler } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";

/** Exit code if standard input or output is not a terminal with cursor control. */
const NO_TERMINAL = 2;

/**
 * `gantry chat`: uses a running agent, or starts one that stops with the chat. The first frame is drawn before the
 * config and the server are loaded.
 */
export const run: CommandHandler<typeof chat.flags> = async ({ args, flags, output, interrupted }) => {
  refuseArguments(args);
  const { stdin, stdout } = process;
  if (!stdin.isTTY || !stdout.isTTY || environment("TERM") === "dumb") {
    output.report(
      'gantry: chat needs a terminal; in scripts use: gantry run "prompt", and from programs the HTTP API: gantry serve',
    );
    return NO_TERMINAL;
  }
  const address = flags.url === undefined ? undefined : addressOf(flags.url);
  const folder = realpathSync(resolve("."));
  const { openTerminal } = await import("gantry/adapters/terminal");
  let server: ChatServer | undefined;
  let tell = (line: string) => output.report(line);
  try {
    const { session } = await openTerminal({
      input: stdin,
      output: stdout,
      serve: async () => {
        const { openChatServer } = await import("./chat-server.js");
        return (server = await openChatServer(flags, address, folder, (line) => tell(line)));
      },
      onReady: (shown) => (tell = shown),
      session: flags.continue ? "last" : flags.session,
      newSessionOptions: { ...modelOf(flags.model), ...sessionOptions(flags) },
      ...(address ? {} : { projectDir: folder }),
      files: async (at, signal) => {
        const searchFolder = at ?? (address ? undefined : folder);
        const { isLoopback } = await import("../http/web-safety.js");
        if (searchFolder === undefined || (address && !isLoopback(address.hostname))) return [];
        const { projectFiles } = await import("./project-files.js");
        return projectFiles(realpathSync(searchFolder), signal);
      },
      place: address ? address.origin : folder,
      colours: (environment("NO_COLOR") ?? "") === "",
      signal: interrupted(),
    });
    tell = (line) => output.report(line);
    if (session !== undefined) {
      const way = address ? `--url ${address.origin} ` : "";
      output.report(`gantry: continue with: gantry chat ${way}--session ${session}`);
    }
  } finally {
    tell = (line) => output.report(line);
    await server?.close();
  }
  return 0;
};

function addressOf(url: string): URL {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  if (!address || !/^https?:$/.test(address.protocol) || address.username !== "" || address.pathname !== "/")
    throw new ConfigError(`--url: expected an address like http://127.0.0.1:8080, got ${JSON.stringify(url)}`);
  return address;
}

function modelOf(model: string | undefined): { provider?: string; model?: string } {
  if (model === undefined) return {};
  const at = model.indexOf("/");
  return at === -1 ? { model } : { provider: model.slice(0, at), model: model.slice(at + 1) };
}

/** Session options from the flags. Their values have been validated against the command's description. */
function sessionOptions({ mode, effort }: FlagsOf<typeof chat.flags>): TerminalOptions["newSessionOptions"] {
  const options = { ...(mode !== undefined && { mode }), ...(effort !== undefined && { reasoning_effort: effort }) };
  return options as TerminalOptions["newSessionOptions"];
}
