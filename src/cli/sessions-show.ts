import { ConfigError } from "../ports/errors.js";
import { escapeInvisible } from "../base/printable.js";
import type { Message, Part } from "../ports/message.js";
import type { Session } from "../ports/session.js";
import type { show } from "./descriptions/sessions.js";
import type { CommandHandler } from "./command.js";
import { withoutGrants } from "./sessions-list.js";
import { formatCell, truncate, formatCost, formatCount, formatTime } from "./table.js";
import { createNotFoundError, withSessions } from "./with-sessions.js";

/** Number of messages per read. */
const PAGE_SIZE = 100;
/** Maximum lines shown of a tool result. */
const MAX_TOOL_LINES = 8;
const MAX_CALL_CHARACTERS = 100;
/** Width of the labels in the heading. */
const LABEL_CHARACTERS = 9;

/** `gantry sessions show ID`: prints the messages as text, or as JSON with `--json`. */
export const run: CommandHandler<typeof show.flags> = async (context) => {
  const { args, flags, output } = context;
  const [id, extraArgument] = args;
  if (id === undefined || extraArgument !== undefined)
    throw new ConfigError("sessions show: expected the id of one session");
  const { last, json } = flags;
  if (last !== undefined && !(Number.isSafeInteger(last) && last > 0))
    throw new ConfigError(`--last: expected a whole number above 0, got ${last}`);
  return withSessions(context, async ({ sessions }) => {
    const session = await sessions.get(id);
    if (!session) throw createNotFoundError(id);
    const rootSession = (await sessions.get(session.chain.root)) ?? session;
    const heading = json
      ? `${JSON.stringify({ session: withoutGrants(rootSession) }).slice(0, -1)},"messages":[`
      : formatHeading(rootSession);
    await output.write(heading);
    let isFirstMessage = true;
    for await (const message of readMessages(sessions, id, last)) {
      const text = json ? `${isFirstMessage ? "" : ","}\n${JSON.stringify(message)}` : `\n${formatMessage(message)}`;
      if (text.trim() !== "") await output.write(text);
      isFirstMessage = false;
    }
    if (json) await output.write("]}\n");
    return 0;
  });
};

type Sessions = Parameters<Parameters<typeof withSessions>[1]>[0]["sessions"];

/** Reads the last `lastCount` messages, or all messages in pages, because a session can be larger than the memory. */
async function* readMessages(sessions: Sessions, id: string, lastCount: number | undefined): AsyncGenerator<Message> {
  if (lastCount !== undefined) {
    yield* await sessions.messages(id, { before: Number.MAX_SAFE_INTEGER, limit: lastCount });
    return;
  }
  for (let lastSeq = 0; ;) {
    const page = await sessions.messages(id, { after: lastSeq, limit: PAGE_SIZE });
    yield* page;
    const lastMessage = page.at(-1);
    if (!lastMessage || page.length < PAGE_SIZE) return;
    lastSeq = lastMessage.seq;
  }
}

function formatHeading({ id, title, projectDir, provider, model, mode, usage, createdAt, updatedAt }: Session): string {
  const rows = [
    ["Session", id],
    ["Title", title],
    ["Folder", projectDir],
    ["Model", provider === "" ? "" : `${provider}/${model}`],
    ["Mode", mode],
    ["Usage", `${formatCount(usage.totalTokens)} tokens, ${formatCost(usage, provider)}`],
    ["Created", formatTime(createdAt)],
    ["Last used", formatTime(updatedAt)],
  ];
  return rows
    .filter(([, value]) => value !== "")
    .map(([name = "", value = ""]) => `${name.padEnd(LABEL_CHARACTERS)}  ${formatCell(value)}\n`)
    .join("");
}

const ROLE_NAMES: Readonly<Record<Message["role"], string>> = {
  user: "User",
  assistant: "Assistant",
  system: "System",
  tool: "Tool",
};

function formatMessage({ role, name, parts, failed, finished, createdAt }: Message): string {
  const texts = parts.map((part) => formatPart(part, role)).filter((text) => text !== "");
  const author = role === "tool" ? `Tool ${formatCell(name)}${failed ? " failed" : ""}` : ROLE_NAMES[role];
  const interruptedText = finished ? "" : " (interrupted)";
  return `--- ${author}${interruptedText}, ${formatTime(createdAt)}\n${texts.map((text) => `${text.trimEnd()}\n`).join("")}`;
}

function formatPart(part: Part, role: Message["role"]): string {
  switch (part.type) {
    case "text":
      return role === "tool"
        ? truncateLines(escapeInvisible(part.text, true))
        : escapeInvisible(part.originalText ?? part.text, true);
    case "reasoning":
      return "";
    case "tool_call":
      return `> ${truncate(`${formatCell(part.name)} ${formatCell(part.arguments)}`, MAX_CALL_CHARACTERS)}`;
    case "image":
      return `[image ${formatCell(part.mediaType)}]`;
    case "file":
      return `[file ${formatCell(part.filename)}]`;
  }
}

function truncateLines(text: string): string {
  const lines = text.trimEnd().split("\n");
  const remainingLines = lines.length - MAX_TOOL_LINES;
  return remainingLines > 1
    ? [...lines.slice(0, MAX_TOOL_LINES), `[${remainingLines} more lines]`].join("\n")
    : lines.join("\n");
}
