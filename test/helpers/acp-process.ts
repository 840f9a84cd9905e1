import type { Profile } from "../../adapters/acp-shared/index.js";
import { AcpPeer, type Json } from "./acp-peer.js";
import { spawnGantry, type GantryOptions, type GantryServer } from "./server.js";
import type { Hooks } from "./temp-dir.js";

/**
 * Starts `gantry serve --acp --stdio` as an editor does, with `args` appended. `profile` selects the validation of
 * answers.
 */
export async function spawnAcpServer(
  hooks: Hooks,
  options: GantryOptions & { profile?: Profile } = {},
): Promise<{ gantry: GantryServer; peer: AcpPeer }> {
  const { args = [], profile = "spec", ...gantryOptions } = options;
  const gantry = await spawnGantry(hooks, { ...gantryOptions, args: ["serve", "--acp", "--stdio", ...args] });
  const peer = new AcpPeer((text) => void gantry.child.stdin.write(`${text}\n`), profile);
  let incompleteLine = "";
  gantry.child.stdout.on("data", (text: string) => {
    const lines = (incompleteLine + text).split("\n");
    incompleteLine = lines.pop() ?? "";
    for (const line of lines) peer.receiveMessage(JSON.parse(line) as Json);
  });
  return { gantry, peer };
}
