import type { AdapterKind, AdapterKinds } from "../plugin/adapter.js";
import { describeType } from "../plugin/read-options.js";
import type { Listening } from "../plugin/transport.js";

type MemberType = "string" | "number" | "boolean" | "function" | "object";

/** Names of the required members of a port. */
type RequiredMember<Port> = { [Name in keyof Port]-?: object extends Pick<Port, Name> ? never : Name }[keyof Port];

/** Required members of each kind with their types, for adapters in plain JavaScript. */
const REQUIRED_MEMBERS: {
  readonly [Kind in AdapterKind]: Readonly<Record<RequiredMember<AdapterKinds[Kind]>, MemberType>>;
} = {
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

const LISTENING_MEMBERS: Readonly<Record<RequiredMember<Listening>, MemberType>> = {
  address: "string",
  ended: "object",
  stop: "function",
};

/** Returns why a value does not implement the kind's port, or undefined if it does. */
export function findAdapterFault(kind: AdapterKind, adapter: unknown): string | undefined {
  return findMemberFault(adapter, REQUIRED_MEMBERS[kind]);
}

/** Returns why a value is not a `Listening`, or undefined if it is. */
export function findListeningFault(value: unknown): string | undefined {
  return findMemberFault(value, LISTENING_MEMBERS);
}

function findMemberFault(value: unknown, members: Readonly<Record<string, MemberType>>): string | undefined {
  if ((typeof value !== "object" && typeof value !== "function") || value === null)
    return `expected an object, got ${describeType(value)}`;
  const candidate = value as Readonly<Record<string, unknown>>;
  const names = Object.keys(members);
  const missingNames = names.filter((name) => candidate[name] === undefined || candidate[name] === null);
  if (missingNames.length > 0) return `${missingNames.join(", ")} is missing`;
  const mistypedName = names.find((name) => typeof candidate[name] !== members[name]);
  return (
    mistypedName &&
    `${mistypedName}: expected ${members[mistypedName] === "object" ? "an" : "a"} ${members[mistypedName]}, got ${describeType(candidate[mistypedName])}`
  );
}
