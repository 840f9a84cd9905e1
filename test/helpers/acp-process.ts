import type { Profile } from "../../adapters/acp-shared/index.js";
import { AcpPeer, type Json } from "./acp-peer.js";
import { spawnGantry, type GantryOptions, type GantryServer } from "./server.js";
import type { Hooks } from "./temp.js";

/** `gantry serve --acp --stdio` as an editor starts it; `args` behind these, `profile` as the answers are checked. */
export async function spawnAcp(
  hooks: Hooks,
  options: GantryOptions & { profile?: Profile } = {},
): Promise<{ gantry: GantryServer; peer: AcpPeer }> {
  const { args = [], profile = "spec", ...rest } = options;
  const gantry = await spawnGantry(hooks, { ...rest, args: ["serve", "--acp", "--stdio", ...args] });
  const peer = new AcpPeer((text) => void gantry.child.stdin.write(`${text}\n`), profile);
  let left = "";
  gantry.child.stdout.on("data", (text: string) => {
    const lines = (left + text).split("\n");
    left = lines.pop() ?? "";
    for (const line of lines) peer.take(JSON.parse(line) as Json);
  });
  return { gantry, peer };
}
