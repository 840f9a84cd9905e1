import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  checkUserName,
  createTokenValue,
  hashToken,
  readTokenFile,
  USER_TOKENS_FILE_NAME,
  writeTokenFile,
  type UserToken,
} from "../http/token-file.js";
import { ConfigError } from "../ports/errors.js";
import type { UserScope } from "../ports/user.js";
import { ProcessLock } from "../sessions/process-lock.js";
import { loadConfigWithFlags, type CommandHandler } from "./command.js";
import type { add, list, revoke } from "./descriptions/token.js";
import { refuseArguments } from "./refuse-arguments.js";
import { formatTable } from "./table.js";

const LOCK_POLL_INTERVAL_MS = 50;
const DEFAULT_SCOPES: readonly UserScope[] = ["read", "run", "approve"];
const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `gantry token add|list|revoke`. A running server reads the file again within half a second. */
export const run: CommandHandler<typeof add.flags & typeof list.flags & typeof revoke.flags> = async (context) => {
  const { loadedConfig, home } = await loadConfigWithFlags({ config: context.flags.config });
  const { tokens } = loadedConfig.config.server;
  const file = resolve(home, tokens === "" ? USER_TOKENS_FILE_NAME : tokens);
  try {
    if (context.name === "token list") return await listTokens(context, file);
    const change = context.name === "token revoke" ? revokeToken : addToken;
    const code = await withLock(file, () => change(context, file));
    if (change === addToken && tokens === "")
      context.output.report(
        `servers do not read it yet: set "server": { "tokens": "${USER_TOKENS_FILE_NAME}" } in ${loadedConfig.file}`,
      );
    return code;
  } catch (error) {
    throw error instanceof ConfigError ? error : new ConfigError((error as Error).message, { cause: error });
  }
};

type Context = Parameters<typeof run>[0];

/** Changes the file while no other process does: an `add` could otherwise restore a token that was just revoked. */
async function withLock(file: string, change: () => Promise<number>): Promise<number> {
  const lock = await ProcessLock.acquire(`${file}.lock`, () => sleep(LOCK_POLL_INTERVAL_MS));
  try {
    return await change();
  } finally {
    lock.release();
  }
}

async function addToken({ name: command, args, flags, output }: Context, file: string): Promise<number> {
  const name = readName(command, args);
  const { scope = [], expires, projectRoot = [], dailyBudget, rate } = flags;
  if (dailyBudget !== undefined && !(dailyBudget >= 0))
    throw new ConfigError("--daily-budget: expected a number of USD, at least 0");
  if (rate !== undefined && !(Number.isSafeInteger(rate) && rate > 0))
    throw new ConfigError("--rate: expected a whole number, at least 1");
  const tokens = await readTokenFile(file);
  if (tokens.some((token) => token.name === name))
    throw new ConfigError(`${name} has a token already: revoke it first with gantry token revoke ${name}`);
  const value = createTokenValue();
  const token: UserToken = {
    name,
    hash: hashToken(value),
    scopes: scope.length > 0 ? ([...new Set(scope)] as UserScope[]) : DEFAULT_SCOPES,
    ...(projectRoot.length > 0 && { projectRoots: projectRoot.map((path) => resolve(path)) }),
    ...(dailyBudget !== undefined && { dailyBudget }),
    ...(rate !== undefined && { requestsPerMinute: rate }),
    createdAt: new Date().toISOString(),
    ...(expires !== undefined && { expiresAt: readExpiry(expires) }),
  };
  await writeTokenFile(file, [...tokens, token]);
  await output.write(`${value}\n`);
  output.report(`${name} may now use this token; it is shown only once, because ${file} stores its hash`);
  return 0;
}

async function listTokens({ args, flags, output }: Context, file: string): Promise<number> {
  refuseArguments(args);
  const tokens = await readTokenFile(file);
  const users = tokens.map(({ hash: _, ...user }) => user);
  if (flags.json) await output.write(`${JSON.stringify(users, null, 2)}\n`);
  else if (users.length === 0) output.report(`${file}: no tokens; gantry token add NAME creates one`);
  else {
    const rows = users.map(({ name, scopes, expiresAt, projectRoots, dailyBudget, requestsPerMinute }) => [
      name,
      scopes.join(" "),
      expiresAt === undefined ? "never" : Date.parse(expiresAt) <= Date.now() ? "expired" : expiresAt.slice(0, 16),
      projectRoots?.join(" ") ?? "all",
      dailyBudget === undefined ? "" : String(dailyBudget),
      requestsPerMinute === undefined ? "" : String(requestsPerMinute),
    ]);
    const headings = ["NAME", "SCOPES", "EXPIRES", "FOLDERS", "USD/DAY", "REQ/MIN"];
    const columns = output.isStdoutTerminal ? output.columns : undefined;
    await output.write(formatTable(headings, rows, { columns, rightAlignedColumns: [4, 5] }));
  }
  return 0;
}

async function revokeToken({ name: command, args, output }: Context, file: string): Promise<number> {
  const name = readName(command, args);
  const tokens = await readTokenFile(file);
  const remainingTokens = tokens.filter((token) => token.name !== name);
  if (remainingTokens.length === tokens.length) throw new ConfigError(`${file}: ${name} has no token`);
  await writeTokenFile(file, remainingTokens);
  output.report(`the token of ${name} is revoked`);
  return 0;
}

function readName(command: string, [name, ...otherArgs]: readonly string[]): string {
  if (name === undefined || otherArgs.length > 0) throw new ConfigError(`${command}: expected the name of a user`);
  checkUserName(name);
  return name;
}

/** Returns the time at which a token expires, in ISO 8601. */
function readExpiry(text: string): string {
  const [, count, unit = ""] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
  const timeMs = count === undefined ? Date.parse(text) : Date.now() + Number(count) * UNIT_MS[unit]!;
  if (Number.isNaN(timeMs) || timeMs <= Date.now())
    throw new ConfigError("--expires: expected a duration such as 30d, 12h or 45m, or a date in the future");
  return new Date(timeMs).toISOString();
}
