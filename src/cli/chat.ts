import { realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import type { TerminalOptions } from "gantry/adapters/terminal";
import { getEnvironmentVariable } from "../serve/environment.js";
import type { FlagsOf } from "./command-description.js";
import type { chat } from "./descriptions/chat.js";
import type { ChatServer } from "./chat-server.js";
import type { CommandHandler } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";

/** Exit code if standard input or output is not a terminal, or the terminal has no cursor control. */
const NO_TERMINAL_EXIT_CODE = 2;

/**
 * `gantry chat`: uses a running agent, or starts one that stops with the chat. The first frame is drawn before the
 * config and the server are loaded.
 */
export const run: CommandHandler<typeof chat.flags> = async ({ args, flags, output, handleInterrupts }) => {
  refuseArguments(args);
  const { stdin, stdout } = process;
  if (!stdin.isTTY || !stdout.isTTY || getEnvironmentVariable("TERM") === "dumb") {
    output.report(
      'gantry: chat needs a terminal; in scripts use: gantry run "prompt", and from programs the HTTP API: gantry serve',
    );
    return NO_TERMINAL_EXIT_CODE;
  }
  const { url, model } = flags;
  const loadParsers = () => import("./chat-flags.js");
  if (flags.worktree) (await loadParsers()).checkWorktree(flags);
  const address = url === undefined ? undefined : (await loadParsers()).parseAddress(url);
  const folder = realpathSync(resolve("."));
  const { openTerminal } = await import("gantry/adapters/terminal");
  let server: ChatServer | undefined;
  let reportLine = (line: string) => output.report(line);
  try {
    const { session } = await openTerminal({
      input: stdin,
      output: stdout,
      serve: async () => {
        const { openChatServer } = await import("./chat-server.js");
        return (server = await openChatServer(flags, address, folder, (line) => reportLine(line)));
      },
      onReady: (showLine) => (reportLine = showLine),
      session: flags.continue ? "last" : flags.session,
      newSessionOptions: {
        ...(model !== undefined && (await loadParsers()).parseModel(model)),
        ...toSessionOptions(flags),
      },
      ...(address ? {} : { projectDir: folder }),
      listFiles: async (requestedFolder, signal) => {
        const searchFolder = requestedFolder ?? (address ? undefined : folder);
        if (searchFolder === undefined || !(await isServerLocal(address))) return [];
        const { listProjectFiles } = await import("./project-files.js");
        return listProjectFiles(realpathSync(searchFolder), signal);
      },
      isServerLocal: () => isServerLocal(address),
      location: address ? address.origin : folder,
      stateFolder: async () => join((await import("../serve/config.js")).getHomeFolder(), "terminal"),
      hasColours: (getEnvironmentVariable("NO_COLOR") ?? "") === "",
      getEditor: () => ["VISUAL", "EDITOR"].map(getEnvironmentVariable).find((command = "") => command.trim() !== ""),
      signal: handleInterrupts(),
    });
    reportLine = (line) => output.report(line);
    if (session !== undefined) {
      const urlFlag = address ? `--url ${address.origin} ` : "";
      output.report(`gantry: continue with: gantry chat ${urlFlag}--session ${session}`);
    }
  } finally {
    reportLine = (line) => output.report(line);
    await server?.close();
  }
  return 0;
};

/** Whether the agent runs on this machine: without an address it is part of this process. */
async function isServerLocal(address: URL | undefined): Promise<boolean> {
  return !address || (await import("../http/web-safety.js")).isLoopback(address.hostname);
}

/** Returns session options from the flags, whose values have been validated against the command's description. */
function toSessionOptions(flags: FlagsOf<typeof chat.flags>): TerminalOptions["newSessionOptions"] {
  const { mode, effort, worktree } = flags;
  const options = {
    ...(mode !== undefined && { mode }),
    ...(effort !== undefined && { reasoning_effort: effort }),
    ...(worktree && { worktree }),
  };
  return options as TerminalOptions["newSessionOptions"];
}
