import path from "node:path";
import { parseArgs } from "node:util";
import { ROOT, type BenchOptions, type Peer } from "./bench.js";
import { readHttpPeer } from "./http-peer.js";
import { DOCUMENT } from "./measured-commit.js";
import { ROWS, getRow } from "./rows.js";

export const PROFILES = ["start", "turn", "runs", "stream", "postgres-turn", "postgres-runs"] as const;
export type ProfileKind = (typeof PROFILES)[number];

/** Options of the output, in addition to those of the measurement. */
export interface CommandOptions extends BenchOptions {
  /** File for the results as JSON; undefined: none. */
  json: string | undefined;
  /** Document whose table is replaced; undefined: none. */
  markdown: string | undefined;
  /** Whether the table of docs/performance.md is replaced, with the current commit. */
  write: boolean;
  /** Whether a failed row sets exit code 1. */
  check: boolean;
  /** Kind of work to profile instead of the measurement; undefined: measure the rows. */
  profile: ProfileKind | undefined;
}

export const HELP = `npm run bench -- [options]
  --quick               fewer rounds, about two minutes
  --rows a,b            these rows alone: ${ROWS.map(({ id }) => id).join(", ")}
  --check               exit code 1 where a row fails
  --json FILE           the results as JSON
  --markdown FILE       the table between the marks of a document
  --write               the table of docs/performance.md, with the commit: all rows, of a commit without changes
  --product DIR         measure another checkout, built
  --node PATH           run gantry and the floors on another Node
  --peer NAME=COMMAND   an ACP agent over stdio beside it; {model} becomes the model's base URL; repeatable
  --peer-http FILE      a server beside it, as docs/performance.md says; repeatable
  --model-port N        where the model listens, for peers whose config names it
  --profile WHAT        the ten largest costs instead: ${PROFILES.join(", ")}
`;

/** Parses the arguments. Throws an error with a readable message for invalid arguments. */
export function parseOptions(args: readonly string[]): CommandOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: "boolean", default: false },
      check: { type: "boolean", default: false },
      rows: { type: "string", default: "" },
      json: { type: "string" },
      markdown: { type: "string" },
      write: { type: "boolean", default: false },
      product: { type: "string", default: ROOT },
      node: { type: "string", default: process.execPath },
      peer: { type: "string", multiple: true, default: [] },
      "peer-http": { type: "string", multiple: true, default: [] },
      "model-port": { type: "string", default: "0" },
      profile: { type: "string" },
    },
  });
  const profile = PROFILES.find((kind) => kind === values.profile);
  if (values.profile !== undefined && !profile) throw new Error(`--profile is one of ${PROFILES.join(", ")}`);
  const rows = values.rows.split(",").filter(Boolean);
  for (const row of rows) getRow(row);
  if (values.write && (values.quick || rows.length > 0 || path.resolve(values.product) !== path.resolve(ROOT)))
    throw new Error("--write measures all rows of this checkout: without --quick, --rows and --product");
  return {
    quick: values.quick,
    check: values.check,
    rows,
    json: values.json,
    markdown: values.write ? DOCUMENT : values.markdown,
    write: values.write,
    product: path.resolve(values.product),
    node: path.resolve(values.node),
    peers: values.peer.map((text) => parsePeer(text)),
    httpPeers: values["peer-http"].map(readHttpPeer),
    modelPort: Number(values["model-port"]),
    profile,
  };
}

/** Parses `name=command`, split at the first `=`. */
function parsePeer(text: string): Peer {
  const separatorIndex = text.indexOf("=");
  if (separatorIndex < 1) throw new Error(`a peer is NAME=COMMAND, not ${text}`);
  return { name: text.slice(0, separatorIndex), command: text.slice(separatorIndex + 1) };
}
