import { ConfigError } from "../ports/errors.js";
import { escapeInvisible } from "../base/printable.js";
import type { Message, Part } from "../ports/message.js";
import type { Session } from "../ports/session.js";
import type { show } from "./about/sessions.js";
import type { CommandHandler } from "./command.js";
import { withoutGrants } from "./sessions-list.js";
import { cell, truncate, formatDollars, formatCount, formatTime } from "./table.js";
import { notFound, withSessions } from "./with-sessions.js";

/** Number of messages read at a time. */
const PAGE_SIZE = 100;
/** Maximum lines shown of a tool result. */
const MAX_TOOL_LINES = 8;
const MAX_CALL_CHARACTERS = 100;

/** `gantry sessions show ID`: prints the messages as text, or as JSON with `--json`. */
export const run: CommandHandler<typeof show.flags> = async (context) => {
  const { args, flags, output } = context;
  const [id, another] = args;
  if (id === undefined || another !== undefined) throw new ConfigError("sessions show: expected the id of one session");
  const { last, json } = flags;
  if (last !== undefined && !(Number.isSafeInteger(last) && last > 0))
    throw new ConfigError(`--last: expected a whole number above 0, got ${last}`);
  return withSessions(context, async ({ sessions }) => {
    const session = await sessions.get(id);
    if (!session) throw notFound(id);
    const original = (await sessions.get(session.chain.root)) ?? session;
    const separator = json
      ? `${JSON.stringify({ session: withoutGrants(original) }).slice(0, -1)},"messages":[`
      : heading(original);
    await output.write(separator);
    let isFirst = true;
    for await (const message of messagesOf(sessions, id, last)) {
      const text = json ? `${isFirst ? "" : ","}\n${JSON.stringify(message)}` : `\n${asText(message)}`;
      if (text.trim() !== "") await output.write(text);
      isFirst = false;
    }
    if (json) await output.write("]}\n");
    return 0;
  });
};

type Sessions = Parameters<Parameters<typeof withSessions>[1]>[0]["sessions"];

/** Reads page by page, because a session can exceed the memory. */
async function* messagesOf(sessions: Sessions, id: string, last: number | undefined): AsyncGenerator<Message> {
  if (last !== undefined) {
    yield* await sessions.messages(id, { before: Number.MAX_SAFE_INTEGER, limit: last });
    return;
  }
  for (let after = 0; ;) {
    const page = await sessions.messages(id, { after, limit: PAGE_SIZE });
    yield* page;
    const end = page.at(-1);
    if (!end || page.length < PAGE_SIZE) return;
    after = end.seq;
  }
}

function heading({ id, title, projectDir, provider, model, mode, usage, createdAt, updatedAt }: Session): string {
  const rows = [
    ["Session", id],
    ["Title", title],
    ["Folder", projectDir],
    ["Model", provider === "" ? "" : `${provider}/${model}`],
    ["Mode", mode],
    ["Usage", `${formatCount(usage.totalTokens)} tokens, ${formatDollars(usage.cost)}`],
    ["Created", formatTime(createdAt)],
    ["Last used", formatTime(updatedAt)],
  ];
  return rows
    .filter(([, value]) => value !== "")
    .map(([name = "", value = ""]) => `${name.padEnd(9)}  ${cell(value)}\n`)
    .join("");
}

const ROLE_NAMES: Readonly<Record<Message["role"], string>> = {
  user: "User",
  assistant: "Assistant",
  system: "System",
  tool: "Tool",
};

function asText({ role, name, parts, failed, finished, createdAt }: Message): string {
  const texts = parts.map((part) => partText(part, role)).filter((text) => text !== "");
  const who = role === "tool" ? `Tool ${cell(name)}${failed ? " failed" : ""}` : ROLE_NAMES[role];
  const broken = finished ? "" : " (interrupted)";
  return `--- ${who}${broken}, ${formatTime(createdAt)}\n${texts.map((text) => `${text.trimEnd()}\n`).join("")}`;
}

function partText(part: Part, role: Message["role"]): string {
  switch (part.type) {
    case "text":
      return role === "tool"
        ? firstLines(escapeInvisible(part.text, true))
        : escapeInvisible(part.originalText ?? part.text, true);
    case "reasoning":
      return "";
    case "tool_call":
      return `> ${truncate(`${cell(part.name)} ${cell(part.arguments)}`, MAX_CALL_CHARACTERS)}`;
    case "image":
      return `[image ${cell(part.mediaType)}]`;
    case "file":
      return `[file ${cell(part.filename)}]`;
  }
}

function firstLines(text: string): string {
  const lines = text.trimEnd().split("\n");
  const remainingLines = lines.length - MAX_TOOL_LINES;
  return remainingLines > 1
    ? [...lines.slice(0, MAX_TOOL_LINES), `[${remainingLines} more lines]`].join("\n")
    : lines.join("\n");
}
