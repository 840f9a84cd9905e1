import type { CommandDescription } from "../command-description.js";
import { adapters } from "./adapters.js";
import { check } from "./check.js";
import { doctor } from "./doctor.js";
import { newAdapter } from "./new.js";
import { chat } from "./chat.js";
import { completion } from "./completion.js";
import { webConsole } from "./console.js";
import { mcp } from "./mcp.js";
import { init } from "./init.js";
import { models } from "./models.js";
import { run } from "./run.js";
import { serve } from "./serve.js";
import { sessions } from "./sessions.js";
import { token } from "./token.js";

/** All commands, in the order of the help. */
export const COMMAND_DESCRIPTIONS: readonly CommandDescription[] = [
  init,
  chat,
  run,
  serve,
  webConsole,
  sessions,
  models,
  mcp,
  token,
  adapters,
  doctor,
  check,
  newAdapter,
  completion,
];
