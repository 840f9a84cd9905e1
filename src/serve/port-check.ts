import type { AdapterKind, AdapterKinds } from "../plugin/adapter.js";
import { kindOf } from "../plugin/read-options.js";
import type { Listening } from "../plugin/transport.js";

type MemberType = "string" | "number" | "boolean" | "function" | "object";

/** Required members of a port. */
type Needed<Port> = { [Name in keyof Port]-?: object extends Pick<Port, Name> ? never : Name }[keyof Port];

/** Required members of each kind with their types. The check also covers plain JavaScript. */
const MEMBERS: { readonly [Kind in AdapterKind]: Readonly<Record<Needed<AdapterKinds[Kind]>, MemberType>> } = {
  transport: { name: "string", start: "function" },
  "session-driver": {
    name: "string",
    open: "function",
    close: "function",
    create: "function",
    get: "function",
    list: "function",
    messages: "function",
    head: "function",
    runs: "function",
    asks: "function",
    instructions: "function",
    write: "function",
    delete: "function",
    lease: "function",
    dump: "function",
    load: "function",
  },
  "model-provider": {
    name: "string",
    idleTimeoutMs: "number",
    maxRetries: "number",
    maxWaitMs: "number",
    configuredModels: "object",
    models: "function",
    stream: "function",
    close: "function",
  },
  tool: {
    name: "string",
    description: "string",
    inputSchema: "object",
    kind: "string",
    parallel: "boolean",
    needsPermission: "boolean",
    parse: "function",
    describe: "function",
    run: "function",
  },
  "tool-source": { name: "string", open: "function" },
  "compaction-strategy": { name: "string", compact: "function" },
  "permission-policy": { name: "string", judge: "function" },
  hooks: {},
};

const LISTENING: Readonly<Record<Needed<Listening>, MemberType>> = {
  address: "string",
  ended: "object",
  stop: "function",
};

/** Returns why a value does not implement the kind's port, or undefined if it does. */
export function partFault(kind: AdapterKind, part: unknown): string | undefined {
  return memberFault(part, MEMBERS[kind]);
}

/** Returns why a value is not a `Listening`, or undefined if it is. */
export function listeningFault(value: unknown): string | undefined {
  return memberFault(value, LISTENING);
}

function memberFault(value: unknown, members: Readonly<Record<string, MemberType>>): string | undefined {
  if ((typeof value !== "object" && typeof value !== "function") || value === null)
    return `expected an object, got ${kindOf(value)}`;
  const part = value as Readonly<Record<string, unknown>>;
  const names = Object.keys(members);
  const missing = names.filter((name) => part[name] === undefined || part[name] === null);
  if (missing.length > 0) return `${missing.join(", ")} is missing`;
  const odd = names.find((name) => typeof part[name] !== members[name]);
  return odd && `${odd}: expected ${members[odd] === "object" ? "an" : "a"} ${members[odd]}, got ${kindOf(part[odd])}`;
}
