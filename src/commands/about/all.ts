import type { About } from "../about.js";
import { adapters } from "./adapters.js";
import { chat } from "./chat.js";
import { models } from "./models.js";
import { serve } from "./serve.js";
import { sessions } from "./sessions.js";

/** Every command, in the order of the help. */
export const ALL: readonly About[] = [chat, serve, sessions, models, adapters];
